# %% [markdown]
"""MEG over training: an environment of your own, a model of Stable-Baselines3, and a picture.

The environment is known by `reset` and `step` alone. After each piece of training MEG is estimated
with a 95% confidence interval, which assumes the declared source of randomness.
"""

# %% An environment: a field of 3 by 3 cells, with slippery ground and cheese in one of them.
import gymnasium
import numpy as np
from matplotlib.figure import Figure
from stable_baselines3 import PPO

import goalmeter as gm

SIZE, CHEESE = 3, 5
MOVES = [(0, -1), (0, 1), (-1, 0), (1, 0)]


class Field(gymnasium.Env):
    """Cells are numbered by rows; the mouse starts at 0, and the cheese ends an episode."""

    observation_space = gymnasium.spaces.Discrete(SIZE * SIZE)
    action_space = gymnasium.spaces.Discrete(len(MOVES))

    def reset(self, *, seed=None, options=None):
        """Back to the first cell."""
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, {}

    def step(self, action):
        """One move, or a slip."""
        if self.np_random.random() >= 0.1:  # else it slips and stays where it is
            row, column = np.add(divmod(self.cell, SIZE), MOVES[action]).clip(0, SIZE - 1)
            self.cell = int(row * SIZE + column)
        at_cheese = self.cell == CHEESE
        return self.cell, float(at_cheese), at_cheese, False, {}


# %% [markdown]
# The observation determines the distribution of all that follows (`state="observation"`), so every
# action of every cell can be sampled. All randomness comes from Gymnasium's generator,
# `self.np_random` (`chance="generator"`).

# %%
HORIZON = 6
train = gymnasium.wrappers.TimeLimit(Field(), 30)
model = PPO("MlpPolicy", train, n_steps=256, batch_size=64, learning_rate=1e-3, seed=0)

history = []
for piece in range(6):
    if piece:
        model.learn(512, reset_num_timesteps=False)
    result = gm.meg.from_simulator(
        Field(),
        model,
        horizon=HORIZON,
        budget=20_000,
        state="observation",
        chance="generator",
    )
    history.append(result)
    low, high = result.interval
    print(
        f"after {512 * piece:4} steps of training: [{low:.2f}, {high:.2f}] nats, "
        f"estimate {result.value:.2f}, of at most {result.maximum:.2f}"
    )

# %% The last result, with its assumptions and the number of steps that would halve its interval.
print(result)

# %% The picture: estimates, and bars from the lower to the upper end.
figure = Figure(figsize=(6, 3.5), layout="constrained")
axes = figure.subplots()
steps = [512 * piece for piece in range(len(history))]
values = np.array([result.value for result in history])
low, high = np.array([result.interval for result in history]).T
axes.errorbar(steps, values, [values - low, high - values], marker="o", capsize=3, label="MEG")
axes.plot(steps, [result.maximum for result in history], "--", color="gray", label="maximum")
axes.set(xlabel="steps of training", ylabel="nats", ylim=(0, None))
axes.legend()
figure.savefig("meg-over-training.svg")
