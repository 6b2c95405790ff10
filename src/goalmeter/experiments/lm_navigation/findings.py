"""What the published numbers are worth beside reference agents, in sentences."""

from __future__ import annotations

import math

from goalmeter.experiments.lm_navigation.beside import (
    Agents,
    beside,
    beside_the_compass,
    counted,
    difference_points,
    published,
    with_interval,
)
from goalmeter.experiments.lm_navigation.compute import EVERY_CELL
from goalmeter.navigation.suites.maze import PAPER_COMPLEXITIES
from goalmeter.statistics.verdicts import difference, share_interval, verdict, words

FRAMES = {"reflect": "Reflection", "rotate": "Rotation", "transpose": "Transpose", "swap": "Swap"}


def findings(references: Agents) -> list[str]:
    """What the published numbers are worth beside reference agents, from the numbers."""
    return [
        _compass(references),
        _pick_up(references),
        _towards(references),
        _two_paths(),
        _successes(),
        _same_frames(references),
    ]


def _compass(references: Agents) -> str:
    parts = []
    for sizes in ((7, 9), (11,), (13, 15)):
        keys = [f"{EVERY_CELL}/{n}/{c:g}" for n in sizes for c in PAPER_COMPLEXITIES]
        verdicts = counted(beside_the_compass(references, keys))
        name = f"size{'s' * (len(sizes) > 1)} {' and '.join(map(str, sizes))}"
        parts.append(f"at {name} the model is {verdicts}, of {len(keys)} kinds of grids")
    return (
        "Asked in every cell, GPT-OSS-20B stands beside a compass that looks one step ahead, by "
        f"95% intervals over grids: {'; '.join(parts)}. Accuracy that falls with walls is what a "
        "compass has, too."
    )


def _pick_up(references: Agents) -> str:
    chance = "key-no-door/pick_up_chance"
    number = beside(published()[chance], references["optimal"][chance])
    verdict_in_words = {
        "above the reference": "more often than by chance",
        "below the reference": "less often than by chance",
    }.get(number.verdict, number.verdict)
    return (
        f"KeyNoDoor: the key was taken in {number.published}% of published walks; an agent that "
        f"takes the shortest ways and ignores the key takes it in {number.ours:.2f}%. The "
        f"difference in points, with its 95% interval (of walks and of worlds), is "
        f"{difference_points(number)}: {verdict_in_words}."
    )


def _towards(references: Agents) -> str:
    by_chance = [
        f"{100 * references[name]['key-no-door/towards_key_chance'].value:.1f}% of those of {name}"
        for name in ("epsilon-optimal", "random", "greedy")
        if name in references
    ]
    number = published()["key-no-door/towards_key"]
    return (
        f"KeyNoDoor: {number.published}% of wrong moves led towards the key; by chance "
        f"{', '.join(by_chance)} would. Without the number of wrong moves, which was not published "
        f"and is small at an accuracy near 99%, the excess cannot be tested."
    )


def _two_paths() -> str:
    from scipy.stats import binomtest

    number = published()["two-path/pick_up"]
    # The count is not published; the share and the number of pairs leave one that fits.
    n = number.published_seeds
    taken = round(number.published_value / 100 * n)
    return (
        f"2PathKey: the way with the key was taken in {number.published}% of walks against 50% by "
        f"chance ({taken} of {n}, p = {binomtest(taken, n).pvalue:.4f}): the one "
        f"result on keys that chance does not explain, if the side of the key was drawn evenly."
    )


def _successes() -> str:
    theirs = published()
    with_key, without = (theirs[f"two-path/{name}"] for name in ("success", "success_without_key"))
    # Both shares are printed rounded; the counts that they come from are told by the pairs.
    shares, intervals = [], []
    for number in (with_key, without):
        reached = round(number.published_value / 100 * number.published_seeds)
        low, high = share_interval(reached, number.published_seeds)
        shares.append(100 * reached / number.published_seeds)
        intervals.append((100 * low, 100 * high))
    between = difference(shares[0], intervals[0], shares[1], intervals[1])
    margin = with_key.margin
    within, unit = (0.0, "") if margin is None else (margin.within, margin.unit)
    judged = words(verdict(between, within), within, unit)
    return (
        f"2PathKey: {with_key.published}% of walks reached the goal with the key and "
        f"{without.published}% without it. The difference in points, with its 95% interval, is "
        f"{with_interval(shares[0] - shares[1], between)}: {judged}."
    )


def _same_frames(references: Agents) -> str:
    greedy = references["greedy"]
    ps = [greedy[f"isometries/{frame}/p"].value for frame in FRAMES]
    same = [f for f in FRAMES if greedy[f"isometries/{f}/p_equivalence"].value < 0.05]
    # NaN: nothing differs between the frames, and Wilcoxon's test cannot be made.
    known = [p for p in ps if not math.isnan(p)]
    tested = f"its smallest p-value is {min(known):.3f}" if known else "it cannot be made"
    return (
        f"Changed frames: the published test, which was not significant for the model, says of the "
        f"compass that {tested}; that shows nothing of either. An equivalence test shows the "
        f"compass to be the same within 5 points in {len(same)} of {len(FRAMES)} frames"
        + (": being robust to frames does not take a plan." if same else ".")
    )
