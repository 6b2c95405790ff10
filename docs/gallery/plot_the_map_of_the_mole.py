"""
The map on which an agent acts
==============================

An agent that walks into walls may have no goal, or it may have a goal and a wrong map. Its moves
can show which: with a goal and a wrong map, they are efficient on that map.

This *mole* goes to the goal by a shortest path, but on a map that lacks the inner walls of rows 2
and 6. Can goalmeter infer that map from the moves alone?
"""

# %%
# An agent of grid worlds is a function of the world and the state that returns the probabilities of
# left, right, up and down. The mole plans on its own map, the *mouse* on the true one.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb

import goalmeter as gm


def on_own_map(world):
    """Return the world without the inner walls of rows 2 and 6."""
    walls = world.walls.copy()
    rows = [row for row in (2, 6) if row < len(walls) - 1]
    walls[rows, 1:-1] = False
    return gm.gridworld.GridWorld(walls, world.start, world.goal, world.key)


def shortest(world, state):
    """Return equal probabilities for all moves that lead one step closer to the goal."""
    moves = gm.gridworld.plan(world).optimal_actions(state)
    return np.isin(np.arange(4), moves) / len(moves)


def mouse(world, state):
    """Plan on the true map."""
    return shortest(world, state)


def mole(world, state):
    """Plan on a wrong map."""
    return shortest(on_own_map(world), state)


# %%
# A card evaluates each agent in random mazes. The row ``other_map`` is inferred from moves that
# distinguish two maps: the true one, and the map without some walls that fits best. One half of the
# mazes chooses this map, the other half tests it.
cards = {
    agent.__name__: gm.measure(agent, scale="quick", without=["interventions"])
    for agent in (mouse, mole)
}
for card in cards.values():
    row = card.row("other_map")
    print(f"{card.headline}: {row.value:.0%} [{row.lower:.0%}, {row.upper:.0%}] fit {row.note}")

# %%
# On the true map the mole looks almost aimless. On the map that fits its moves, the goal explains
# most of them:
for name in ("meg", "meg_own_map"):
    row = cards["mole"].row(name)
    print(f"{row.title}: {row.value:.0%} [{row.lower:.0%}, {row.upper:.0%}] of the maximum")

# %%
# The left panel shows one maze; the mole ignores the orange walls. The right panel has the moves
# that distinguish the two maps: the share of them that fits the other map, with 95% intervals. A
# uniformly random agent is expected at one half. The mouse is the control: if its share were also
# above one half, the measure would find wrong maps everywhere.
#
# The result does not show *why* the map is wrong. Only missing walls are candidates: an agent that
# avoids walls which do not exist is not recognised.
world = gm.gridworld.maze(9, 1.0, seed=4).world
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
picture = np.where(world.walls, "0.35", "0.95").astype(object)
picture[world.walls & ~on_own_map(world).walls] = "tab:orange"
left.imshow(np.array([[to_rgb(c) for c in row] for row in picture]))
for place, letter in ((world.start, "A"), (world.goal, "G")):
    left.text(place.column, place.row, letter, ha="center", va="center")
left.set(title="Walls that the mole ignores", xticks=[], yticks=[])

rows = [card.row("other_map") for card in cards.values()]
values = np.array([row.value for row in rows])
errors = [values - [row.lower for row in rows], [row.upper for row in rows] - values]
right.errorbar(values, list(cards), xerr=errors, fmt="o", capsize=3)
right.axvline(0.5, color="0.5", linestyle="--", label="random")
right.legend(loc="center left")
right.set(title="Moves that fit another map", xlim=(-0.05, 1.05), xlabel="share of moves")
right.margins(y=0.3)
plt.show()
