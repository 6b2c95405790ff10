"""`goalmeter replicate calibration`: do the instruments recover goals that are known?"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "calibration")

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from goalmeter import MissingExtraError
from goalmeter.navigation import Trajectory
from goalmeter.navigation.agent_walks import play_every, require_models
from goalmeter.organisms import organism, organism_names
from goalmeter.pages import navigation as navigation_page
from goalmeter.report import Cell, Section, Table, number, percent, require_report_extra
from goalmeter.statistics import Estimate
from replications.calibration import instruments
from replications.calibration.instruments import INSTRUMENTS, QUESTIONS, Calibration, Subject, say
from replications.calibration.population import agents as drawn
from replications.calibration.population import scores as scoring
from replications.calibration.population.evidence import BESIDE, PopulationScale
from replications.calibration.population.scores import FOLLOWED, LEVEL, MEG, RECOMMENDED, TITLES
from replications.common import Outcome, StudyOptions, plain


def _calibrate(
    subjects: Sequence[Subject], out: Path, scale: instruments.Scale, options: StudyOptions
) -> tuple[Calibration, list[instruments.ExplainedUtility]]:
    # Fits of the simplest utility take longest, so they are left out where no question needs them:
    # of agents that have no class in the one question that they are made for.
    learners = [subject.name for subject in subjects if subject.directed and not subject.own_map]
    places = [(suite, subject.name) for suite in instruments.SUITES for subject in subjects]
    plans = [scale.plan(name, suite, seed=options.seed) for suite, name in places]
    runs = play_every(plans, out, on=options.on, progress=options.progress)
    walks: dict[str, dict[str, Sequence[Trajectory]]] = {suite: {} for suite in instruments.SUITES}
    for (suite, name), run in zip(places, runs, strict=True):
        walks[suite][name] = run.trajectories
    scores = [
        score
        for suite, agents in walks.items()
        for score in instruments.scores(suite, agents, learners, options)
    ]
    fitted, mole = [], organism("mole")
    organisms = [subject.name for subject in subjects if subject.organism and subject.counted]
    for suite, name in product((instruments.MAZE, instruments.KEY_NO_DOOR), organisms):
        worlds = [walk.world for walk in walks[suite][name]]
        # The largest kind in which the mole's map is wrong, so that all four organisms differ.
        wrong = [world for world in worlds if instruments.map_of(mole, world) != world]
        fitted.append((suite, name, (wrong or worlds)[-1]))
    return Calibration(subjects, scores), instruments.explain(fitted, walks)


_SIGNS = {instruments.TELLS: "✓", instruments.SAME: "✓", instruments.IN_PART: "~"}
_SIGNS |= {instruments.UNKNOWN: "?", instruments.SHOWN: ""}


def _truth_table(subjects: Sequence[Subject]) -> Table:
    directed = {True: "yes", False: "no", None: "not counted"}
    rows = [
        {
            "of": subject,
            "stands": directed[subject.directed] + ", shown beside the trained one" * subject.aside,
            "first_target": subject.target or "none",
            "map": f"the {subject.own_map.name}'s" if subject.own_map else "true",
        }
        for subject in subjects
    ]
    models, aside = say.declared("what_is_known_notes").values()
    notes = [models] * any(subject.directed is None for subject in subjects)
    notes += [aside] * any(subject.aside for subject in subjects)
    return say.table("what_is_known", rows, notes=notes)


def _area_table(calibration: Calibration) -> Table:
    by_place = {(verdict.instrument, verdict.question): verdict for verdict in calibration.verdicts}
    questions = [name for name in QUESTIONS if any(name == question for _, question in by_place)]

    def area(name: str, question: str) -> Cell | None:
        verdict = by_place.get((name, question))
        if verdict is None or math.isnan(verdict.area.value):
            return None
        sign = _SIGNS.get(verdict.words, "✗")
        return Cell(f"{number(verdict.area, 2)} {sign}".strip(), share=verdict.area.value)

    heads = {say.declared("heads")[question]: question for question in questions}
    rows = [
        (title, {head: area(name, question) for head, question in heads.items()})
        for name, title in INSTRUMENTS.items()
        if any(name == each for each, _ in by_place)
    ]
    lower = ", ".join(INSTRUMENTS[name] for name in instruments.LOWER)
    return say.table("areas_under_the_curve", rows, lower=lower)


def _agent_table(calibration: Calibration, *names: str) -> Table:
    asked = [QUESTIONS[name] for name in names]
    made_for = list(dict.fromkeys(name for each in asked for name in each.made_for))

    def cell(subject: Subject, name: str) -> str | None:
        value = calibration.mean(asked[0], name, subject.name)
        # Of the questions that instrument is made for, the first in which the agent has a class.
        marks = (calibration.mark(each, name, subject) for each in asked if name in each.made_for)
        sign = next((mark for mark in marks if mark is not None), "")
        return None if math.isnan(value) else f"{number(value, 2)} {sign}".strip()

    rows = [
        (who.name, {INSTRUMENTS[name]: cell(who, name) for name in made_for})
        for who in calibration.subjects
    ]
    notes = [f"{INSTRUMENTS[n]}: {say.declared('meanings')[n]}." for n in made_for]
    return say.table("agent_table", rows, notes=notes, title=asked[0].title)


def _sections(
    calibration: Calibration, utilities: Sequence[instruments.ExplainedUtility]
) -> list[Section]:
    asked = ("directed", "misled", "map"), ("target",)
    by_agent = tuple(_agent_table(calibration, *names) for names in asked)
    areas = _area_table(calibration), instruments.area_chart(calibration.verdicts)
    learnt = [vars(u) | {"colour": "grey" if u.faint else "in colour"} for u in utilities]
    table = say.table("learnt", learnt, half=percent(instruments.FAINT, 0))
    maps, share = list(map(instruments.utility_map, utilities)), percent(instruments.SHARE, 0)
    return [
        say.section("which_instruments_tell_agents_apart", areas),
        Section(title="What each instrument says of each agent", tables=by_agent),
        *([say.section("learnt_maps", table, maps, share=share)] if utilities else []),
        Section(title="Who was measured", tables=(_truth_table(calibration.subjects),)),
    ]


Population = Mapping[str, Any]  # as `scores.calibrate_population` gives it
FIRST, SECOND = "first population", "second population"


def _agent_tables(calibration: Population) -> list[Table]:
    """Who is said to want what, by class, target and trait, and beside reference agents."""
    limits, aimless, by_class = calibration["thresholds"], list(drawn.CLASSES)[:2], []
    for title, what in [*drawn.CLASSES.items(), ("all aimless", "false alarms")]:
        counted = [title] if title in drawn.CLASSES else aimless
        said = [
            {"agents": sum(map(rates["classes"].__getitem__, counted))}
            | rates["said_to_want_something"].get(title, rates["false_alarms"])
            for rates in calibration["populations"]
        ]
        by_class.append((title, what, *said))
    second = calibration["populations"][1]
    wanted = second["confusion"]["wanted_by_named"]
    confusion = zip((*drawn.TARGETS, drawn.NONE), wanted, strict=True)
    beside = []
    for name, scores in second["beside"].items():
        # The largest score, and the target that has it.
        best = max(scores[RECOMMENDED])
        target = drawn.TARGETS[scores[RECOMMENDED].index(best)]
        named = target if best > limits[RECOMMENDED] else drawn.NONE
        beside.append((name, scores[FOLLOWED], 1.0 - best, named))
    shown = {
        "share": percent(drawn.CHOSEN_FALSE_ALARMS, 0),
        "level": _limit(RECOMMENDED, limits[RECOMMENDED]),
        "limit": _limit(MEG, limits[MEG]),
    }
    test = {"instrument": TITLES[RECOMMENDED]}
    by_trait = []
    for caption, is_habit in say.declared("trait_captions").items():
        rows = [row for row in second["traits"] if (row["trait"] == "habit") == is_habit]
        by_trait.append(say.table("trait_table", rows, caption=caption, **test))
    return [
        say.table("who_is_said_to_want_something", by_class, **shown),
        say.table("confusion_table", confusion, **test),
        *by_trait,
        say.table("reference_agents_and_ideal_organisms_in", beside),
    ]


def _instrument_tables(calibration: Population) -> list[Table]:
    """The rates of every instrument, what MEG adds to the others, and what it costs."""
    both, tables = dict(zip((FIRST, SECOND), calibration["populations"], strict=True)), []
    for title, rates in both.items():
        rows = [
            {"title": TITLES[name], "limit": _limit(name, calibration["thresholds"][name])}
            | {key: rates[key][name] for key in ("false_alarms", "named_rightly")}
            | {kind: said[name] for kind, said in rates["said_to_want_something"].items()}
            for name in scoring.INSTRUMENTS
        ]
        tables.append(say.table("rate_table", rows, title=title))
    graded = [
        (
            TITLES[name],
            *(both[SECOND][key][name] for key in ("areas", "areas_in_bands", "recovery")),
        )
        for name in (*scoring.PLAIN, *scoring.MOVED)
    ]
    beyond = [
        (f"{TITLES[measure].partition(' ')[0]}, {title.partition(' ')[0]}", of[measure] | of[test])
        for title, rates in both.items()
        for of in [rates["recommended_beyond"]]
        for measure, test in zip(scoring.SIMPLER_FOLLOWED, scoring.SIMPLER, strict=True)
    ]
    costs = [
        row | {"instrument": TITLES[name], "limit": _limit(name, row["threshold"])}
        for name, rows in calibration["costs"].items()
        for row in rows
    ]
    return [
        *tables,
        say.table("validity_table", graded, title=SECOND),
        say.table("beyond_table", beyond, instrument=TITLES[FOLLOWED]),
        say.table("what_meg_adds_to_other_predictors", _added(calibration)),
        say.table("what_it_costs_to_be_sure", costs),
    ]


def _added(calibration: Population) -> list[dict[str, Any]]:
    models = zip(say.declared("added"), calibration["added"], strict=True)
    return [{"model": title, "added": TITLES[row["more"]]} | row for title, row in models]


def _limit(name: str, limit: float) -> str:
    return f"p ≤ {LEVEL:g}" if name in scoring.TESTS else f"> {number(limit, 3)}"


def _population_sections(calibration: Population) -> list[Section]:
    scale, beyond = calibration["scale"], "What MEG tells beyond success, SPL and accuracy"
    shown = {
        "scale": scale,
        "mazes": scale["grids"] * len(scale["sizes"]) * len(scale["complexities"]),
        "level": f"{LEVEL:g}",
        "share": percent(LEVEL, 0),
        "followed": TITLES[FOLLOWED],
        "test": TITLES[RECOMMENDED],
    }
    return [
        say.section("a_population_of_simulated_agents", _agent_tables(calibration), **shown),
        Section(title=beyond, tables=tuple(_instrument_tables(calibration))),
    ]


def _population_findings(calibration: Population) -> list[str]:
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


def _aims(calibration: Population) -> Iterator[str]:
    """What was required of the recommended test, at the required rate and at its level."""
    at_aim = [rates["at_rate_asked_for"] for rates in calibration["populations"]]
    at_level = [
        {
            "named": rates["named_rightly"][RECOMMENDED],
            "half-hearted": said[drawn.HALF_HEARTED_CLASS][RECOMMENDED],
            "aimless": rates["false_alarms"][RECOMMENDED],
            "competent": said[drawn.COMPETENT_CLASS][RECOMMENDED],
        }
        for rates in calibration["populations"]
        for said in [rates["said_to_want_something"]]
    ]
    aims = say.declared("aims")
    asked = [("named", LEVEL, at_level)]
    for level, found in ((aims["aimless"]["most"], at_aim), (LEVEL, at_level)):
        asked += [(name, level, found) for name in aims if name != "named"]
    for name, level, (first, second) in asked:
        values = {"before": first[name], "after": second[name]}
        values["outcome"] = _outcome(second[name], **aims[name])
        yield say.line("aim", of=aims[name], level=level, **values)


def _outcome(rate: Estimate, least: float = -math.inf, most: float = math.inf, **_: Any) -> str:
    """Whether a rate is on the right side of its aim: its interval has to be."""
    low, high = rate.interval or (-math.inf, math.inf)
    if least <= low and high <= most:
        return "reached"
    return "missed" if low > most or high < least else "inconclusive"


def _beyond(beyond: Mapping[str, Mapping[str, Estimate]]) -> Iterator[str]:
    """Whether MEG is better than simpler measures that are asked the same."""
    titles = {title: f"area ({title})" for title in scoring.CONTRASTS} | say.declared("beyond")
    for measure, test in zip(scoring.SIMPLER_FOLLOWED, scoring.SIMPLER, strict=True):
        of = {**beyond[measure], **beyond[test]}
        parts = (f"{title} {number(of[n], 3)}, {verdict(of[n])}" for n, title in titles.items())
        yield f"{TITLES[FOLLOWED]} compared with {TITLES[measure]}: {'; '.join(parts)}."


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


_IDEAL: list[str] = say.declared("agents")["ideal"]
AGENTS = [*(f"{instruments.TRAINED}{name}" for name in organism_names()), *_IDEAL]
SCALE, POPULATION = instruments.Scale(), PopulationScale()
OPTIONS = ("agents",)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Measure agents whose goals are known; populations walk anew, other walks are stored.

    Seeds are grids of each size and complexity: 2 by default, 6 for the populations. `agents` are
    language models, ideal organisms and reference agents; "none" for the populations alone.
    """
    subjects, scale, population_scale = _chosen(options)
    require_report_extra()
    try:
        require_models(subject.name for subject in subjects)
    except MissingExtraError as error:
        raise MissingExtraError(
            f"{error}, or do without: goalmeter replicate calibration --agents '{','.join(_IDEAL)}'"
        ) from error
    population = scoring.calibrate_population(population_scale, options)
    sections, came_of_it = _population_sections(population), _population_findings(population)
    findings = came_of_it
    result: dict[str, Any] = {"replication": "calibration", "population": plain(population)}
    if subjects:
        calibration, utilities = _calibrate(subjects, out / "walks", scale, options)
        sections += _sections(calibration, utilities)
        findings = [*findings, *calibration.findings()]
        result |= {
            "agents": [say.record("subject_record", of=subject) for subject in subjects],
            "instruments": say.declared("meanings"),
            "verdicts": plain(calibration.verdicts),
            "scores": [
                {"agent": row.agent} | row.grid._asdict() | {"values": row.values}
                for row in calibration.scores
            ],
            "learnt": plain(utilities),
        }
    result["findings"] = findings
    glossary, lists = navigation_page.GLOSSARY, {"Results for each aim": came_of_it}
    return say.report(out, options, sections, result, findings, glossary, lists=lists)


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    subjects, scale, population = _chosen(options)
    asked = [(subject.name, suite) for suite in instruments.SUITES for subject in subjects]
    plans = [scale.plan(*each, seed=options.seed) for each in asked]
    mazes = sum(len(population.pairs(seed)) for seed in scoring.population_seeds(options.seed))
    return {
        "mazes of populations": mazes,
        "walks of populations": 2 * mazes * population.walks * (population.agents + len(BESIDE)),
        "walks of single agents": sum(len(plan.keys()) for plan in plans),
    }


def _chosen(options: StudyOptions) -> tuple[list[Subject], instruments.Scale, PopulationScale]:
    scale = replace(SCALE, grids=options.count(SCALE.grids, least=1))
    population = replace(POPULATION, grids=options.seeds or POPULATION.grids)
    if options.agents == "none":
        return [], scale, population
    names = AGENTS if options.agents is None else options.agents.split(",")
    subjects = instruments.subjects_of(names)
    if not any(all(q.classes(subjects)) for q in QUESTIONS.values() if not q.control):
        raise say.refusal("agents", agents=options.agents)
    return subjects, scale, population
