"""The organisms in the demo: their walks, what they act on, and their parts of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError, require
from goalmeter.commands.walks import IDEAL, MOLE, TRAINED, play_every, require_models, walk_plan
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import Cell
from goalmeter.navigation.plan import WalkPlan
from goalmeter.navigation.prompts import template
from goalmeter.navigation.rollouts import Walked
from goalmeter.navigation.suites import KEY_NO_DOOR, MAZE
from goalmeter.navigation.trajectories import Trajectory, suite
from goalmeter.organisms.kinds import is_unseen, organism, organism_names
from goalmeter.pages import Texts, navigation, navigation_tables
from goalmeter.pages.navigation import Group, cut
from goalmeter.pages.navigation_tables import Want
from goalmeter.pages.part import Part
from goalmeter.report import Finding, Link, Section
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.scenes import Scenes, uncertain_cells
from goalmeter.representation.use.causal_use import NOT_USED, USED, causal_use
from goalmeter.representation.use.directions import target_cells
from goalmeter.runs import Study, carry_out
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

say = Texts("demo")

# --- Measures -------------------------------------------------------------------------------------
# As many walks as two cores make in about a minute. Many mazes rather than many walks through
# each, since intervals rest on mazes; all of them with walls that the mole may not see.
SUITES: dict[str, dict[str, Any]] = {
    MAZE.name: {"sizes": (7, 9), "complexities": (0.5, 1.0), "grids": 5, "trajectories": 2},
    KEY_NO_DOOR.name: {"grids": 20, "trajectories": 2},
}


@dataclass(frozen=True)
class OrganismResults:
    """Measures of the organisms."""

    missing: str  # why ideal organisms walk in place of the trained ones; "" if they do not
    names: tuple[str, ...]  # of the organisms that walked
    walked: dict[str, list[Walked]]  # their walks, by suite
    groups: tuple[Group, ...]  # behaviour beside reference agents, in mazes and with keys
    wants: tuple[Want, ...]  # the goal inferred for each organism

    def to_json(self) -> dict[str, Any]:
        """All measures as JSON values."""
        runs = [run for suite in self.walked.values() for run in suite]
        return {
            "missing": self.missing or None,
            "behaviour": navigation.in_order(self.groups, runs),
            "wants": [want.to_json() for want in self.wants],
        }


def plans_of(seed: int) -> tuple[str, list[WalkPlan]]:
    """Return why ideal organisms walk ("" if they do not), and the walks of each organism."""
    missing, prefix = "", TRAINED
    try:
        require_models(f"{TRAINED}{name}" for name in organism_names())
    except MissingExtraError as error:
        missing, prefix = str(error), IDEAL
    return missing, [
        walk_plan(f"{prefix}{name}", world, seed=seed, **options)
        for world, options in SUITES.items()
        for name in organism_names()
    ]


def measure(out: Path, *, seed: int, on: str, progress: Tell | None = None) -> OrganismResults:
    """Let the organisms walk and measure them; stored walks are reused."""
    missing, plans = plans_of(seed)
    runs = play_every(plans, out, on=on, progress=progress)
    groups = tuple(navigation.groups(runs, progress))
    walked = {name: [run for run in runs if run.plan.suite.name == name] for name in SUITES}
    names = tuple(run.plan.agent for run in walked[MAZE.name])
    # What the agents want that walked in both kinds of worlds, on the true map or the mole's.
    in_mazes, with_keys = groups
    place = {result.agent: n for n, result in enumerate(with_keys.results)}
    agents = [result.agent for result in in_mazes.results]
    both = [(n, place[agent]) for n, agent in enumerate(agents) if agent in place]
    wants = navigation_tables.wants(
        [in_mazes.results[n] for n, _ in both],
        [with_keys.results[n] for _, n in both],
        ([in_mazes.directed[n] for n, _ in both], [with_keys.directed[n] for _, n in both]),
        organism(MOLE),
    )
    return OrganismResults(missing, names, walked, groups, tuple(wants))


# --- Page -----------------------------------------------------------------------------------------
_WALKS = "walks"  # id of the section that findings lead to


def part(results: OrganismResults) -> Part:
    """Return who they are, what they want, and how they walk."""
    in_mazes, with_keys = results.groups
    made = []
    for kind in map(organism, organism_names()):
        target = ("the key" if kind.wants_key else "the goal") + ", on a wrong map" * kind.blind
        made.append((kind.name, "nothing" if kind.habit else target, kind.purpose))
    texts = say("organisms")
    if results.missing:
        texts["text"] += (say("ideal", missing=results.missing)["text"],)
    wants = navigation_tables.wants_table(results.wants)
    chart = navigation_tables.directedness_chart
    sections = (
        Section(tables=(wants, say.table("made", made, anchor="made")), **texts),
        _walks(results),
        say.section(
            "mazes",
            navigation_tables.agents_table(in_mazes.results),
            chart(in_mazes.directed, "organisms-maze-meg"),
        ),
        say.section(
            "keys",
            navigation_tables.agents_table(with_keys.results),
            navigation_tables.key_tables(with_keys.results)[0],
            chart(with_keys.directed, "organisms-key-meg"),
        ),
    )
    findings = navigation_tables.findings(results.wants, walks=_WALKS)
    return Part(sections=sections, findings=findings, glossary=navigation.GLOSSARY)


def _walks(results: OrganismResults) -> Section:
    mouse, magpie, mole, moth = range(4)
    shown = {MAZE.name: (mouse, mole, moth), KEY_NO_DOOR.name: (mouse, magpie, moth)}
    chosen = [
        (results.names[number], _walk(results.walked[suite][number].trajectories))
        for suite, numbers in shown.items()
        for number in numbers
    ]
    answers = None
    if answered := [each for each in chosen if each[1].steps and each[1].steps[0].raw]:
        agent, walk = answered[0]
        rows = [(name, walk.suite, cut(walk.steps[0].raw)) for name, walk in answered]
        answers = say.table("answers", rows, agent=agent, prompt=cut(walk.steps[0].prompt))
    replays = [
        navigation.replay(walk, f"organisms-walk-{number}", name)
        for number, (name, walk) in enumerate(chosen, start=1)
    ]
    return say.section("walks", answers, replays, anchor=_WALKS)


def _walk(walks: Sequence[Trajectory]) -> Trajectory:
    """The first walk through the last world in which the mole's map is wrong, the largest kind."""
    mole = organism(MOLE)
    wrong = [walk for walk in walks if (mole.walls(walk.world) != walk.world.walls).any()]
    world = (wrong or list(walks))[-1].world
    return next(walk for walk in walks if walk.world == world)


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
    questions = [(name, cells) for name in ("mouse", MOLE) for cells in (SEEN, UNSEEN)]
    return Study[dict[str, Any]](
        "cells in use",
        "goalmeter.demo.organisms:use_of",
        {f"{name}, {cells}": {"name": name, "cells": cells} for name, cells in questions},
        common=common,
        noun="question",
        what={"kind": "cells in use"} | common,
    )


def use_of(name: str, cells: str, grids: int, seed: int) -> dict[str, Any]:
    """Measure whether an organism acts on some cells, as JSON values, in a worker process."""
    network = Network.open(f"{TRAINED}{name}")

    def wanted(sample: Sample, cell: Cell) -> bool:
        return is_unseen(cell.row) == (cells == UNSEEN)

    use = causal_use(
        _decisions(network, wanted, grids, seed),
        network,
        cells=wanted,
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


def _decisions(
    network: Network, wanted: Callable[[Sample, Cell], bool], grids: int, seed: int
) -> list[Sample]:
    """A decision in each unseen maze that has a place where a shortest path needs a wanted cell."""
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
            question = template(PROMPT).prompt(world, state)
            ids = network.local.ids([{"role": "user", "content": question}])
            sample = Sample(task.name, 0, world, state, None, (), question, ids, ())
            if any(
                target.needed
                and uncertain[world.shape][target.cell]
                and wanted(sample, target.cell)
                for target in target_cells(world, state)
            ):
                samples.append(sample)
                break
    return samples


def part_of_use(rows: Sequence[dict[str, Any]] | str) -> Part:
    """Return the section on cells in use, with a finding for each clear verdict."""
    if isinstance(rows, str):
        return Part(sections=(Section(title=f"{TITLE}: not measured", text=(f"{rows}.",)),))
    findings = []
    for row in rows:
        if row["verdict"] in (USED, NOT_USED):
            flips, null = (percent(Estimate.from_json(row[name])) for name in ("flips", "null"))
            finding = Finding(
                text=f"{row['organism']}, {row['cells']}: its cells are {row['verdict']}: {flips} "
                f"of moves change when a needed cell is knocked out, {null} when another is.",
                links=(Link("table", _ANCHOR),),
            )
            findings.append(finding)
    table = say.table("used_cells", rows, anchor=_ANCHOR, size=SIZE)
    return Part(sections=(Section(title=TITLE, tables=(table,), **say("use")),), findings=findings)
