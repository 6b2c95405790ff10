"""
Unknown utility and its certificate
===================================

What does an agent want, if its reward is not known? MEG searches for the utility that explains the
behaviour best. A search can stop too early, so every value comes with a proven upper bound. This
page follows the bound through the search and shows what it rules out.
"""

# %%
# CliffWorld has 40 cells. The agent takes the best action for the goal in the top right corner, and
# another one in 10% of its steps. The reward of the world is not used.
import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm

world = gm.cliff_world(goal_length=1)
policy = gm.epsilon_greedy(gm.optimal_policy(world), 0.1)

steps = []
result = gm.meg.unknown_utility(world, policy, progress=steps.append)
print(result)

# %%
# *Certified* means that no utility over cells (up to the size that the note states) explains the
# behaviour better by more than the printed difference. A single counterexample would refute it, so
# try the true reward and a thousand random utilities at their best rationality. A value above the
# bound would show an error in the proof or in the program. A value above that of the true reward
# would not: noise of 10% is not the noise of a soft-rational agent, and another utility may fit it
# better.
rng = np.random.default_rng(0)
random_utilities = rng.normal(size=(1000, world.n_states))
tries = gm.meg.known_utility_many(world, [policy], utilities=random_utilities)
best = max(each.value for each in tries)
reward = gm.meg.known_utility(world, policy).value
print(f"bound {result.upper_bound:.4f}, true reward {reward:.4f}, best random utility {best:.4f}")
assert max(reward, best) <= result.upper_bound

# %%
# A search that is cut short still has a valid bound. It is only farther away, and the result does
# not call itself certified:
rushed = gm.meg.unknown_utility(world, policy, timeout=1e-3)
print(
    f"certified: {rushed.certified}; MEG is between {rushed.value:.2f} and {rushed.upper_bound:.2f}"
)

# %%
# The certificate concerns the *number*, and not the utility: very different utilities predict the
# same behaviour. The one to look at is the simplest that explains 95% of MEG.
simplest = gm.meg.simplest_utility(world, policy, share=0.95)
print(
    f"highest in cell {simplest.utility.argmax()}; the reward is highest in {world.reward.argmax()}"
)

# %%
# The left panel shows value and bound at each step of the search; MEG lies between them. The right
# panel shows the simplest utility; G marks the goal. It does not show what the agent wants in cells
# that it hardly visits.
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
order = np.arange(1, len(steps) + 1)
left.plot(order, [step.upper_bound for step in steps], label="proven bound")
left.plot(order, [step.value for step in steps], label="best so far")
left.axhline(reward, color="0.5", linestyle="--", label="MEG of the true reward")
left.set(title="Bound and value of the search", xlabel="step", ylabel="MEG, nats", ylim=(18, 28))
left.legend(loc="lower right")
image = right.imshow(simplest.utility.reshape(4, 10), cmap="viridis")
right.text(9, 0, "G", ha="center", va="center")
right.set(title="Simplest utility that explains it", xticks=[], yticks=[])
figure.colorbar(image, ax=right, label="utility", shrink=0.6)
plt.show()
