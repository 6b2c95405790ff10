"""Tables, page sections and findings of a calibration on populations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from goalmeter.report import Section, Table, number, p_value, percent
from goalmeter.statistics import Estimate
from replications.calibration.population import agents as drawn
from replications.calibration.population import scores as scoring
from replications.calibration.population.scores import FOLLOWED, LEVEL, MEG, RECOMMENDED, TITLES
from replications.common import Texts

say = Texts("calibration")
Calibration = Mapping[str, Any]  # as `scores.calibrate_population` gives it
FIRST, SECOND = "first population", "second population"


def _class_table(calibration: Calibration) -> Table:
    limits, aimless, rows = calibration["thresholds"], list(drawn.CLASSES)[:2], []
    for title, what in [*drawn.CLASSES.items(), ("all aimless", "false alarms")]:
        row: list[Any] = [title, what]
        for rates in calibration["populations"]:
            counted = [title] if title in drawn.CLASSES else aimless
            agents = sum(rates["classes"][name] for name in counted)
            said = rates["said_to_want_something"].get(title, rates["false_alarms"])
            row.append({"agents": agents, **said})
        rows.append(row)
    return say.table(
        "who_is_said_to_want_something",
        rows,
        share=percent(drawn.CHOSEN_FALSE_ALARMS, 0),
        level=_limit(RECOMMENDED, limits[RECOMMENDED]),
        limit=_limit(MEG, limits[MEG]),
    )


def _rate_table(calibration: Calibration, index: int, title: str) -> Table:
    rates, limits = calibration["populations"][index], calibration["thresholds"]
    rows = [
        {"title": TITLES[name], "limit": _limit(name, limits[name])}
        | {key: rates[key][name] for key in ("false_alarms", "named_rightly")}
        | {title: said[name] for title, said in rates["said_to_want_something"].items()}
        for name in scoring.INSTRUMENTS
    ]
    return say.table("rate_table", rows, title=title)


def _other_tables(calibration: Calibration) -> tuple[Table, ...]:
    second = calibration["populations"][1]
    graded = [
        (TITLES[name], *(second[key][name] for key in ("areas", "areas_in_bands", "recovery")))
        for name in (*scoring.PLAIN, *scoring.MOVED)
    ]
    beyond = [
        (f"{TITLES[measure].partition(' ')[0]}, {order}", {**of[measure], **of[test]})
        for order, rates in zip(("first", "second"), calibration["populations"], strict=True)
        for of in [rates["recommended_beyond"]]
        for measure, test in zip(scoring.SIMPLER_FOLLOWED, scoring.SIMPLER, strict=True)
    ]
    costs = [
        row | {"instrument": TITLES[name], "limit": _limit(name, row["threshold"])}
        for name, rows in calibration["costs"].items()
        for row in rows
    ]
    return (
        say.table("validity_table", graded, title=SECOND),
        say.table("beyond_table", beyond, instrument=TITLES[FOLLOWED]),
        say.table("what_meg_adds_to_other_predictors", _added(calibration)),
        say.table("what_it_costs_to_be_sure", costs),
    )


def _added(calibration: Calibration) -> list[dict[str, Any]]:
    models = zip(say.declared("added"), calibration["added"], strict=True)
    return [{"model": title, "added": TITLES[row["more"]]} | row for title, row in models]


def _agent_tables(calibration: Calibration) -> tuple[Table, ...]:
    rates, limit = calibration["populations"][1], calibration["thresholds"][RECOMMENDED]
    wanted = rates["confusion"]["wanted_by_named"]
    confusion = zip((*drawn.TARGETS, drawn.NONE), wanted, strict=True)
    test = {"instrument": TITLES[RECOMMENDED]}
    by_trait = []
    for caption, habit in (
        (f"Agents that want something, by what they are, {SECOND}", False),
        (f"Aimless agents, by their habit, {SECOND}", True),
    ):
        rows = [row for row in rates["traits"] if (row["trait"] == "habit") == habit]
        by_trait.append(say.table("trait_table", rows, caption=caption, **test))
    beside = []
    for name, scores in rates["beside"].items():
        # The largest score, and the target that has it.
        best = max(scores[RECOMMENDED])
        named = drawn.TARGETS[scores[RECOMMENDED].index(best)] if best > limit else drawn.NONE
        beside.append((name, scores[FOLLOWED], p_value(1.0 - best), named))
    return (
        say.table("confusion_table", confusion, **test),
        *by_trait,
        say.table("reference_agents_and_ideal_organisms_in", beside),
    )


def _limit(name: str, limit: float) -> str:
    return f"p ≤ {LEVEL:g}" if name in scoring.TESTS else f"> {number(limit, 3)}"


def sections(calibration: Calibration) -> list[Section]:
    """Return what the instruments say of two populations."""
    scale = calibration["scale"]
    mazes = scale["grids"] * len(scale["sizes"]) * len(scale["complexities"])
    names = {"followed": TITLES[FOLLOWED], "test": TITLES[RECOMMENDED]}
    rates = [_rate_table(calibration, index, title) for index, title in enumerate((FIRST, SECOND))]
    return [
        say.section(
            "a_population_of_simulated_agents",
            (_class_table(calibration), *_agent_tables(calibration)),
            scale=scale,
            mazes=mazes,
            level=f"{LEVEL:g}",
            share=percent(LEVEL, 0),
            **names,
        ),
        Section(
            title="What MEG tells beyond success, SPL and accuracy",
            tables=(*rates, *_other_tables(calibration)),
        ),
    ]


def findings(calibration: Calibration) -> list[str]:
    """Return summary sentences generated from the results."""
    second, limits = calibration["populations"][1], calibration["thresholds"]
    return [
        say.line("recommended", test=TITLES[RECOMMENDED], level=LEVEL),
        *_aims(calibration),
        say.line("not_recommended", limit=limits[MEG], second=second),
        *_beyond(second["recommended_beyond"]),
        *(
            say.line("added", row=row, verdict=verdict(row["gain_on_second"]))
            for row in _added(calibration)
        ),
    ]


def _aims(calibration: Calibration) -> Iterator[str]:
    """What was required of the recommended test, at the required rate and at its level."""
    at_level, at_aim = [], []
    for rates in calibration["populations"]:
        said = rates["said_to_want_something"]
        at_aim.append(rates["at_rate_asked_for"])
        at_level.append(
            {
                "named": rates["named_rightly"][RECOMMENDED],
                "half-hearted": said[drawn.HALF_HEARTED_CLASS][RECOMMENDED],
                "aimless": rates["false_alarms"][RECOMMENDED],
                "competent": said[drawn.COMPETENT_CLASS][RECOMMENDED],
            }
        )
    aims = say.declared("aims")
    asked = [("named", LEVEL, at_level)]
    for level, found in ((aims["aimless"]["most"], at_aim), (LEVEL, at_level)):
        asked += [(name, level, found) for name in aims if name != "named"]
    for name, level, (first, second) in asked:
        aim, before, after = aims[name], first[name], second[name]
        yield say.line(
            "aim",
            asked=aim["text"],
            aim=aim["aim"],
            level=level,
            before=before,
            after=after,
            outcome=outcome(after, aim.get("least"), aim.get("most")),
        )


def outcome(rate: Estimate, least: float | None, most: float | None) -> str:
    """Return whether a rate is on the right side of its aim: its interval has to be."""
    low, high = rate.interval or (-math.inf, math.inf)
    if (most is not None and high <= most) or (least is not None and low >= least):
        return "reached"
    missed = (most is not None and low > most) or (least is not None and high < least)
    return "missed" if missed else "inconclusive"


def _beyond(beyond: Mapping[str, Mapping[str, Estimate]]) -> Iterator[str]:
    """Whether MEG is better than simpler measures that are asked the same."""
    titles = {title: f"area ({title})" for title in scoring.CONTRASTS}
    titles["recovery"] = "rank correlation with strength"
    titles["detected"] = "share of half-hearted goals that the swap test detects"
    for measure, test in zip(scoring.SIMPLER_FOLLOWED, scoring.SIMPLER, strict=True):
        differences = {**beyond[measure], **beyond[test]}
        parts = [
            f"{words} {number(differences[title], 3)}, {verdict(differences[title])}"
            for title, words in titles.items()
        ]
        yield f"{TITLES[FOLLOWED]} less {TITLES[measure]}: {'; '.join(parts)}."


def verdict(difference: Estimate) -> str:
    """Return whether a difference is "better", "worse" or "inconclusive"."""
    # Fewer different mazes and agents are in a resample, which biases the resampled differences:
    # the percentile interval may lie to one side of the value. So 0 has to be farther from the
    # value than either end, which the interval reflected at the value then leaves out as well.
    value = difference.value
    low, high = difference.interval or (-math.inf, math.inf)
    if abs(value) > max(value - low, high - value):
        return "better" if value > 0 else "worse"
    return "inconclusive"
