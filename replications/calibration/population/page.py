"""Tables, page sections and findings of a calibration on populations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from goalmeter.report import Section, Table, number, p_value, percent
from goalmeter.statistics import Estimate
from replications.calibration.population import agents as traits
from replications.calibration.population.agents import (
    CLASSES,
    COMPETENT_CLASS,
    HALF_HEARTED_CLASS,
    NONE,
    TARGETS,
)
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

    return say.table(
        "who_is_said_to_want_something",
        [
            (title or "all aimless", what, *(entry(r, title) for r in calibration["populations"]))
            for title, what in [*CLASSES.items(), (None, "false alarms")]
        ],
        share=percent(traits.CHOSEN_FALSE_ALARMS, 0),
        level=_limit(RECOMMENDED, calibration["thresholds"][RECOMMENDED]),
        limit=_limit(MEG, calibration["thresholds"][MEG]),
    )


def rate_table(calibration: Calibration, rates: Rates, title: str) -> Table:
    """Tabulate the error rates of every instrument at its threshold."""
    said, limits = rates["said_to_want_something"], calibration["thresholds"]
    columns = (
        rates["false_alarms"],
        *(said[title] for title in (COMPETENT_CLASS, HALF_HEARTED_CLASS)),
        rates["named_rightly"],
    )
    rows = [
        (TITLES[name], _limit(name, limits[name]), *(column[name] for column in columns))
        for name in INSTRUMENTS
    ]
    return say.table("rate_table", rows, title=title)


def other_tables(calibration: Calibration) -> tuple[Table, ...]:
    """Tabulate the validity of graded instruments, and what MEG adds to simpler ones."""
    second = calibration["populations"][1]
    graded = [
        (TITLES[name], *(second[key][name] for key in ("areas", "areas_in_bands", "recovery")))
        for name in (*PLAIN, *MOVED)
    ]
    beyond = [
        (f"{TITLES[measure].partition(' ')[0]}, {order}", {**of[measure], **of[test]})
        for order, rates in zip(("first", "second"), calibration["populations"], strict=True)
        for of in [rates["recommended_beyond"]]
        for measure, test in zip(SIMPLER_FOLLOWED, SIMPLER, strict=True)
    ]
    added = [
        {"model": title, "added": TITLES[row["more"]]} | row
        for title, row in zip(ADDED, calibration["added"], strict=True)
    ]
    costs = [
        row | {"instrument": TITLES[name], "limit": _limit(name, row["threshold"])}
        for name, rows in calibration["costs"].items()
        for row in rows
    ]
    return (
        say.table("validity_table", graded, title=SECOND),
        say.table("beyond_table", beyond, instrument=TITLES[FOLLOWED]),
        say.table("what_meg_adds_to_other_predictors", added),
        say.table("what_it_costs_to_be_sure", costs),
    )


def agent_tables(calibration: Calibration) -> tuple[Table, ...]:
    """Tabulate what is named of agents of the second population, and of those beside it."""
    rates, limit = calibration["populations"][1], calibration["thresholds"][RECOMMENDED]
    confusion = zip((*TARGETS, NONE), rates["confusion"]["wanted_by_named"], strict=True)
    parts = {
        f"Agents that want something, by what they are, {SECOND}": False,
        f"Aimless agents, by their habit, {SECOND}": True,
    }
    beside = []
    for name, scores in rates["beside"].items():
        # The largest score, and the target that has it.
        best = max(scores[RECOMMENDED])
        named = TARGETS[scores[RECOMMENDED].index(best)] if best > limit else NONE
        beside.append((name, scores[FOLLOWED], p_value(1.0 - best), named))
    test = {"instrument": TITLES[RECOMMENDED]}
    return (
        say.table("confusion_table", confusion, **test),
        *(
            say.table(
                "trait_table",
                [row for row in rates["traits"] if (row["trait"] == "habit") == habit],
                caption=caption,
                **test,
            )
            for caption, habit in parts.items()
        ),
        say.table("reference_agents_and_ideal_organisms_in", beside),
    )


def _limit(name: str, limit: float) -> str:
    """A threshold as a table shows it."""
    return f"p ≤ {LEVEL:g}" if name in TESTS else f"> {number(limit, 3)}"


# --- Page -----------------------------------------------------------------------------------------
def sections(calibration: Calibration) -> list[Section]:
    """Return what the instruments say of two populations."""
    scale, (first, second) = calibration["scale"], calibration["populations"]
    texts = say(
        "a_population_of_simulated_agents",
        agents=len(first["agents"]),
        mazes=scale["grids"] * len(scale["sizes"]) * len(scale["complexities"]),
        walks=scale["walks"],
        followed=TITLES[FOLLOWED],
        test=TITLES[RECOMMENDED],
        level=f"{LEVEL:g}",
        share=percent(LEVEL, 0),
    )
    rates = [rate_table(calibration, of, title) for of, title in ((first, FIRST), (second, SECOND))]
    return [
        Section(**texts, tables=(class_table(calibration), *agent_tables(calibration))),
        Section(
            title="What MEG tells beyond success, SPL and accuracy",
            tables=(*rates, *other_tables(calibration)),
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
            asked=say.declared("aims")[aim],
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
