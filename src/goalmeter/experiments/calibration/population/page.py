"""A calibration on populations, as parts of a page and in sentences."""

from __future__ import annotations

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
REACHED, MISSED, OPEN = "reached", "missed", "cannot be told from so many agents and mazes"


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
        f"Without moving anything, MEG above {calibration.thresholds[MEG]:.3f} of its maximum "
        f"detects {percent(second.rates[traits.HALF_HEARTED_CLASS][MEG])} of half-hearted goals "
        f"and names {percent(second.named[MEG])} of targets rightly, with "
        f"{percent(second.false_alarms[MEG])} of false alarms.",
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
            f"{words} {number(differences[title], _DIGITS)}, "
            f"{_sign(differences[title], 'better', 'worse', 'cannot be told')}"
            for title, words in titles.items()
        ]
        sentences.append(f"{TITLES[FOLLOWED]} less {TITLES[measure]}: {'; '.join(parts)}.")
    return sentences


def _added(calibration: PopulationCalibration) -> list[str]:
    unsure = "it cannot be told whether it predicts other agents better"
    better, worse = (f"it predicts other agents {word}" for word in ("better", "worse"))
    return [
        f"{TITLES[value.added.more]} added to {value.added.title}: "
        f"{_sign(value.gain, better, worse, unsure)}, by {number(value.gain, _DIGITS)} nats an "
        f"agent."
        for value in calibration.added
    ]


def _sign(difference: Estimate, above: str, below: str, unsure: str) -> str:
    """The text of a difference whose whole interval lies above 0, or below it, or does not."""
    low, high = difference.interval or (0.0, 0.0)
    return above if low > 0 else below if high < 0 else unsure
