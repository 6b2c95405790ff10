"""
Published trajectories of GPT-OSS-20B
=====================================

The authors of *A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents* published trajectories of a language model in rooms with a key and a door. What do they say
when goalmeter measures them, and were the published labels of failures right?
"""

# %%
# ``goalmeter replicate published-walks`` imports walks that another tool recorded. Its results are
# stored in the repository of goalmeter. They cover the first 13 of 95 trajectories, whose grids,
# actions and labels were transcribed.
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm

repository = Path(gm.__file__).parents[2]
stored = repository / "docs" / "results" / "published-walks.json"
study = json.loads(stored.read_text("utf-8"))
print(study["findings"][0])

# %%
# The goal explains this share of the maximum. Scripted agents in the same 13 rooms are the control:
# a planner, an agent that follows a compass and ignores walls, and a random one. Had the compass
# agent the same share as the model, the rooms would not distinguish planning from following a
# compass.
explained = {row["agent"]: row["goal"]["share"] for row in study["meg"]}
shown = ["gpt-oss-20b", "optimal", "greedy", "random"]
for name in shown:
    low, high = explained[name]["interval"]
    print(f"{name}: {explained[name]['value']:.1%} [{low:.1%}, {high:.1%}] of the maximum")

# %%
# The published files label steps as failures by patterns such as "goes back to where it came from".
# In a room with a key going back is often the shortest path, so compare each label with the actions
# that are optimal:
labels = {
    name.replace("_", " "): (counts["steps"], counts["optimal"])
    for name, counts in sorted(study["failure_modes"].items(), key=lambda one: one[1]["steps"])
}
steps, optimal = np.array(list(labels.values())).T
print(f"{optimal.sum()} of {steps.sum()} labels are on optimal actions")

# %%
# The left panel shows the shares with 95% intervals over the 13 trajectories, which are wide. The
# right panel shows how many labels of each kind are on optimal actions.
#
# The figure does not describe the model in general: these are the first 13 trajectories of the file
# and not a random sample, and the model reached the goal in all of them. Nor does it distinguish
# the goal from the key, since every shortest path collects the key for the door.
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
values = np.array([explained[name]["value"] for name in shown])
low, high = np.array([explained[name]["interval"] for name in shown]).T
left.errorbar(values, shown, xerr=[values - low, high - values], fmt="o", capsize=3)
left.axvline(0, color="0.5", linewidth=1)
left.invert_yaxis()
left.margins(y=0.2)
left.set(title="What the goal explains", xlabel="share of the maximum")
right.barh(list(labels), optimal, label="optimal action")
right.barh(list(labels), steps - optimal, left=optimal, label="other action")
right.set(title="Published labels of failures", xlabel="labelled steps")
right.legend()
plt.show()
