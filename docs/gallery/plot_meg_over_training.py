"""
MEG over training
=================

A PPO agent of Stable-Baselines3 learns CartPole, and MEG rises. States of CartPole do not recur, so
soft values are fitted to the recorded steps and checked by fresh episodes; the intervals are 95%
confidence intervals. The program takes about forty seconds of one core.
"""

# %%
# Train in stages, and measure the agent before the first and after each stage:
import matplotlib.pyplot as plt
import numpy as np
from stable_baselines3 import PPO

import goalmeter as gm

LENGTHS = [0, 2_048, 4_096, 8_192]  # steps of training
HORIZON = 50  # decisions of an episode; at most 500 in CartPole
model = PPO("MlpPolicy", "CartPole-v1", n_steps=1_024, batch_size=64, seed=0)

results = []
for length in LENGTHS:
    if length:
        model.learn(length - model.num_timesteps, reset_num_timesteps=False)
    result = gm.meg.from_simulator("CartPole-v1", model, horizon=HORIZON, budget=20_000)
    results.append(result)
    low, high = result.interval
    print(f"after {length:6} steps of training: {result.value:.2f} nats [{low:.2f}, {high:.2f}]")

# %%
# The last result, with its assumptions:
print(result)

# %%
# Where states recur, they are counted instead, and the intervals are narrower. For an environment
# of your own, state which states are identical (``state="observation"``) and where its randomness
# comes from (``chance="generator"``).
#
# The figure shows the estimates with their intervals. MEG rises with training, and the intervals
# do not overlap. The untrained agent is the control: an interval above 0 would show a bias.
#
# The figure does not compare CartPole with other worlds, since MEG in nats grows with the number of
# decisions, nor one training run with another: it has a single seed.
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
values = np.array([result.value for result in results])
low, high = np.array([result.interval for result in results]).T
axes.errorbar(LENGTHS, values, [values - low, high - values], marker="o", capsize=3)
axes.set(title="MEG over training", ylim=(0, None))
axes.set(xlabel="steps of training", ylabel="MEG, nats")
plt.show()
