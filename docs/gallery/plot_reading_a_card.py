"""
Reading a card from Python
==========================

``goalmeter measure AGENT --out FOLDER`` writes a page for people, ``card.html``, and two files for
programs: ``card.json`` with every number, and ``items.json`` with the data behind it, maze by maze.
This page reads both, and recomputes a number of the card from its data.
"""

# %%
# Make a card of the greedy agent, which follows a compass to the goal and does not plan around
# walls:
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm
from goalmeter.card import read_card

folder = Path(tempfile.mkdtemp(prefix="greedy-"))
gm.measure("greedy", scale="quick", without=["interventions"], out=folder)

card = read_card(folder)
print(card)

# %%
# A card has *rows*. Each is one number with its interval or bound, its number of independent units,
# the same number of the baseline agents, and the file that it was computed from:
for row in card.rows:
    ends = "" if row.lower is None else f"[{row.lower:.2f}, {row.upper:.2f}]"
    print(f"{row.id:22} {row.value:5.2f} {ends:14} n = {row.n} {row.of}, {row.unit}")
print(card.row("meg").error_rate)

# %%
# What was not run is part of the card, with the reason:
for each in card.not_run:
    print(f"{each.measure}: {each.reason}")

# %%
# ``items.json`` has a numerator and a denominator for each maze. Their ratio of sums is the value
# of the row. A card whose data do not reproduce its numbers would be wrong, so check. Only ``meg``
# is slightly lower on the card, where the bias of fitting the rationality is subtracted:
items = json.loads((folder / "items.json").read_text("utf-8"))
for name, mazes in items.items():
    top, bottom = np.array(list(mazes.values())).sum(axis=0)
    value = card.row(name).value
    print(f"{name}: {top / bottom:.4f} from {len(mazes)} mazes, {value:.4f} on the card")

# %%
# The figure shows what one row cannot: each maze by the largest evidence that was possible in its
# walk and the evidence that was found. The greedy agent reaches most goals efficiently, and is
# stuck behind a wall otherwise. Walks that are stuck are long, so they count most in the ratio of
# sums, the slope of the dashed line.
#
# The figure does not show the variation within a maze: each has a single walk. The interval of the
# row is over mazes and covers the variation within and between mazes.
nats, most = np.array(list(items["meg"].values())).T
arrived = np.array([items["success"][maze][0] > 0 for maze in items["meg"]])
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.plot(most[arrived], nats[arrived], "o", label="goal reached", alpha=0.7)
axes.plot(most[~arrived], nats[~arrived], "x", label="stuck")
ends = np.array([0, most.max()])
axes.plot(ends, card.row("meg").value * ends, "--", color="0.4", label="the row of the card")
axes.set(title="What the goal explains, maze by maze")
axes.set(xlabel="largest possible evidence, nats", ylabel="evidence, nats")
axes.legend()
plt.show()
