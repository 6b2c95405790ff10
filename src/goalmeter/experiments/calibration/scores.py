"""The number that each instrument has for an agent's walks in each grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.experiments.calibration.players import KEY_DOOR, KEY_NO_DOOR, MAZE, TWO_PATH
from goalmeter.experiments.calibration.questions import BEHAVIOUR
from goalmeter.experiments.calibration.truth import MOLE, map_of
from goalmeter.gridworld.tabular_world import GOAL, KEY
from goalmeter.navigation.directed import learnt
from goalmeter.navigation.directed.evidence import Evidence, evidence
from goalmeter.navigation.directed.fits import signed_nats
from goalmeter.navigation.measures.behaviour import row
from goalmeter.navigation.measures.grids import Grids
from goalmeter.navigation.measures.keys import pick_up
from goalmeter.navigation.measures.observed import Grid, Observed, observed
from goalmeter.navigation.measures.wrong_moves import towards_key
from goalmeter.navigation.record import Trajectory
from goalmeter.organisms.kinds import organism
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.runs.progress import Tell

# Sums of the same numbers in another order differ by rounding, which is no order.
_DIGITS = 9


@dataclass(frozen=True)
class Score:
    """The instruments' numbers for an agent in one grid.

    Attributes:
        other_map: whether the mole's map of it is wrong.
        values: by the name of the instrument, as they are usually told; NaN where unknown.
    """

    agent: str
    grid: Grid
    other_map: bool
    values: dict[str, float]


def scores(
    suite: str,
    agents: Mapping[str, Sequence[Trajectory]],
    *,
    learners: Sequence[str],
    on: str = HERE,
    progress: Tell | None = None,
) -> list[Score]:
    """Every instrument for every agent in every grid of a suite, all in the same worlds.

    Of the `learners` the simplest utility is learnt where there are keys.
    """
    # The worlds of two paths that have no key are there to be compared with others.
    seen = [
        observed([walk for walk in walks if suite == MAZE or walk.world.key is not None])
        for walks in agents.values()
    ]
    if progress is not None:
        progress(f"{suite}: measuring {len(agents)} agents, grids: {len(seen[0].grids)}")
    by_agent = [
        [
            Score(name, grid, _other_map(walks, number), values)
            for number, (grid, values) in enumerate(
                zip(walks.grids, _plain(walks, suite), strict=True)
            )
        ]
        for name, walks in zip(agents, seen, strict=True)
    ]
    fitted = _learnt(agents, seen, suite, learners, on, progress)
    for name, values in [*_known(seen, suite), *fitted]:
        for rows, numbers in zip(by_agent, values, strict=True):
            for score, number in zip(rows, numbers, strict=True):
                score.values[name] = round(float(number), _DIGITS)
    return [score for rows in by_agent for score in rows]


def _plain(seen: Observed, suite: str) -> list[dict[str, float]]:
    """The behavioural measures of each grid by itself."""
    out = []
    for number in range(len(seen.grids)):
        in_grid = seen.where(seen.grid == number)
        measured = row(in_grid, 0.95, (None, None, None, "{}"))
        values = {name: getattr(measured, name).value for name in BEHAVIOUR}
        if suite != MAZE:
            grids = Grids(in_grid, 0.95)
            values["pick_up"] = pick_up(grids).excess.value
        if suite in (KEY_NO_DOOR, TWO_PATH):
            values["wrong_moves"] = towards_key(grids).excess_of_kind.value
        out.append({name: round(value, _DIGITS) for name, value in values.items()})
    return out


def _known(seen: Sequence[Observed], suite: str) -> list[tuple[str, list[FloatArray]]]:
    """MEG towards what is known, each agent's rationality fitted in each grid."""

    def whole(parts: Sequence[Evidence]) -> list[FloatArray]:
        return [_shares(w, e.whole, e.most) for w, e in zip(seen, parts, strict=True)]

    def until_taken(parts: Sequence[Evidence]) -> list[FloatArray]:
        return [_shares(w, e.without, e.most_without) for w, e in zip(seen, parts, strict=True)]

    def difference(more: list[FloatArray], less: list[FloatArray]) -> list[FloatArray]:
        return [first - second for first, second in zip(more, less, strict=True)]

    goal = evidence(seen, GOAL)
    meg_goal = whole(goal)
    if suite == MAZE:
        meg_map = whole(evidence([_on_map(walks) for walks in seen], GOAL))
        gain = difference(meg_map, meg_goal)
        return [("meg_goal", meg_goal), ("meg_map", meg_map), ("map_gain", gain)]
    until_key = difference(until_taken(goal), until_taken(evidence(seen, KEY)))
    return [("meg_goal", meg_goal), ("goal_less_key", until_key)]


def _shares(seen: Observed, curves: FloatArray, most: FloatArray) -> FloatArray:
    """The best fit to the walks of each grid, as a share of the most that there could be."""
    out = []
    for number in range(len(seen.grids)):
        in_grid = seen.grid == number
        nats = float(signed_nats(curves[in_grid].mean(axis=0)))
        out.append(nats / float(most[in_grid].mean()) if most[in_grid].any() else np.nan)
    return np.array(out)


def _on_map(seen: Observed) -> Observed:
    """The same decisions in the world as the mole sees it."""
    # A walk that runs into a wall which is not on the map is none that the map allows. That is no
    # matter: each decision is judged by itself, in the state and at the step where it was made.
    mole = organism(MOLE)
    walks = [replace(walk, world=map_of(mole, walk.world)) for walk in seen.trajectories]
    return replace(seen, trajectories=tuple(walks))


def _other_map(seen: Observed, number: int) -> bool:
    world = seen.trajectories[int(np.flatnonzero(seen.grid == number)[0])].world
    return map_of(organism(MOLE), world) != world


def _learnt(
    agents: Mapping[str, Sequence[Trajectory]],
    seen: Sequence[Observed],
    suite: str,
    learners: Sequence[str],
    on: str,
    progress: Tell | None,
) -> list[tuple[str, list[FloatArray]]]:
    """What fitted utilities say: the share that any explains, and what the key is worth."""
    function, places = "", []
    trials: dict[str, Mapping[str, Any]] = {}
    for index, (agent, observations) in enumerate(zip(agents, seen, strict=True)):
        walks = [
            [observations.trajectories[i] for i in np.flatnonzero(observations.grid == number)]
            for number in range(len(observations.grids))
        ]
        # Fits take longest: no more of them are made than questions ask for.
        wanted = {
            "meg_any": suite != KEY_DOOR or agent in learners,
            "learnt_key": suite != MAZE and agent in learners,
        }
        for name in filter(wanted.__getitem__, wanted):
            places.append((name, index))
            function, arguments = learnt.job(walks, simplest=name == "learnt_key")
            trials[f"{name} of {agent}"] = arguments
    study = Study[list[float]](f"utilities in {suite}", function, trials, noun="fit")
    fits = carry_out(study, on=on, progress=progress)
    unknown = [np.full(len(observations.grids), np.nan) for observations in seen]
    out = {name: list(unknown) for name, _ in places}
    for (name, index), fit in zip(places, fits.values(), strict=True):
        out[name][index] = np.array(fit, dtype=float)
    return list(out.items())
