# %% [markdown]
"""MEG over training: a PPO of Stable-Baselines3 learns CartPole, and a plot shows how MEG rises.

States of CartPole do not recur, so soft values are fitted to the recorded steps and checked by
fresh episodes; the intervals are 95% confidence intervals. It takes about four minutes of one core.
"""

# %%
import numpy as np
from matplotlib.figure import Figure
from stable_baselines3 import PPO

import goalmeter as gm

LENGTHS = [0, 2_048, 4_096, 8_192, 16_384]  # steps of training
HORIZON = 200  # decisions of an episode; at most 500 in CartPole
model = PPO("MlpPolicy", "CartPole-v1", n_steps=1_024, batch_size=64, seed=0)

results = []
for length in LENGTHS:
    if length:
        model.learn(length - model.num_timesteps, reset_num_timesteps=False)
    result = gm.meg.from_simulator("CartPole-v1", model, horizon=HORIZON, budget=40_000)
    results.append(result)
    low, high = result.interval
    print(f"after {length:6} steps of training: {result.value:.2f} nats [{low:.2f}, {high:.2f}]")

# %% The last result, with its assumptions and the number of steps that would halve its interval.
print(result)

# %% The plot: estimates, and bars from the lower to the upper end of the interval.
figure = Figure(figsize=(6, 3.5), layout="constrained")
axes = figure.subplots()
values = np.array([result.value for result in results])
low, high = np.array([result.interval for result in results]).T
axes.errorbar(LENGTHS, values, [values - low, high - values], marker="o", capsize=3)
axes.set(xlabel="steps of training", ylabel="MEG, nats", ylim=(0, None))
figure.savefig("meg-over-training.svg")
# %% [markdown]
# MEG rises with training. The last two intervals overlap: after 16,384 steps most episodes last 200
# decisions, and a larger horizon and budget would tell more.
#
# Where states recur, they are counted instead, and the intervals are narrower. For an environment
# of your own, state which states are identical (`state="observation"`) and where its randomness
# comes from (`chance="generator"`): see "An environment of your own" in docs/notes/meg.md.
