"""
Comparing two agents
====================

Is the new version of an agent different from the last one? A card has every applicable measure of
one agent. Two cards are compared row by row, paired by maze where the card has the data of each
maze, and each difference gets a verdict by a margin that is stated beforehand.
"""

# %%
# Both agents know the shortest paths. The *last* version moves at random in 10% of its steps, the
# *new* version in 30%. This is a known regression that the comparison should find.
import tempfile

import matplotlib.pyplot as plt

import goalmeter as gm
from goalmeter.card import compare_cards

RATES = (0.1, 0.3)
folders = [tempfile.mkdtemp(prefix=f"{version}-") for version in ("last", "new")]
cards = [
    gm.measure(f"epsilon-optimal({rate})", scale="quick", without=["interventions"], out=folder)
    for rate, folder in zip(RATES, folders, strict=True)
]
for card in cards:
    print(card.headline)

# %%
# Both headlines agree: either version pursues the goal. Do the rows? A verdict is *equivalent* only
# if the whole interval of the difference lies within the margin, here 10 percentage points for the
# share of reached goals.
comparison = compare_cards(cards, folders, margins={"success": 0.1})
differences = [row for row in comparison.differences if row.change and row.change.interval]
for row in differences:
    low, high = row.change.interval
    paired = f"{row.change.clusters} common mazes" if row.change.clusters else "not paired"
    print(f"{row.id}: {row.change.value:+.2f} [{low:+.2f}, {high:+.2f}] {row.verdict} ({paired})")

# %%
# Two controls. The truth is known: at most three random moves in four are wrong, so an interval of
# the optimal moves below one minus three quarters of the rate would refute the measure. And a
# verdict of *higher* or *lower* for a card compared with itself would refute the comparison. Even
# equal cards are *inconclusive*: forty mazes without a difference do not exclude a small one.
for rate, card in zip(RATES, cards, strict=True):
    row = card.row("accuracy")
    print(
        f"optimal moves [{row.lower:.3f}, {row.upper:.3f}], known to be at least {1 - 0.75 * rate}"
    )
same = compare_cards([cards[0], cards[0]], [folders[0], folders[0]])
print("the same card twice:", ", ".join(sorted({row.verdict for row in same.differences})))

# %%
# The figure shows the differences of all shares, with 95% intervals.
#
# The figure does not show that unlisted behaviour is unchanged, and the intervals are not corrected
# for the number of rows: of twenty rows without a difference, one is expected to exclude 0.
shares = [row for row in differences if row.unit == "share"]
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for place, row in enumerate(shares):
    low, high = row.change.interval
    colour = "C0" if row.change.clusters else "C1"
    axes.plot([low, high], [place, place], color=colour)
    axes.plot(row.change.value, place, "o", color=colour)
axes.plot([], [], color="C0", label="paired by maze")
axes.plot([], [], color="C1", label="not paired")
axes.axvline(0, color="0.5", linestyle="--", linewidth=1)
axes.set_yticks(range(len(shares)), [row.title for row in shares])
axes.set(title="New version minus last version", xlabel="difference of shares")
axes.invert_yaxis()
axes.legend()
plt.show()
