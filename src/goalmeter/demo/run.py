"""`goalmeter demo`: measure the embedded agents and write one page."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter._errors import MissingExtraError, require
from goalmeter.commands.outcome import Outcome, planned, write_outcome
from goalmeter.demo import mouse
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State
from goalmeter.navigation import agent_walks
from goalmeter.navigation.goals import wants
from goalmeter.navigation.plan import WalkPlan
from goalmeter.navigation.plan import forecast as model_forecast
from goalmeter.navigation.prompts import template
from goalmeter.navigation.rollouts import Walked
from goalmeter.navigation.rollouts import forecast as forecast_of_walks
from goalmeter.navigation.suites import KEY_NO_DOOR, MAZE
from goalmeter.navigation.trajectories import suite
from goalmeter.organisms.kinds import is_unseen, organism, organism_names
from goalmeter.pages import Part, Texts, joined, navigation
from goalmeter.pages.meg import GLOSSARY, PolicyRow, policy_table
from goalmeter.pages.reflection import part_of as reflection_part
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.measure import forecast as reflection_forecast
from goalmeter.report import Finding, Link, Section, require_report_extra
from goalmeter.report.numbers import nats, percent
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.scenes import Scenes, uncertain_cells
from goalmeter.representation.use.causal_use import NOT_USED, USED, causal_use
from goalmeter.representation.use.directions import target_cells
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.runs.forecast import together, unmeasured
from goalmeter.runs.progress import Tell

say = Texts("demo")
MOLE = "mole"  # the organism whose map is wrong
LAKE_NAME, LAKE_EPSILON = "FrozenLake-v1", 0.2
LOG_EPSILON, LOG_EPISODES = 0.1, 100
# Whose self-reflection is measured, each beside its reality check; few steps, to take seconds only.
_AGENTS = ("random", "constant", "naive", "q-learner")
REFLECTING = [form.format(name) for name in _AGENTS for form in ("{}", "rc({})")]
REFLECTION_STEPS, REFLECTION_SEEDS = 150, 5
_NOISE = "cliff-noise"  # id of the table that the finding leads to


# --- Organisms ------------------------------------------------------------------------------------
# As many walks as two cores make in about a minute. Many mazes rather than many walks through
# each, since intervals rest on mazes; all of them with walls that the mole may not see.
SUITES: dict[str, dict[str, Any]] = {
    MAZE.name: {"sizes": (7, 9), "complexities": (0.5, 1.0), "grids": 5, "trajectories": 2},
    KEY_NO_DOOR.name: {"grids": 20, "trajectories": 2},
}


_WALKS = "walks"  # id of the section that findings lead to


def plans_of(seed: int) -> tuple[str, list[WalkPlan]]:
    """Return why ideal organisms walk ("" if they do not), and the walks of each organism."""
    missing, prefix = "", agent_walks.TRAINED
    try:
        agent_walks.require_models(f"{agent_walks.TRAINED}{name}" for name in organism_names())
    except MissingExtraError as error:
        missing, prefix = str(error), agent_walks.IDEAL
    return missing, [
        agent_walks.walk_plan(f"{prefix}{name}", world, seed=seed, **options)
        for world, options in SUITES.items()
        for name in organism_names()
    ]


def organisms(
    out: Path, *, seed: int, on: str, progress: Tell | None = None
) -> tuple[dict[str, Any], Part]:
    """Let the organisms walk and measure them; stored walks are reused."""
    missing, plans = plans_of(seed)
    runs = agent_walks.play_every(plans, out, on=on, progress=progress)
    groups = navigation.groups(runs, progress)
    # What the agents want that walked in both kinds of worlds, on the true map or the mole's.
    places = [{result.agent: n for n, result in enumerate(each.results)} for each in groups]
    both = [[place[agent] for agent in places[0] if agent in places[1]] for place in places]
    (mazes, with_keys), (in_mazes, beside_keys) = (
        [[getattr(group, field)[n] for n in ns] for group, ns in zip(groups, both, strict=True)]
        for field in ("results", "directed")
    )
    directed = in_mazes, beside_keys
    goals = wants(mazes, with_keys, directed, organism(MOLE))
    made = []
    for kind in map(organism, organism_names()):
        target = ("the key" if kind.wants_key else "the goal") + ", on a wrong map" * kind.blind
        made.append((kind.name, "nothing" if kind.habit else target, kind.purpose))
    texts = say("organisms")
    if missing:
        texts["text"] += (say("ideal", missing=missing)["text"],)
    tables = navigation.wants_table(goals), say.table("made", made, anchor="made")
    agents = [navigation.agents_table(group.results) for group in groups]
    charts = [
        navigation.directedness_chart(group.directed, f"organisms-{name}-meg")
        for group, name in zip(groups, ("maze", "key"), strict=True)
    ]
    keys = navigation.key_tables(groups[1].results)[0]
    sections = (
        Section(tables=tables, **texts),
        _walks(runs),
        say.section("mazes", agents[0], charts[0]),
        say.section("keys", agents[1], keys, charts[1]),
    )
    findings = navigation.want_findings(goals, walks=_WALKS)
    values = {
        "missing": missing or None,
        "behaviour": navigation.in_order(groups, runs),
        "wants": [want.to_json() for want in goals],
    }
    return values, Part(sections=sections, findings=findings, glossary=navigation.GLOSSARY)


def _walks(runs: Sequence[Walked]) -> Section:
    # By their places among mouse, magpie, mole and moth.
    shown = {MAZE.name: (0, 2, 3), KEY_NO_DOOR.name: (0, 1, 3)}
    mole, chosen = organism(MOLE), []
    for name, numbers in shown.items():
        of_suite = [run for run in runs if run.plan.suite.name == name]
        for run in (of_suite[number] for number in numbers):
            # The first walk through the last world in which the mole's map is wrong, the largest.
            walked = run.trajectories
            wrong = [walk for walk in walked if (mole.walls(walk.world) != walk.world.walls).any()]
            world = (wrong or walked)[-1].world
            chosen.append((run.plan.agent, next(walk for walk in walked if walk.world == world)))
    answers = None
    if answered := [each for each in chosen if each[1].steps and each[1].steps[0].raw]:
        agent, walk = answered[0]
        rows = [(name, walk.suite, navigation.cut(walk.steps[0].raw)) for name, walk in answered]
        prompt = navigation.cut(walk.steps[0].prompt)
        answers = say.table("answers", rows, agent=agent, prompt=prompt)
    replays = [
        navigation.replay(walk, f"organisms-walk-{number}", name)
        for number, (name, walk) in enumerate(chosen, start=1)
    ]
    return say.section("walks", answers, replays, anchor=_WALKS)


# --- Use ------------------------------------------------------------------------------------------
# The mole was made not to see the walls of some rows, which stand in its activations all the same.
# What it acts on is measured by knocking cells out while it answers.
TITLE = "What of a map they act on"
SIZE, GRIDS, PROMPT = 7, 32, "compact/2"
COMPLEXITIES, SCREEN_CELLS = (0.4, 0.6, 0.8), 24
SEEN, UNSEEN = "rows that both see", "rows that the mole does not see"
_ANCHOR = "used-cells"


def measure_use(
    out: Path, *, seed: int, on: str, progress: Tell | None = None
) -> list[dict[str, Any]] | str:
    """Knock cells out while mouse and mole answer; a text says which package is missing."""
    try:
        for package in ("torch", "transformers", "safetensors"):
            require(package, extra="lm", feature="reading activations")
    except MissingExtraError as error:
        return str(error)
    return [*carry_out(use_study(seed), on=on, out=out, progress=progress).values()]


def use_study(seed: int) -> Study[dict[str, Any]]:
    """Return the trials of `measure_use`."""
    common = {"grids": GRIDS, "seed": seed}
    questions = product(("mouse", MOLE), (SEEN, UNSEEN))
    return Study[dict[str, Any]](
        "cells in use",
        "goalmeter.demo.run:use_of",
        {f"{name}, {cells}": {"name": name, "cells": cells} for name, cells in questions},
        common=common,
        noun="question",
        what={"kind": "cells in use"} | common,
    )


def use_of(name: str, cells: str, grids: int, seed: int) -> dict[str, Any]:
    """Measure whether an organism acts on some cells, as JSON values, in a worker process."""
    network, unseen = Network.open(f"{agent_walks.TRAINED}{name}"), cells == UNSEEN
    use = causal_use(
        _decisions(network, unseen, grids, seed),
        network,
        cells=lambda sample, cell: is_unseen(cell.row) == unseen,
        screen_cells=SCREEN_CELLS,
        families=("knock-out",),
        layers=[1],
        doses=(),
        seed=seed,
    )
    null = max(use.nulls, key=lambda row: row.needed.flips.value)
    return {
        "organism": name,
        "cells": cells,
        "flips": use.confirmed.needed.flips.to_json(),
        "null": null.needed.flips.to_json(),
        "verdict": use.verdict,
    }


def _decisions(network: Network, unseen: bool, grids: int, seed: int) -> list[Sample]:
    """A decision in each held-out maze where a shortest path needs a cell of the wanted rows."""
    mazes = suite(
        MAZE.name, sizes=[SIZE], complexities=COMPLEXITIES, grids=grids, seed=seed, held_out=True
    ).tasks
    worlds = [task.world for task in mazes]
    starts = [State(world.start) for world in worlds]
    uncertain = uncertain_cells(Scenes.of(worlds, starts, [None] * len(worlds)))
    samples = []
    for task in mazes:
        world = task.world
        states = [State(cell) for cell in world.open_cells if cell != world.goal]
        Draws("where the agent stands", seed, task.name).shuffle(states)
        for state in states:
            if any(
                target.needed
                and uncertain[world.shape][target.cell]
                and is_unseen(target.cell.row) == unseen
                for target in target_cells(world, state)
            ):
                question = template(PROMPT).prompt(world, state)
                ids = network.local.ids([{"role": "user", "content": question}])
                samples.append(Sample(task.name, 0, world, state, None, (), question, ids, ()))
                break
    return samples


def part_of_use(rows: Sequence[dict[str, Any]] | str) -> Part:
    """Return the section on cells in use, with a finding for each clear verdict."""
    if isinstance(rows, str):
        return Part(sections=(Section(title=f"{TITLE}: not measured", text=(f"{rows}.",)),))
    findings = [
        Finding(text=say.sentence("findings", "used", row=row), links=(Link("table", _ANCHOR),))
        for row in rows
        if row["verdict"] in (USED, NOT_USED)
    ]
    table = say.table("used_cells", rows, anchor=_ANCHOR, size=SIZE)
    return Part(sections=(Section(title=TITLE, tables=(table,), **say("use")),), findings=findings)


# --- Policies in known worlds ---------------------------------------------------------------------
def _measured(mdp: gm.TabularMDP, noisy: Mapping[str, float]) -> list[PolicyRow]:
    optimal = gm.optimal_policy(mdp)
    policies = {"optimal": optimal}
    policies |= {name: gm.epsilon_greedy(optimal, epsilon) for name, epsilon in noisy.items()}
    return [
        PolicyRow(
            name,
            gm.tabular.expected_return(mdp, policy).mean,
            gm.meg.known_utility(mdp, policy),
            gm.meg.unknown_utility(mdp, policy),
        )
        for name, policy in (policies | {"uniform": gm.uniform_policy(mdp)}).items()
    ]


def _frozen_lake() -> tuple[list[PolicyRow] | None, Section]:
    """Measure policies in FrozenLake; None if Gymnasium is not installed."""
    try:
        gymnasium = require("gymnasium", extra="rl", feature="Measuring a Gymnasium environment")
    except MissingExtraError as error:
        title = "A Gymnasium environment: not measured"
        return None, Section(title=title, text=(f"{error}.",))
    with closing(gymnasium.make(LAKE_NAME)) as env:
        mdp = gm.TabularMDP.from_gymnasium(env)
    rows = _measured(mdp, {f"ε-greedy, ε = {LAKE_EPSILON:g}": LAKE_EPSILON})
    table = policy_table(rows=rows, digits=3, **say("lake_policies", world=LAKE_NAME))
    return rows, say.section("lake", table, world=LAKE_NAME, horizon=mdp.steps)


# --- Logged trajectories --------------------------------------------------------------------------
def _logged(seed: int) -> tuple[list[dict[str, Any]], Section]:
    mdp = gm.cliff_world()
    policies = {
        f"ε-greedy, ε = {LOG_EPSILON:g}": gm.epsilon_greedy(gm.optimal_policy(mdp), LOG_EPSILON),
        "uniform": gm.uniform_policy(mdp),
    }
    rng = np.random.default_rng(seed)
    rows, values = [], []
    for name, policy in policies.items():
        log = gm.tabular.sample_trajectories(mdp, policy, LOG_EPISODES, rng=rng)
        for goal, unknown, exact in (
            ("the reward", None, gm.meg.known_utility(mdp, policy)),
            ("some utility over states", "state", gm.meg.unknown_utility(mdp, policy)),
        ):
            estimate = gm.meg.from_trajectories(mdp, log, unknown=unknown, rng=rng)
            rows.append({"agent": name, "goal": goal, "estimate": estimate, "exact": exact})
            row = {"agent": name, "goal": goal, "exact": exact.value}
            values.append(row | estimate.to_json())
    confidence = percent(estimate.confidence, 0)
    table = say.table("logged_estimates", rows, episodes=LOG_EPISODES, confidence=confidence)
    return values, say.section("logged", table, episodes=LOG_EPISODES)


def demo(
    out: str | Path, *, seed: int = 0, on: str = HERE, progress: Tell | None = None
) -> Outcome:
    """Measure the embedded agents and write report.html and results.json."""
    tell = progress or (lambda line: None)
    require_report_extra()
    # Walks and answers with another seed are other runs.
    walked, used = (Path(out) / name / f"seed-{seed}" for name in ("organisms", "use"))
    behaviour, organisms_part = organisms(walked, seed=seed, on=on, progress=progress)
    cells = measure_use(used, seed=seed, on=on, progress=progress)
    tell("CliffWorld")
    cliff = _measured(gm.cliff_world(), {f"ε = {e:g}": e for e in (0.1, 0.3, 0.5)})
    tell(LAKE_NAME)
    lake, lake_section = _frozen_lake()
    tell("logged trajectories")
    logs, logs_section = _logged(seed)
    tell("causal models")
    mice = mouse.measure()
    reflections, plain = [], []
    for name in REFLECTING:
        tell(f"self-reflection, {name}")
        seeds = range(seed, seed + REFLECTION_SEEDS)
        measured = gm.reflection.measure(name, REFLECTION_STEPS, seeds)
        rewards = measured.by_environment().items()
        environments = [{"name": n, "opposite": o, "reward_per_step": r} for (n, o), r in rewards]
        reflections.append(measured)
        # Without trials, of which there are hundreds.
        plain.append(measured.to_json() | {"environments": environments})
    tell("report")
    best, noisy, *_ = (row.known for row in cliff)
    table = policy_table(rows=cliff, **say("cliff_policies", maximum=nats(best.maximum)))
    cliff_section = say.section("cliff", replace(table, anchor=_NOISE))
    text = say.sentence("findings", "cliff", best=best, noisy=noisy)
    finding = Finding(text=text, links=(Link("numbers", _NOISE),))
    sections = (cliff_section, lake_section, logs_section)
    page = joined(
        [
            organisms_part,
            part_of_use(cells),
            Part(sections=sections, findings=[finding], glossary=GLOSSARY),
            mouse.part(mice),
            reflection_part(reflections),
        ]
    )
    # The terminal shows the findings; every table is in the report.
    title, lede = say("page").values()
    summary = [title, *(f"- {line.plain}" for line in page.findings), "All of it, with tables:"]
    fill = partial(textwrap.fill, width=100, subsequent_indent="  ", break_long_words=False)
    return write_outcome(
        out,
        title,
        page.sections,
        {
            "organisms": behaviour,
            "use": None if isinstance(cells, str) else cells,
            "cliff_world": [row.to_json() for row in cliff],
            "frozen_lake": lake and [row.to_json() for row in lake],
            "logged": logs,
            "mouse": {
                "example_1": mice.one_step.to_json(),
                "interventions": [shifts.to_json() for shifts in mice.shifts.values()],
            },
            "reflection": plain,
        },
        command=f"goalmeter demo --seed {seed}",
        lede=lede,
        findings=page.findings,
        glossary=page.glossary,
        tables=(),
        text="\n".join(map(fill, summary)),
        figures=False,
    )


def dry_run(out: str | Path, *, seed: int = 0, on: str = HERE) -> Outcome:
    """Estimate the cost of `demo`, without what takes seconds."""
    require_report_extra()
    walked, used = (Path(out) / name / f"seed-{seed}" for name in ("organisms", "use"))
    cost = []
    for plan in plans_of(seed)[1]:
        folder = agent_walks.run_folder(plan, walked)
        if plan.asking is None:
            cost.append(forecast_of_walks(plan, out=folder))
        else:
            cost.append(replace(model_forecast(plan, out=folder, connections=1), place=""))
    why = "the number of answers per question is not known in advance"
    use = unmeasured(use_study(seed), why, on=on, out=used)
    seeds = range(seed, seed + REFLECTION_SEEDS)
    played = [
        reflection_forecast(name, environments=BATTERY, steps=REFLECTION_STEPS, seeds=seeds)
        for name in REFLECTING
    ]
    assumed = ("trials run in this process and are not stored",)
    reflection = together("self-reflection", played, disk=None, assumed=assumed)
    return planned(together("organisms", cost), use, reflection)
