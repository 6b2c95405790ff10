"""Tables, page sections and findings of a calibration on populations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from goalmeter.report import Section, Table, number, p_value, percent
from goalmeter.statistics import Estimate
from replications.calibration.population import traits
from replications.calibration.population.scores import (
    ADDED,
    CONTRASTS,
    FOLLOWED,
    INSTRUMENTS,
    LEVEL,
    MEG,
    MOVED,
    PLAIN,
    RECOMMENDED,
    SIMPLER,
    SIMPLER_FOLLOWED,
    TESTS,
    TITLES,
)
from replications.calibration.population.traits import (
    CLASSES,
    COMPETENT_CLASS,
    HALF_HEARTED_CLASS,
    NONE,
    TARGETS,
)
from replications.prose import Texts

say = Texts("calibration")
Calibration = Mapping[str, Any]  # as `scores.judged` gives it
Rates = Mapping[str, Any]  # of one population, as `scores.rates_of` gives it
FIRST, SECOND = "first population", "second population"


# --- Tables ---------------------------------------------------------------------------------------
def class_table(calibration: Calibration) -> Table:
    """Tabulate who was drawn, and who is said to want something, in both populations."""

    def entry(rates: Rates, title: str | None) -> dict[str, Any]:
        # None stands for all the aimless together.
        counted = list(CLASSES)[:2] if title is None else [title]
        said = rates["false_alarms"] if title is None else rates["said_to_want_something"][title]
        return {"agents": sum(rates["classes"][name] for name in counted), **said}

    first, second = calibration["populations"]
    thresholds = calibration["thresholds"]
    return say.table(
        "who_is_said_to_want_something",
        [
            (title or "all aimless", what, entry(first, title), entry(second, title))
            for title, what in [*CLASSES.items(), (None, "false alarms")]
        ],
        share=percent(traits.CHOSEN_FALSE_ALARMS, 0),
        level=_limit(RECOMMENDED, thresholds[RECOMMENDED]),
        limit=_limit(MEG, thresholds[MEG]),
    )


def rate_table(calibration: Calibration, rates: Rates, title: str) -> Table:
    """Tabulate the error rates of every instrument at its threshold."""
    said = rates["said_to_want_something"]
    return say.table(
        "rate_table",
        [
            (
                TITLES[name],
                _limit(name, calibration["thresholds"][name]),
                rates["false_alarms"][name],
                said[COMPETENT_CLASS][name],
                said[HALF_HEARTED_CLASS][name],
                rates["named_rightly"][name],
            )
            for name in INSTRUMENTS
        ],
        title=title,
    )


def validity_table(rates: Rates, title: str) -> Table:
    """Tabulate areas under the curve, also within bands of success, and recovery of strength."""
    rows = [
        (TITLES[n], rates["areas"][n], rates["areas_in_bands"][n], rates["recovery"][n])
        for n in (*PLAIN, *MOVED)
    ]
    return say.table("validity_table", rows, title=title)


def beyond_table(calibration: Calibration) -> Table:
    """Tabulate by how much MEG tells more than simpler measures that are asked the same."""
    rows = [
        (f"{TITLES[measure].partition(' ')[0]}, {order}", {**beyond[measure], **beyond[test]})
        for order, rates in zip(("first", "second"), calibration["populations"], strict=True)
        for beyond in [rates["recommended_beyond"]]
        for measure, test in zip(SIMPLER_FOLLOWED, SIMPLER, strict=True)
    ]
    return say.table("beyond_table", rows, instrument=TITLES[FOLLOWED])


def added_table(calibration: Calibration) -> Table:
    """Tabulate what MEG adds to a logistic model of who wants anything."""
    rows = [
        {"model": title, "added": TITLES[row["more"]]} | row
        for title, row in zip(ADDED, calibration["added"], strict=True)
    ]
    return say.table("what_meg_adds_to_other_predictors", rows)


def confusion_table(rates: Rates) -> Table:
    """Tabulate who wants what, and what is named."""
    rows = zip((*TARGETS, NONE), rates["confusion"]["wanted_by_named"], strict=True)
    return say.table("confusion_table", rows, instrument=TITLES[RECOMMENDED])


def trait_table(rates: Rates, names: tuple[str, ...], caption: str) -> Table:
    """Tabulate agents by one of their traits."""
    return say.table(
        "trait_table",
        [row for row in rates["traits"] if row["trait"] in names],
        caption=caption,
        instrument=TITLES[RECOMMENDED],
    )


def cost_table(calibration: Calibration) -> Table:
    """Tabulate the rates by the number of mazes."""
    return say.table(
        "what_it_costs_to_be_sure",
        [
            row | {"instrument": TITLES[name], "limit": _limit(name, row["threshold"])}
            for name, costs in calibration["costs"].items()
            for row in costs
        ],
    )


def beside_table(calibration: Calibration) -> Table:
    """Tabulate reference agents and ideal organisms, by the recommended instrument."""
    rows = []
    for name, scores in calibration["populations"][1]["beside"].items():
        # The largest score, and the target that has it.
        best, target = max(zip(scores[RECOMMENDED], TARGETS, strict=True), key=lambda pair: pair[0])
        named = target if best > calibration["thresholds"][RECOMMENDED] else NONE
        rows.append((name, scores[FOLLOWED], p_value(1.0 - best), named))
    return say.table("reference_agents_and_ideal_organisms_in", rows)


def _limit(name: str, limit: float) -> str:
    """A threshold as a table shows it."""
    return f"p ≤ {LEVEL:g}" if name in TESTS else f"> {number(limit, 3)}"


# --- Page -----------------------------------------------------------------------------------------
def sections(calibration: Calibration) -> list[Section]:
    """Return what the instruments say of two populations."""
    scale, (first, second) = calibration["scale"], calibration["populations"]
    return [
        Section(
            **say(
                "a_population_of_simulated_agents",
                agents=len(first["agents"]),
                mazes=scale["grids"] * len(scale["sizes"]) * len(scale["complexities"]),
                walks=scale["walks"],
                followed=TITLES[FOLLOWED],
                test=TITLES[RECOMMENDED],
                level=f"{LEVEL:g}",
                share=percent(LEVEL, 0),
            ),
            tables=(
                class_table(calibration),
                confusion_table(second),
                trait_table(
                    second,
                    ("target", "planner", "belief", "noise"),
                    f"Agents that want something, by what they are, {SECOND}",
                ),
                trait_table(second, ("habit",), f"Aimless agents, by their habit, {SECOND}"),
                beside_table(calibration),
            ),
        ),
        Section(
            title="What MEG tells beyond success, SPL and accuracy",
            tables=(
                rate_table(calibration, first, FIRST),
                rate_table(calibration, second, SECOND),
                validity_table(second, SECOND),
                beyond_table(calibration),
                added_table(calibration),
                cost_table(calibration),
            ),
        ),
    ]


def findings(calibration: Calibration) -> list[str]:
    """Return summary sentences generated from the results."""
    first, second = calibration["populations"]
    said = second["said_to_want_something"]
    return [
        say.line("recommended", test=TITLES[RECOMMENDED], level=f"{LEVEL:g}"),
        *_aims(first, second),
        say.line(
            "not_recommended",
            limit=f"{calibration['thresholds'][MEG]:.3f}",
            half_hearted=percent(said[HALF_HEARTED_CLASS][MEG]),
            named=percent(second["named_rightly"][MEG]),
            alarms=percent(second["false_alarms"][MEG]),
            competent=percent(said[COMPETENT_CLASS][MEG]),
        ),
        *_beyond(second["recommended_beyond"]),
        *(
            say.line(
                "added",
                more=TITLES[row["more"]],
                title=title,
                gain=number(row["gain_on_second"], 3),
                verdict=verdict(row["gain_on_second"]),
            )
            for title, row in zip(ADDED, calibration["added"], strict=True)
        ),
    ]


def _aims(first: Rates, second: Rates) -> Iterator[str]:
    """What was required of the recommended test, at the required rate and at its level."""

    def sentence(aim: str, level: float, before: Estimate, after: Estimate) -> str:
        bound = aims.get(aim, traits.FALSE_ALARMS)
        least, most = (bound, None) if aim in aims else (None, bound)
        return say.line(
            "aim",
            asked=say.data("aims")[aim],
            level=f"{level:g}",
            after=percent(after),
            before=percent(before),
            aim=f"at {'most' if least is None else 'least'} {percent(bound, 0)}",
            outcome=outcome(after, least, most),
        )

    def at_level(rates: Rates) -> dict[str, Estimate]:
        said = rates["said_to_want_something"]
        return {
            "half-hearted": said[HALF_HEARTED_CLASS][RECOMMENDED],
            "aimless": rates["false_alarms"][RECOMMENDED],
            "competent": said[COMPETENT_CLASS][RECOMMENDED],
        }

    aims = {"named": traits.NAMED_RIGHTLY, "half-hearted": traits.DETECTED}
    yield sentence("named", LEVEL, *(r["named_rightly"][RECOMMENDED] for r in (first, second)))
    for level, before, after in (
        (traits.FALSE_ALARMS, first["at_rate_asked_for"], second["at_rate_asked_for"]),
        (LEVEL, at_level(first), at_level(second)),
    ):
        for aim in ("half-hearted", "aimless", "competent"):
            yield sentence(aim, level, before[aim], after[aim])


def outcome(rate: Estimate, least: float | None, most: float | None) -> str:
    """Return whether a rate is on the right side of its aim: its interval has to be."""
    low, high = rate.interval or (-math.inf, math.inf)
    if (most is not None and high <= most) or (least is not None and low >= least):
        return "reached"
    missed = (most is not None and low > most) or (least is not None and high < least)
    return "missed" if missed else "inconclusive"


def _beyond(beyond: Mapping[str, Mapping[str, Estimate]]) -> Iterator[str]:
    """Whether MEG is better than simpler measures that are asked the same."""
    titles = {title: f"area ({title})" for title in CONTRASTS}
    titles["recovery"] = "rank correlation with strength"
    titles["detected"] = "share of half-hearted goals that the swap test detects"
    for measure, test in zip(SIMPLER_FOLLOWED, SIMPLER, strict=True):
        differences = {**beyond[measure], **beyond[test]}
        parts = [
            f"{words} {number(differences[title], 3)}, {verdict(differences[title])}"
            for title, words in titles.items()
        ]
        yield f"{TITLES[FOLLOWED]} less {TITLES[measure]}: {'; '.join(parts)}."


def verdict(difference: Estimate) -> str:
    """Return whether a difference is "better", "worse" or "inconclusive".

    Fewer different mazes and agents are in a resample, which biases the resampled differences: the
    percentile interval may lie to one side of the value. So 0 has to be farther from the value
    than either end, which the interval reflected at the value then leaves out as well.
    """
    value = difference.value
    low, high = difference.interval or (-math.inf, math.inf)
    if abs(value) > max(value - low, high - value):
        return "better" if value > 0 else "worse"
    return "inconclusive"
