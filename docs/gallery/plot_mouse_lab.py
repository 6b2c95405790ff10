"""
Logs of a mouse lab
===================

The data have the shape of a mouse experiment on which inverse reinforcement learning is reported to
return zeros (issue 808 of HumanCompatibleAI/imitation): 50 states, 8 actions, 819 trajectories and
no reward. Here they are simulated, so that the answer is known: one mouse prefers two squares of an
arena, the other has no preference.
"""

# %%
# The arena has 5 x 10 squares and 8 directions. One step in ten goes in another direction.
import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm

SHAPE, SPOUTS = (5, 10), (9, 40)  # the squares of the two spouts, which no measure is given
MOVES = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0)]


def arena(reward):
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


def recorded(wants_water, seed):
    """Return 819 trajectories of a mouse that takes the best action half of the time, or never."""
    reward = np.zeros(50)
    reward[list(SPOUTS)] = 1.0
    mdp = arena(reward)
    policy = gm.uniform_policy(mdp)
    if wants_water:
        policy = gm.epsilon_greedy(gm.optimal_policy(mdp), 0.5)
    return gm.tabular.sample_trajectories(mdp, policy, 819, rng=np.random.default_rng(seed))


# %%
# Any utility over squares may explain the trajectories:
world = arena(np.zeros(50))
mice = {"thirsty": recorded(True, seed=0), "indifferent": recorded(False, seed=1)}
results = {
    name: gm.meg.from_trajectories(world, log, unknown="state", rng=np.random.default_rng(0))
    for name, log in mice.items()
}
for name, result in results.items():
    low, high = result.interval
    p = "p < 0.001" if result.p_value < 0.001 else f"p = {result.p_value:.2f}"
    print(f"{name}: {result.corrected:.2f} nats, 95% interval {low:.2f} to {high:.2f}, {p}")

# %%
# MEG is the number of nats by which the best utility explains 15 decisions better than chance, less
# the bias of the fit. The indifferent mouse is the control: 49 free weights always explain
# something in the sample, so an estimate without a correction would find a goal in it too.
#
# The *held-out* value needs no correction. Each trajectory is scored by the utility that was fitted
# to the others. A utility that only fits noise is worse than chance there.
for name, result in results.items():
    best = np.argsort(-result.utility)[:2]
    print(f"{name}: held out {result.held_out:.2f} nats, highest at {sorted(best.tolist())}")

# %%
# The figure shows both learnt utilities, with red frames around the spouts. The thirsty mouse's
# utility peaks at both. The other details need not be real: very different utilities can explain
# the same behaviour, and each map has a scale of its own.
figure, axes = plt.subplots(1, 2, figsize=(7, 2.4), layout="constrained")
for panel, (name, result) in zip(axes, results.items(), strict=True):
    image = panel.imshow(result.utility.reshape(SHAPE), cmap="viridis", vmin=0, vmax=1)
    for spout in SPOUTS:
        row, column = divmod(spout, SHAPE[1])
        panel.plot(column, row, "s", markersize=17, fillstyle="none", color="red")
    panel.set(title=f"Learnt utility, {name} mouse", xticks=[], yticks=[])
figure.colorbar(image, ax=axes, label="utility")
plt.show()
