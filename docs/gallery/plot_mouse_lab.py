"""
Logged behaviour without a reward
=================================

What does the animal want? The data have the shape of a mouse experiment on which inverse
reinforcement learning is reported to return zeros (issue 808 of HumanCompatibleAI/imitation): 50
states, 8 actions, 819 trajectories, no reward. They are drawn here from a seed, so that the answer
is known: one mouse prefers two corners of an arena, the other does not care.
"""

# %%
# The arena has 5 x 10 squares and 8 directions; one step in ten goes in another direction.
import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm

SHAPE, SPOUTS = (5, 10), (9, 40)  # the squares of the two spouts, which no measure is told
MOVES = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0)]


def arena(reward: np.ndarray) -> gm.TabularMDP:
    """Return the arena as an MDP of 15 decisions that begins in the middle row."""
    rows, columns = np.divmod(np.arange(50), SHAPE[1])
    to = np.stack(
        [np.clip(rows + r, 0, 4) * SHAPE[1] + np.clip(columns + c, 0, 9) for r, c in MOVES]
    )
    transition = np.zeros((50, 8, 50))
    for action in range(8):
        for other in range(8):
            share = 0.9 if other == action else 0.1 / 7
            np.add.at(transition, (np.arange(50), action, to[other]), share)
    initial = np.where(rows == 2, 0.1, 0.0)
    return gm.TabularMDP(transition, reward, horizon=15, initial=initial)


def recorded(wants_water: bool, seed: int) -> gm.tabular.Trajectories:
    """Return 819 trajectories of a mouse that takes the best action half of the time, or never."""
    reward = np.zeros(50)
    reward[list(SPOUTS)] = 1.0
    mdp = arena(reward)
    policy = gm.uniform_policy(mdp)
    if wants_water:
        policy = gm.epsilon_greedy(gm.optimal_policy(mdp), 0.5)
    return gm.tabular.sample_trajectories(mdp, policy, 819, rng=np.random.default_rng(seed))


# %%
# Any utility over squares may explain the trajectories; nothing is known of the reward.
world = arena(np.zeros(50))
mice = {"thirsty": recorded(True, seed=0), "indifferent": recorded(False, seed=1)}
found = {
    name: gm.meg.from_trajectories(world, log, unknown="state", rng=np.random.default_rng(0))
    for name, log in mice.items()
}
for name, result in found.items():
    low, high = result.interval
    p = "p < 0.001" if result.p_value < 0.001 else f"p = {result.p_value:.2f}"
    print(f"{name}: {result.corrected:.2f} nats, 95% interval {low:.2f} to {high:.2f}, {p}")

# %%
# *Nats* are how much of 15 decisions the best utility explains beyond chance, less the bias of the
# fit. The test is against random actions: 49 free weights always explain something in the sample,
# and for the indifferent mouse that is no more than chance. The *held-out* value needs no such
# distribution: each trajectory is scored by the utility that was fitted to the others, which is
# worse than chance where a utility only repeats the sample.
#
# The learnt utility is determined as far as behaviour determines it:
for name, result in found.items():
    best = np.argsort(-result.utility)[:2]
    print(f"{name}: held out {result.held_out:.2f} nats, highest at {sorted(best.tolist())}")

# %%
# A map of the utility that was learnt from the thirsty mouse; W marks the spouts:
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
image = axes.imshow(found["thirsty"].utility.reshape(SHAPE))
for spout in SPOUTS:
    row, column = divmod(spout, SHAPE[1])
    axes.text(column, row, "W", ha="center", va="center")
figure.colorbar(image, label="learnt utility")
plt.show()
