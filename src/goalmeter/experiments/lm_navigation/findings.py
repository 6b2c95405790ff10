"""What the published numbers are worth beside reference agents, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping

from goalmeter.experiments import ledger
from goalmeter.experiments.lm_navigation.compute import EVERY_CELL, LEDGER_PREFIX, Values
from goalmeter.navigation.suites import PAPER_COMPLEXITIES

FRAMES = {"reflect": "Reflection", "rotate": "Rotation", "transpose": "Transpose", "swap": "Swap"}
AGREES = 1.96  # standard errors within which 95% of estimates lie

Agents = Mapping[str, Values]


def published() -> dict[str, ledger.Number]:
    """The published numbers, by quantity; with standard errors and n where there are any."""
    out: dict[str, ledger.Number] = {}
    for row in sorted(ledger.load(LEDGER_PREFIX), key=lambda row: row.relation != "estimate"):
        _, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
        out.setdefault(quantity, row)
    out["key-no-door/towards_key"] = out["key-no-door/towards_key_chance"]
    return out


def findings(references: Agents) -> list[str]:
    """What the published numbers are worth beside reference agents, from the numbers."""
    return [
        _greedy_beats(references),
        _pick_up(references),
        _towards(references),
        _two_paths(),
        _successes(),
        _same_frames(references),
    ]


def _greedy_beats(references: Agents) -> str:
    theirs = published()
    parts = []
    for sizes in ((7, 9), (11,), (13, 15)):
        keys = [f"{EVERY_CELL}/{n}/{c:g}" for n in sizes for c in PAPER_COMPLEXITIES]
        above = [k for k in keys if 100 * references["greedy"][k].value > theirs[k].published_value]
        words = " and ".join(map(str, sizes))
        parts.append(f"{len(above)} of {len(keys)} at size{'s' * (len(sizes) > 1)} {words}")
    large = [f"{EVERY_CELL}/{n}/{c:g}" for n in (13, 15) for c in PAPER_COMPLEXITIES]
    model = math.fsum(theirs[k].published_value for k in large) / len(large)
    greedy = 100 * math.fsum(references["greedy"][k].value for k in large) / len(large)
    return (
        f"Asked in every cell, a compass that looks one step ahead is more often right than "
        f"GPT-OSS-20B in {', '.join(parts)} (kinds of grids); at sizes 13 and 15 it has "
        f"{greedy:.1f}% on average, the model {model:.1f}%. Accuracy that falls with walls is "
        f"what a compass has, too."
    )


def _pick_up(references: Agents) -> str:
    found = references["optimal"]["key-no-door/pick_up_chance"]
    chance, spread = 100 * found.value, 0.0
    if found.interval is not None:
        spread = 100 * (found.interval[1] - found.interval[0]) / 2
    number = published()["key-no-door/pick_up"]
    side = "more" if number.published_value > chance else "less"
    excess = abs(number.published_value - chance)
    reach = math.hypot(AGREES * number.published_error, spread)
    luck = "within luck" if excess < reach else "more than luck"
    return (
        f"KeyNoDoor: the key was taken in {number.published}% of published walks; an agent that "
        f"takes the shortest ways and ignores the key takes it in {chance:.2f}%. The model took "
        f"it {excess:.2f} points {side} often, where 95% of differences by luck alone (of its "
        f"walks and of our worlds) are below {reach:.1f}: {luck}."
    )


def _towards(references: Agents) -> str:
    said = [
        f"{100 * references[name]['key-no-door/towards_key_chance'].value:.1f}% of those of {name}"
        for name in ("epsilon-optimal", "random", "greedy")
        if name in references
    ]
    number = published()["key-no-door/towards_key"]
    return (
        f"KeyNoDoor: {number.published}% of wrong moves led towards the key; by chance "
        f"{', '.join(said)} would. Without the number of wrong moves, which was not published "
        f"and is small at an accuracy near 99%, the excess cannot be tested."
    )


def _two_paths() -> str:
    from scipy.stats import binomtest

    number = published()["two-path/pick_up"]
    n = number.published_seeds
    taken = round(number.published_value / 100 * n)
    return (
        f"2PathKey: the way with the key was taken in {number.published}% of walks against 50% by "
        f"chance ({taken} of {n}, p = {binomtest(taken, n).pvalue:.4f}): the one "
        f"result on keys that chance does not explain, if the side of the key was drawn evenly."
    )


def _successes() -> str:
    from scipy.stats import fisher_exact

    theirs = published()
    with_key, without = (theirs[f"two-path/{name}"] for name in ("success", "success_without_key"))
    counts = []
    for number in (with_key, without):
        reached = round(number.published_value / 100 * number.published_seeds)
        counts.append([reached, number.published_seeds - reached])
    p = float(fisher_exact(counts)[1])
    return (
        f"2PathKey: {with_key.published}% of walks reached the goal with the key and "
        f"{without.published}% without it, which is far from a difference (p = {p:.2f})."
    )


def _same_frames(references: Agents) -> str:
    greedy = references["greedy"]
    ps = [greedy[f"isometries/{frame}/p"].value for frame in FRAMES]
    same = [
        words
        for frame, words in FRAMES.items()
        if greedy[f"isometries/{frame}/p_equivalence"].value < 0.05
    ]
    known = [p for p in ps if not math.isnan(p)]
    tested = f"its smallest p-value is {min(known):.3f}" if known else "its test cannot be made"
    return (
        f"Changed frames: the compass passes the published test as the model did ({tested}), and "
        f"an equivalence test shows its accuracy to be the same within 5 points in {len(same)} of "
        f"{len(FRAMES)} frames. Being robust to frames does not take a plan."
    )
