"""
Decisions in the asia network
=============================

*Asia* is a small Bayesian network about lung diseases (Lauritzen and Spiegelhalter, 1988). Nobody
in it acts. That makes it a good place to learn what MEG means in a causal model: which variables
behave *as if* they were decisions that pursue another variable?
"""

# %%
# The network comes with the package; any file in the BIF format can take its place.
from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm

asia = gm.CausalBayesianNetwork.from_bif(files("goalmeter.causal") / "asia.bif")
print(asia.text())

# %%
# Treat lung cancer as a decision, and shortness of breath (``dysp``) as its target. MEG is the
# maximum over all utilities of the target (Definition 4.4), in nats:
result = gm.meg.targets(asia, decisions=["lung"], targets=["dysp"])
print(result)

# %%
# Cancer is rare, so "it avoids shortness of breath" predicts ``lung = no`` better than chance. The
# number is large because the policy is predictable, not because anybody wants anything: MEG states
# how useful it is to describe a variable by a goal.
#
# The control is an intervention. If a doctor fixes ``either`` (tuberculosis or cancer), lung cancer
# no longer influences the symptom. The same variable with the same probabilities must then have a
# MEG of exactly 0:
cut = gm.meg.targets(asia, ["lung"], ["dysp"], do={"either": "yes"})
print(f"under do(either = yes): {cut.value:.4f} nats\n{cut.notes[0]}")

# %%
# Which variables should be named as targets? These are the sets of up to two variables with the
# highest MEG. ``≤`` names sets whose MEG is at least as high by the graph alone (Theorem 4.1).
table = gm.meg.sensitivity(asia, ["lung"], up_to=2)
for row in table.rows[:5]:
    print(f"{', '.join(row.targets):13} {row.value:.4f} nats  {row.theorem_text()}")

# %%
# So ``smoke`` and ``either`` together bound MEG of ``lung`` towards every target. ``either`` alone
# does not, although it is the only path to the symptom: smoking is a common cause of cancer and of
# bronchitis, so ``dysp`` says a little more about the decision than ``either``.
#
# The figure shows MEG of every variable towards every other one. An empty cell has a MEG below
# 0.005, mostly exactly 0 since the target is not downstream of the decision (Proposition 3.3).
#
# The figure does not show how strongly one variable causes another. ``smoke`` causes lung cancer,
# but a fair coin is unpredictable, and no goal predicts it better than chance.
names = list(asia.variables)
values = np.full((len(names), len(names)), np.nan)
for row, decision in enumerate(names):
    for column, target in enumerate(names):
        if target != decision:
            values[row, column] = gm.meg.targets(asia, [decision], [target]).value

figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
image = axes.imshow(values, cmap="Blues", vmin=0, vmax=np.log(2))
for (row, column), value in np.ndenumerate(values):
    if value > 5e-3:
        colour = "white" if value > 0.4 else "black"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour)
axes.set_xticks(range(len(names)), names, rotation=45)
axes.set_yticks(range(len(names)), names)
axes.set(title="MEG of each variable towards each other", xlabel="target", ylabel="decision")
figure.colorbar(image, label="MEG, nats (at most log 2)")
plt.show()
