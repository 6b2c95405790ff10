"""
Causal models
=============

The examples of the paper *Measuring Goal-Directedness*, each in a few lines of Python. A causal
Bayesian network states what depends on what. Name some of its variables as decisions and others as
targets, and goalmeter measures how goal-directed the decisions are towards the targets.
"""

# %%
# **Example 1.** A mouse sees on which side the cheese is, and usually goes there.
import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm

side = ["left", "right"]


def mouse(towards_cheese):
    """A mouse that goes for the cheese with some probability."""
    p = towards_cheese
    return gm.CausalBayesianNetwork(
        domains={"S": side, "D": side, "M": side, "T": ["cheese", "none"]},
        parents={"D": ["S"], "M": ["D"], "T": ["S", "M"]},
        cpds={
            "S": [0.5, 0.5],  # where the cheese is
            "D": [[p, 1 - p], [1 - p, p]],  # which way the mouse goes, given S
            "M": lambda d: d,  # where that takes it
            "T": lambda s, m: "cheese" if s == m else "none",
        },
        name="mouse",
    )


print(mouse(0.8).text(decisions=["D"]))

# %%
# Measure it towards a known utility, +1 for the cheese and -1 for none:
cheese = {"T": {"cheese": 1, "none": -1}}
for p in (0.8, 1.0, 0.5):
    result = gm.meg.causal_utility(mouse(p), decisions=["D"], utility=cheese)
    print(f"goes for the cheese {p:.0%}: {result.value:.4f} nats, beta {result.rationality:.4f}")

# %%
# Neither the unit nor the zero of a utility matters (Proposition 3.1):
scaled = {"T": {"cheese": 250, "none": 50}}
print(gm.meg.causal_utility(mouse(0.8), ["D"], scaled))

# %%
# Plugging a utility straight into maximum causal entropy, without fitting a rationality, has no
# such invariance. For the optimal mouse the log-probability of its choices is -0.13 with U and
# -0.018 with 2U, although both utilities express the same preference.
for scale in (1, 2):
    print(f"naive plug-in of {scale} U: {-np.log1p(np.exp(-2 * scale)):.3f}")

# %%
# Measure it towards variables: MEG is the maximum over *all* utilities of them (Definition 4.4).
for targets in (["T"], ["S"], ["M", "S"]):
    result = gm.meg.targets(mouse(0.8), decisions=["D"], targets=targets)
    print(f"towards {targets}: {result.value:.4f} nats; {result.goal or result.notes[0]}")

# %%
# Which variables are the targets? Measure all small sets. "≤ {S, M}" states that MEG towards S and
# M is at least as high, which follows from the graph alone (Theorem 4.1).
print(gm.meg.sensitivity(mouse(0.8), ["D"], up_to=2))

# %%
# An agent that follows instructions looks aimless if the instruction is not among the targets:
obedient = gm.CausalBayesianNetwork(
    domains={"I": side, "D": side, "O": side},
    parents={"D": ["I"], "O": ["D"]},
    cpds={"I": [0.5, 0.5], "D": lambda i: i, "O": lambda d: d},
)
for targets in (["O"], ["I", "O"]):
    print(targets, round(gm.meg.targets(obedient, ["D"], targets).value, 4))

# %%
# **Figure 4.** The same mouse with mechanism variables, which state how each variable works:
mechanised = gm.CausalBayesianNetwork(
    domains={
        "S mechanism": ["fair", "left only"],
        "T mechanism": ["cheese rewards", "cheese repels"],
        "D mechanism": ["seek", "avoid"],
        "S": side,
        "D": side,
        "T": ["cheese", "none"],
    },
    parents={
        "D mechanism": ["S mechanism", "T mechanism"],
        "S": ["S mechanism"],
        "D": ["S", "D mechanism"],
        "T": ["S", "D", "T mechanism"],
    },
    cpds={
        "S mechanism": [1, 0],
        "T mechanism": [1, 0],
        "D mechanism": lambda s, t: "seek" if t == "cheese rewards" else "avoid",
        "S": lambda how: {"left": 0.5, "right": 0.5} if how == "fair" else "left",
        "D": lambda s, how: {
            s: 0.8 if how == "seek" else 0.2,
            side[s == "left"]: 0.2 if how == "seek" else 0.8,
        },
        "T": lambda s, d, how: "cheese" if (s == d) == (how == "cheese rewards") else "none",
    },
)
same = gm.meg.targets(mechanised, ["D"], ["T"])
print(f"with mechanism variables: {same.value:.4f} nats")

# %%
# Does the goal survive a change of the world? In training a bell rings where the cheese is. Under
# do(B = left) it always rings on the left, and only T explains the mouse as well as before:
bell = gm.CausalBayesianNetwork(
    domains={"S": side, "B": side, "D": side, "T": ["cheese", "none"], "R": ["bell", "none"]},
    parents={"B": ["S"], "D": ["S"], "T": ["S", "D"], "R": ["B", "D"]},
    cpds={
        "S": [0.5, 0.5],
        "B": lambda s: s,
        "D": [[0.8, 0.2], [0.2, 0.8]],
        "T": lambda s, d: "cheese" if s == d else "none",
        "R": lambda b, d: "bell" if b == d else "none",
    },
)
for target in ("T", "R"):
    print(gm.meg.under_interventions(bell, ["D"], [{"B": "left"}], targets=[target]))

# %%
# Observations can take the place of the policy: a data frame, a CSV file, a dictionary of columns.
seen = mouse(0.8).sample(200, np.random.default_rng(0))
print(gm.meg.from_table(mouse(0.8), ["D"], seen, targets=["T"]))

# %%
# **Example 2** (Figure 2). Two steps, and each time the mouse smells only which way the cheese is.
# It forgets what it did before, so its two decisions depend on each other: no order of planning is
# exact, and the maximum entropy policies are found by a search (``recall: insufficient``).
cells = [f"{place:+d}/{where}" for where in side for place in range(-2, 3)]


def moved(state, d):
    """The state after a step to the left or right."""
    place, where = state.split("/")
    return f"{max(-2, min(2, int(place) + (1 if d == 'right' else -1))):+d}/{where}"


def follow(p):
    """Go where the smell comes from, with some probability."""
    return [[p, 1 - p], [1 - p, p]]


def two_steps(p):
    """The mouse of Figure 2."""
    return gm.CausalBayesianNetwork(
        domains={
            **{f"S{t}": cells for t in (1, 2, 3)},
            **{f"O{t}": side for t in (1, 2)},
            **{f"D{t}": side for t in (1, 2)},
            "U3": [1, 0],
        },
        parents={
            **{f"O{t}": [f"S{t}"] for t in (1, 2)},
            **{f"D{t}": [f"O{t}"] for t in (1, 2)},
            **{f"S{t + 1}": [f"S{t}", f"D{t}"] for t in (1, 2)},
            "U3": ["S3"],
        },
        cpds={
            "S1": lambda: {"+0/left": 0.5, "+0/right": 0.5},
            **{f"O{t}": lambda s: s.split("/")[1] for t in (1, 2)},
            **{f"D{t}": follow(p) for t in (1, 2)},
            **{f"S{t + 1}": moved for t in (1, 2)},
            "U3": lambda s: int(s in ("-2/left", "+2/right")),
        },
    )


values = {}
for targets in (["U3"], ["S3"], ["S2"]):
    result = gm.meg.targets(two_steps(0.8), ["D1", "D2"], targets)
    values[targets[0]] = result.value
    print(f"towards {targets[0]}: {result.value:.4f} nats (recall: {result.recall})")

# %%
# MEG is the same towards the last state (S3) and towards the utility of that state (U3). Towards
# the state in between (S2) only the first decision counts: the second one does not influence it.
# The values for both decisions are results of a search and therefore not proven to be exact.
figure, axes = plt.subplots(figsize=(6, 2), layout="constrained")
axes.barh(list(values), list(values.values()))
axes.set(title="MEG of two decisions by target", xlabel="MEG, nats", ylabel="target")
plt.show()
