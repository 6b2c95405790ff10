"""A calibration on populations, as parts of a page and in sentences."""

from __future__ import annotations

from goalmeter.experiments.calibration.population import tables
from goalmeter.experiments.calibration.population.result import (
    FOLLOWED,
    RECOMMENDED,
    SIMPLER,
    SIMPLER_FOLLOWED,
    PopulationCalibration,
    PopulationRates,
)
from goalmeter.experiments.calibration.population.rules import (
    COMPETENT_CLASS,
    DETECTED,
    FALSE_ALARMS,
    HALF_HEARTED_CLASS,
    NAMED_RIGHTLY,
)
from goalmeter.experiments.calibration.population.scoring import MEG, TITLES
from goalmeter.experiments.calibration.population.swap_test import LEVEL
from goalmeter.experiments.calibration.population.validity import CONTRASTS
from goalmeter.report import Section
from goalmeter.report.numbers import number, percent
from goalmeter.statistics.clustered import Estimate

_DIGITS = 3  # of differences, some of which are small
REACHED, MISSED, OPEN = "reached", "missed", "cannot be told from so many agents and mazes"


def sections(found: PopulationCalibration) -> list[Section]:
    """What the instruments say of two populations."""
    scale = found.scale
    agents = len(found.first.truth.traits)
    mazes = scale.grids * len(scale.sizes) * len(scale.complexities)
    return [
        Section(
            title="A population of simulated agents",
            text=(
                f"{agents} agents were drawn from a stated distribution over what they want, what "
                f"they believe, how strongly they want it, how they plan and which habit they "
                f"fall into. Each walked through {mazes} mazes with a goal, a key, a marked cell "
                f"and a marked corner, {scale.walks} times with these places where they are drawn "
                f"first and {scale.walks} times with all of them moved. Who counts as what was "
                f"written down before anybody walked.",
                f"An agent that wants something follows it when it is moved; a habit does not. "
                f"{TITLES[FOLLOWED]} is MEG towards a target less what the same walks say of the "
                f"place where it was not. The {TITLES[RECOMMENDED]} asks whether that is more than "
                f"swapping the places of some mazes would give, and says that an agent wants "
                f"something where p is at most {LEVEL:g}: of agents that know of no target, no "
                f"more than {percent(LEVEL, 0)} can raise a false alarm, whatever their habit.",
            ),
            tables=(
                tables.class_table(found),
                tables.confusion_table(found.second),
                tables.trait_table(
                    found.second,
                    ("target", "planner", "belief", "noise"),
                    "Agents that want something, by what they are, second population",
                ),
                tables.trait_table(
                    found.second, ("habit",), "Aimless agents, by their habit, second population"
                ),
                tables.beside_table(found),
            ),
        ),
        Section(
            title="What MEG tells beyond success, SPL and accuracy",
            tables=(
                tables.rate_table(found, found.first, "first population"),
                tables.rate_table(found, found.second, "second population"),
                tables.validity_table(found.second, "second population"),
                tables.beyond_table(found),
                tables.added_table(found),
                tables.cost_table(found),
            ),
        ),
    ]


def findings(found: PopulationCalibration) -> list[str]:
    """What the populations came to, in sentences made of their numbers."""
    out = [
        f"Recommended: the {TITLES[RECOMMENDED]}, and to say that an agent wants what it follows "
        f"most where p is at most {LEVEL:g}.",
        *(
            f"{words[0].upper()}{words[1:]}: {percent(second)} on the second population, "
            f"{percent(first)} on the first. Aim: {aim}; on the second population: "
            f"{outcome(second, least, most)}."
            for words, first, second, aim, least, most in _aims(found)
        ),
        _plain_meg(found),
    ]
    return [*out, *_beyond(found.second), *_added(found)]


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


Aim = tuple[str, Estimate, Estimate, str, float | None, float | None]


def _aims(found: PopulationCalibration) -> list[Aim]:
    first, second = found.first, found.second
    named = "the target of agents of at least medium strength is named rightly, out of five"
    aims: list[Aim] = [
        (
            f"{named} (p ≤ {LEVEL:g})",
            *(first.named[RECOMMENDED], second.named[RECOMMENDED]),
            *(f"at least {percent(NAMED_RIGHTLY, 0)}", NAMED_RIGHTLY, None),
        )
    ]
    for level, rates in (
        (
            FALSE_ALARMS,
            [
                [own.at_aim[name] for name in ("half-hearted", "aimless", "competent")]
                for own in (first, second)
            ],
        ),
        (
            LEVEL,
            [
                [
                    own.rates[HALF_HEARTED_CLASS, RECOMMENDED],
                    own.false_alarms[RECOMMENDED],
                    own.rates[COMPETENT_CLASS, RECOMMENDED],
                ]
                for own in (first, second)
            ],
        ),
    ):
        for place, (words, least, most) in enumerate(
            (
                ("half-hearted goals detected", DETECTED, None),
                ("false alarms of all aimless agents", None, FALSE_ALARMS),
                ("false alarms of competent habits alone", None, FALSE_ALARMS),
            )
        ):
            bound = most if least is None else least
            assert bound is not None
            aim = f"at {'most' if least is None else 'least'} {percent(bound, 0)}"
            pair = (rates[0][place], rates[1][place])
            aims.append((f"{words} (p ≤ {level:g})", *pair, aim, least, most))
    return aims


def _plain_meg(found: PopulationCalibration) -> str:
    own = found.second
    return (
        f"Without moving anything, MEG above {found.thresholds[MEG]:.3f} of its maximum detects "
        f"{percent(own.rates[HALF_HEARTED_CLASS, MEG])} of half-hearted goals and names "
        f"{percent(own.named[MEG])} of targets rightly, with {percent(own.false_alarms[MEG])} of "
        f"false alarms."
    )


def _beyond(own: PopulationRates) -> list[str]:
    """Whether MEG is better than simpler measures that are asked the same."""
    titles = {contrast.title: f"area ({contrast.title})" for contrast in CONTRASTS}
    titles["recovery"] = "rank correlation with strength"
    titles["detected"] = "share of half-hearted goals that the swap test detects"
    out = []
    for measure, test in zip(SIMPLER_FOLLOWED, SIMPLER, strict=True):
        parts = []
        for title, words in titles.items():
            difference = own.beyond[test if title == "detected" else measure, title]
            parts.append(f"{words} {number(difference, _DIGITS)}, {_verdict(difference)}")
        out.append(f"{TITLES[FOLLOWED]} less {TITLES[measure]}: {'; '.join(parts)}.")
    return out


def _added(found: PopulationCalibration) -> list[str]:
    out = []
    for one in found.added:
        interval = one.gain.interval
        verdict = "it cannot be told whether it predicts other agents better"
        if interval is not None and interval[0] > 0:
            verdict = "it predicts other agents better"
        if interval is not None and interval[1] < 0:
            verdict = "it predicts other agents worse"
        out.append(
            f"{TITLES[one.added.more]} added to {one.added.title}: {verdict}, by "
            f"{number(one.gain, _DIGITS)} nats an agent."
        )
    return out


def _verdict(difference: Estimate) -> str:
    """Of a difference that is above 0 where MEG tells more."""
    if difference.interval is None:
        return "cannot be told"
    low, high = difference.interval
    return "better" if low > 0 else "worse" if high < 0 else "cannot be told"
