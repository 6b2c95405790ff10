"""
Your own MDP
============

Measure the goal-directedness of a policy that is given as an array. A mouse stands in the middle of
a corridor of five rooms. There is cheese at the right end. In each step the mouse can go left or
right, and one time in ten it slips the other way. How goal-directed is a mouse that usually goes
right?
"""

# %%
# A world is an array of transition probabilities [states, actions, next states] and a reward.
import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm

rooms = np.arange(5)
transition = np.zeros((5, 2, 5))
for action, step in enumerate((-1, 1)):
    np.add.at(transition, (rooms, action, np.clip(rooms + step, 0, 4)), 0.9)
    np.add.at(transition, (rooms, action, np.clip(rooms - step, 0, 4)), 0.1)
mdp = gm.TabularMDP(transition, reward=[0, 0, 0, 0, 1], horizon=10, initial=2)

# %%
# A policy is an array of action probabilities [states, actions]. This mouse goes right with
# probability 0.8.
policy = np.tile([0.2, 0.8], (5, 1))

# %%
# Measure it towards the cheese, the reward of this world:
print(gm.meg.known_utility(mdp, policy))

# %%
# *MEG* is how many nats of the mouse's decisions the cheese explains, beyond guessing. *Certified*
# states how far a proven upper bound is from it. The *percentage* is its share of the score of a
# perfectly predictable mouse. *Rationality* states how sharply the best model of the mouse prefers
# the better action.
#
# Measure it towards an unknown utility. MEG is the maximum over all utilities of the rooms:
anything = gm.meg.unknown_utility(mdp, policy)
print(anything)

# %%
# The ends of the scale are a mouse that is optimal, and one that chooses uniformly:
for name, mouse in {"optimal": gm.optimal_policy(mdp), "uniform": gm.uniform_policy(mdp)}.items():
    result = gm.meg.known_utility(mdp, mouse)
    print(f"{name}: {result.value:.3f} nats, {result.fraction:.1%} of the maximum")

# %%
# The same measure from the command line, on files that ``mdp.to_npz("mouse.npz")`` and
# ``np.savez("policy.npz", policy=policy)`` write::
#
#     goalmeter meg mdp mouse.npz --policy policy.npz --unknown state
#
# The utility that explains the mouse best is highest in the room with the cheese. It was found
# without the reward, so another room could have been highest. Its values in the other rooms matter
# little: with them it explains 0.10 nats more than the reward does.
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.bar(rooms, anything.utility)
axes.set(title="Utility that explains the mouse best", xlabel="room", ylabel="utility")
plt.show()
