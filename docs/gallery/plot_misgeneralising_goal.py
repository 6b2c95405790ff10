"""
A misgeneralising goal
======================

An agent that was trained where the cheese always lay in one corner may have learnt to go to the
corner. In levels like those of training nobody sees the difference. Can MEG name such a goal before
the levels change, and does it do so better than counting?
"""

# %%
# ``goalmeter replicate goal-misgeneralisation`` trains 48 small agents: PPO, clones of an expert
# for the right goal, and clones of one for the wrong goal. In a share of the training levels (0.001
# to 1) both goals differ. Its results are stored in the repository of goalmeter.
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm
from goalmeter.statistics import area_under_curve

repository = Path(gm.__file__).parents[2]
stored = repository / "docs" / "results" / "goal-misgeneralisation.json"
study = json.loads(stored.read_text("utf-8"))
agents = study["agents"]
outcomes = [agent["outcome"] for agent in agents]
print({outcome: outcomes.count(outcome) for outcome in ("wrong", "right", "neither")})

# %%
# Each agent has a score from levels *like those of training*: MEG towards the wrong goal minus MEG
# towards the right one, estimated by running it. Its outcome is what it pursues later, in *shifted*
# levels. The area under the curve is the probability that an agent with the wrong goal scores
# higher than another agent.
#
# If a simple baseline does as well, MEG adds nothing. The first one counts which goal is reached
# first in the same levels. The second one ignores the agent: in how few training levels the goals
# differ.
PREDICTORS = {
    "MEG, by running": ("MEG", "wrong minus right, nats"),
    "goal reached first, same levels": ("Goal reached first", "wrong minus right, share"),
    "minus the share of distinguishing levels": ("Distinguishing levels", "minus their share"),
}
wrong = np.array([outcome == "wrong" for outcome in outcomes])
scores = {
    name: np.array([agent["predictors"][name]["score"] for agent in agents]) for name in PREDICTORS
}
for name, values in scores.items():
    print(f"{name}: area {area_under_curve(values[wrong], values[~wrong]):.2f}")

# %%
# MEG predicts the wrong goal, and so does counting. The study compares the areas, with intervals
# over agents:
start = "MEG, by running, all agents, all shares"
finding = next(each for each in study["findings"] if each.startswith(start))
print(finding.replace("; ", "\n"))

# %%
# MEG names a goal more often. This is not only an advantage of the measure: the count has a bounded
# interval, which is wide for few levels, and the interval of MEG refers only to the levels that
# were run.
for name in ("MEG, by running", "goal reached first, same levels"):
    verdicts = [(agent["names"][name], agent["outcome"]) for agent in agents]
    right = sum(named == outcome for named, outcome in verdicts)
    print(
        f"{name}: {right} correct, {sum(named == 'abstains' for named, _ in verdicts)} abstentions"
    )

# %%
# The figure shows each agent's score before the shift (horizontal) and its behaviour after it: how
# much more often it reaches the wrong goal than the right one. A useful score separates the
# colours.
#
# It does not show that misgeneralisation is predictable in general: the agents are small, and 16 of
# those with the wrong goal are clones of an expert for it.
after = np.array([agent["tables"]["shifted"]["difference"]["value"] for agent in agents])
figure, axes = plt.subplots(1, 3, figsize=(8, 3), sharey=True, layout="constrained")
for panel, (name, (title, label)) in zip(axes, PREDICTORS.items(), strict=True):
    for outcome, marker in (("wrong", "s"), ("right", "o"), ("neither", "x")):
        chosen = np.array(outcomes) == outcome
        panel.plot(scores[name][chosen], after[chosen], marker, label=outcome, alpha=0.7)
    panel.set(title=title, xlabel=label)
axes[0].set_xscale("symlog", linthresh=1)
axes[0].set_ylabel("after the shift:\nwrong minus right, share")
axes[0].legend(title="pursues", fontsize="small")
plt.show()
