# %% [markdown]
"""Your own MDP: from an array to a goal-directedness.

A mouse stands in the middle of a corridor of five rooms. There is cheese at the right end. Each
step it can go left or right, and one time in ten it slips the other way. How goal-directed is
a mouse that usually goes right?
"""

# %% A world is an array of transition probabilities [states, actions, next states] and a reward.
import numpy as np

import goalmeter as gm

rooms = np.arange(5)
transition = np.zeros((5, 2, 5))
for action, step in enumerate((-1, 1)):
    np.add.at(transition, (rooms, action, np.clip(rooms + step, 0, 4)), 0.9)
    np.add.at(transition, (rooms, action, np.clip(rooms - step, 0, 4)), 0.1)
mdp = gm.TabularMDP(transition, reward=[0, 0, 0, 0, 1], horizon=10, initial=2)

# %% A policy is an array of action probabilities [states, actions]. This mouse goes right 8 in 10.
policy = np.tile([0.2, 0.8], (5, 1))

# %% Towards the cheese, the reward it is given:
print(gm.meg.known_utility(mdp, policy))

# %% [markdown]
# Read it like this. *MEG* is how many nats of the mouse's decisions the cheese explains, beyond
# guessing; *certified* says how far a proven upper bound is from it; the *percentage* is its share
# of what a perfectly predictable mouse would score. *Rationality* says how sharply the best model
# of it prefers the better action.

# %% Towards anything at all: the best utility over rooms.
anything = gm.meg.unknown_utility(mdp, policy)
print(anything)
print("learnt utility of each room:", anything.utility.round(2))

# %% The ends of the scale: a mouse that knows what it wants, and one that does not care.
for name, mouse in {"optimal": gm.optimal_policy(mdp), "uniform": gm.uniform_policy(mdp)}.items():
    result = gm.meg.known_utility(mdp, mouse)
    print(f"{name}: {result.value:.3f} nats, {result.fraction:.1%} of the maximum")

# %% [markdown]
# The same from the command line, on files:
#
#     mdp.to_npz("mouse.npz")
#     np.savez("policy.npz", policy=policy)
#
#     goalmeter meg mdp mouse.npz --policy policy.npz --unknown state
