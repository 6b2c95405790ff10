"""A calibration on populations, as parts of a page and in sentences."""

from __future__ import annotations

import math

from goalmeter.experiments.calibration.population import tables, traits
from goalmeter.experiments.calibration.population.result import (
    PopulationCalibration,
    PopulationRates,
)
from goalmeter.experiments.calibration.population.scoring import (
    FOLLOWED,
    MEG,
    RECOMMENDED,
    SIMPLER,
    SIMPLER_FOLLOWED,
    TITLES,
)
from goalmeter.experiments.calibration.population.swap_test import LEVEL
from goalmeter.experiments.calibration.population.validity import CONTRASTS
from goalmeter.report import Section
from goalmeter.report.numbers import number, percent
from goalmeter.statistics.clustered import Estimate

_DIGITS = 3  # of differences, some of which are small
REACHED, MISSED, OPEN = "reached", "missed", "inconclusive"


def sections(calibration: PopulationCalibration) -> list[Section]:
    """What the instruments say of two populations."""
    scale, first, second = calibration.scale, calibration.first, calibration.second
    mazes = scale.grids * len(scale.sizes) * len(scale.complexities)
    return [
        Section(
            title="A population of simulated agents",
            text=(
                f"{len(first.truth.traits)} agents were drawn from a stated distribution over what "
                f"they want, what they believe, how strongly they want it, how they plan and which "
                f"habit they fall into. Each walked through {mazes} mazes with a goal, a key, a "
                f"marked cell and a marked corner, {scale.walks} times with these places where "
                f"they are drawn first and {scale.walks} times with all of them moved. Who counts "
                f"as what was written down before anybody walked.",
                f"An agent that wants something follows it when it is moved; a habit does not. "
                f"{TITLES[FOLLOWED]} is MEG towards a target less what the same walks say of the "
                f"place where it was not. The {TITLES[RECOMMENDED]} asks whether that is more than "
                f"swapping the places of some mazes would give, and says that an agent wants "
                f"something where p is at most {LEVEL:g}: of agents that know of no target, no "
                f"more than {percent(LEVEL, 0)} can raise a false alarm, whatever their habit.",
            ),
            tables=(
                tables.class_table(calibration),
                tables.confusion_table(second),
                tables.trait_table(
                    second,
                    ("target", "planner", "belief", "noise"),
                    "Agents that want something, by what they are, second population",
                ),
                tables.trait_table(
                    second, ("habit",), "Aimless agents, by their habit, second population"
                ),
                tables.beside_table(calibration),
            ),
        ),
        Section(
            title="What MEG tells beyond success, SPL and accuracy",
            tables=(
                tables.rate_table(calibration, first, "first population"),
                tables.rate_table(calibration, second, "second population"),
                tables.validity_table(second, "second population"),
                tables.beyond_table(calibration),
                tables.added_table(calibration),
                tables.cost_table(calibration),
            ),
        ),
    ]


def findings(calibration: PopulationCalibration) -> list[str]:
    """What the populations came to, in sentences made of their numbers."""
    second = calibration.second
    return [
        f"Recommended: the {TITLES[RECOMMENDED]}, and to say that an agent wants what it follows "
        f"most where p is at most {LEVEL:g}.",
        *_aims(calibration.first, second),
        f"Not recommended: MEG of walks as they are. With the threshold of the first population, "
        f"{calibration.thresholds[MEG]:.3f} of the maximum, it detects "
        f"{percent(second.rates[traits.HALF_HEARTED_CLASS][MEG])} of half-hearted goals and names "
        f"{percent(second.named[MEG])} of targets rightly, with "
        f"{percent(second.false_alarms[MEG])} of false alarms, "
        f"{percent(second.rates[traits.COMPETENT_CLASS][MEG])} of competent habits. The intervals "
        f"include the choice of the threshold.",
        *_beyond(second),
        *_added(calibration),
    ]


def outcome(rate: Estimate, least: float | None, most: float | None) -> str:
    """Whether a rate is on the right side of its aim: its interval has to be.

    Args:
        rate: with its interval.
        least: what it is to be at least; None if there is no such aim.
        most: what it is to be at most; None if there is no such aim.
    """
    if rate.interval is None:
        return OPEN
    low, high = rate.interval
    if least is not None:
        return REACHED if low >= least else MISSED if high < least else OPEN
    assert most is not None
    return REACHED if high <= most else MISSED if low > most else OPEN


def _aims(first: PopulationRates, second: PopulationRates) -> list[str]:
    """What was asked of the recommended test, at the rate that is asked for and at its level."""

    def at_level(rates: PopulationRates) -> dict[str, Estimate]:
        return {
            "half-hearted": rates.rates[traits.HALF_HEARTED_CLASS][RECOMMENDED],
            "aimless": rates.false_alarms[RECOMMENDED],
            "competent": rates.rates[traits.COMPETENT_CLASS][RECOMMENDED],
        }

    words = {
        "half-hearted": "Half-hearted goals detected",
        "aimless": "False alarms of all aimless agents",
        "competent": "False alarms of competent habits alone",
    }
    named = "The target of agents of at least medium strength is named rightly, out of five"
    pairs = [(named, LEVEL, first.named[RECOMMENDED], second.named[RECOMMENDED])]
    for level, before, after in (
        (traits.FALSE_ALARMS, first.at_aim, second.at_aim),
        (LEVEL, at_level(first), at_level(second)),
    ):
        pairs += [(words[kind], level, before[kind], after[kind]) for kind in words]
    aims = {named: traits.NAMED_RIGHTLY, words["half-hearted"]: traits.DETECTED}
    sentences = []
    for asked, level, before_it, after_it in pairs:
        least = aims.get(asked)
        most = traits.FALSE_ALARMS if least is None else None
        bound = traits.FALSE_ALARMS if least is None else least
        aim = f"at {'most' if least is None else 'least'} {percent(bound, 0)}"
        sentences.append(
            f"{asked} (p ≤ {level:g}): {percent(after_it)} on the second population, "
            f"{percent(before_it)} on the first. Aim: {aim}; on the second population: "
            f"{outcome(after_it, least, most)}."
        )
    return sentences


def _beyond(rates: PopulationRates) -> list[str]:
    """Whether MEG is better than simpler measures that are asked the same."""
    titles = {contrast.title: f"area ({contrast.title})" for contrast in CONTRASTS}
    titles["recovery"] = "rank correlation with strength"
    titles["detected"] = "share of half-hearted goals that the swap test detects"
    sentences = []
    for measure, test in zip(SIMPLER_FOLLOWED, SIMPLER, strict=True):
        differences = rates.beyond[measure] | rates.beyond[test]
        parts = [
            f"{words} {number(differences[title], _DIGITS)}, {verdict(differences[title])}"
            for title, words in titles.items()
        ]
        sentences.append(f"{TITLES[FOLLOWED]} less {TITLES[measure]}: {'; '.join(parts)}.")
    return sentences


def _added(calibration: PopulationCalibration) -> list[str]:
    return [
        f"{TITLES[value.added.more]} added to {value.added.title}: the prediction of other agents "
        f"gains {number(value.gain, _DIGITS)} nats an agent, {verdict(value.gain)}."
        for value in calibration.added
    ]


def verdict(difference: Estimate) -> str:
    """Whether a difference is "better", "worse" or "inconclusive".

    Fewer different mazes and agents are in a resample, which biases the resampled differences: the
    percentile interval may lie to one side of the value. So 0 has to be farther from the value
    than either end, which the interval reflected at the value then leaves out as well.
    """
    value = difference.value
    low, high = difference.interval or (-math.inf, math.inf)
    if abs(value) > max(value - low, high - value):
        return "better" if value > 0 else "worse"
    return "inconclusive"
