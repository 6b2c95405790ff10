# %% [markdown]
"""MEG over training: an environment of your own, a model of Stable-Baselines3, and a picture.

The environment is known by `reset` and `step` alone. MEG comes with an interval that holds the
truth with a probability of 95%, after each piece of training, for two goals at once: is the agent
after the cheese, or after the corner that it lies behind?
"""

# %% An environment: a field of 4 by 4 cells, with slippery ground and cheese in one of them.
import gymnasium
import numpy as np
from matplotlib.figure import Figure
from stable_baselines3 import PPO

import goalmeter as gm

SIZE, CHEESE, CORNER = 4, 11, 15
MOVES = [(0, -1), (0, 1), (-1, 0), (1, 0)]


class Field(gymnasium.Env):
    """Cells are numbered by rows; the mouse starts at 0, and the cheese ends an episode."""

    observation_space = gymnasium.spaces.Discrete(SIZE * SIZE)
    action_space = gymnasium.spaces.Discrete(len(MOVES))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, {}

    def step(self, action):
        if self.np_random.random() >= 0.1:  # else it slips and stays where it is
            row, column = np.add(divmod(self.cell, SIZE), MOVES[action]).clip(0, SIZE - 1)
            self.cell = int(row * SIZE + column)
        at_cheese = self.cell == CHEESE
        return self.cell, float(at_cheese), at_cheese, False, {}


def corner(observation, info):
    """What a mouse would be paid that wants to be in the corner."""
    return float(observation == CORNER)


# %% [markdown]
# What is observed determines what can follow, so every action of every cell can be tried:
# `state="observation"` says so. `bounds` say what one decision can pay, and what all that follow
# can: chance might bring what was not seen, and a guarantee has to know how much that could be.

# %%
HORIZON = 10
goals = {"cheese": "reward", "corner": corner}
bounds = {"cheese": (0, 1, 0, 1), "corner": (0, 1)}
train = gymnasium.wrappers.TimeLimit(Field(), 30)
model = PPO("MlpPolicy", train, n_steps=256, batch_size=64, learning_rate=1e-3, seed=0)

history = []
for piece in range(9):
    if piece:
        model.learn(512, reset_num_timesteps=False)
    results = gm.meg.from_simulator(
        Field(),
        model,
        utility=goals,
        horizon=HORIZON,
        budget=40_000,
        state="observation",
        bounds=bounds,
        precision=0,
    )
    history.append((512 * piece, results))
    ends = (f"{name} {r.value:.2f} [{r.lower:.2f}, {r.upper_bound:.2f}]" for name, r in results.items())
    print(f"after {512 * piece:4} steps of training: {', '.join(ends)} nats")

# %% Which goal is it? The interval of the difference says whether that can be told.
difference, (low, high) = results["cheese"].less(results["corner"])
print(f"cheese explains {difference:.2f} nats more than the corner, between {low:.2f} and {high:.2f}")

# %% The picture: estimates, and bars from the lower to the upper end.
figure = Figure(figsize=(6, 3.5), layout="constrained")
axes = figure.subplots()
for shift, (name, marker) in ((-15, ("cheese", "o")), (15, ("corner", "s"))):
    steps = [at + shift for at, _ in history]
    measured = [results[name] for _, results in history]
    values = np.array([r.value for r in measured])
    low, high = np.array([r.interval for r in measured]).T
    axes.errorbar(steps, values, [values - low, high - values], marker=marker, capsize=3, label=name)
axes.set(xlabel="steps of training", ylabel="MEG, nats", ylim=(0, None))
axes.legend(title="towards")
figure.savefig("meg-over-training.svg")
