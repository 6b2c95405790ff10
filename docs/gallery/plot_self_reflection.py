"""
Self-reflection and the reality check
=====================================

An extended environment may ask what an agent *would* do at another history, and reward it for the
answer. An agent that does well in many such environments must take account of its own behaviour.
The *reality check* of an agent often does better, by a rule of one line (Definition 8).
"""

# %%
# An agent is a function of the history: all percepts so far, and the actions between them. This one
# repeats an action that was rewarded, and otherwise takes the next one.
import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm


def stay_or_shift(history, n_actions, n_observations):
    """Win-stay, lose-shift."""
    if not history.actions:
        return 0
    has_won = history.percepts[-1].reward > 0
    return (history.actions[-1] + (not has_won)) % n_actions


# %%
# Measure it with its reality check, and three such pairs of scripted agents, in the 25 environments
# of the paper and their opposites. An opposite multiplies all rewards by -1. The reality check does
# what the agent does as long as all past actions are those that the agent would have taken;
# otherwise it repeats its first action for good.
SIZE = {"steps": 50, "seeds": 5}
pairs = {
    "constant": ("constant", "rc(constant)"),
    "random": ("random", "rc(random)"),
    "naive": ("naive", "rc(naive)"),
    "stay or shift": (stay_or_shift, gm.reflection.RealityCheck(stay_or_shift)),
}
results = {
    name: [gm.reflection.measure(agent, **SIZE) for agent in pair] for name, pair in pairs.items()
}
for name, (plain, checked) in results.items():
    print(f"{name}: {plain.measure:+.3f}, with its reality check {checked.measure:+.3f}")

# %%
# A constant agent is the control. It loses in each opposite what it gains in the environment, so
# its measure must be exactly 0. Its reality check is the agent itself and must be 0 too.
for result in results["constant"]:
    assert abs(result.measure) < 1e-12, result

# %%
# A difference is paired by environment and seed. It is an average over very different environments,
# so look at where it comes from before quoting it:
change = gm.reflection.compare(*results["stay or shift"])
print(change)

# %%
# The figure shows the measure of each agent and of its reality check, with 95% intervals over
# seeds. They generalise to other seeds, not to other environments. Those of the constant agent are
# wide: five equal results show no spread, but say little about other seeds.
#
# A high measure does not show that an agent represents itself: the reality check only compares
# actions and repeats a fixed one.
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for offset, index, label in ((-0.2, 0, "agent"), (0.2, 1, "its reality check")):
    values = np.array([pair[index].measure for pair in results.values()])
    low, high = np.array([pair[index].interval for pair in results.values()]).T
    place = np.arange(len(results)) + offset
    axes.bar(place, values, 0.4, yerr=[values - low, high - values], capsize=3, label=label)
axes.axhline(0, color="0.5", linewidth=1)
axes.set_xticks(range(len(results)), list(results))
axes.set(title="Self-reflection with and without a reality check", ylabel="reward per step")
axes.legend()
plt.show()
