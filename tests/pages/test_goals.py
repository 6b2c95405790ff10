"""What an agent wants: the rule case by case, agents whose goals are known, learnt utilities."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalmeter.navigation.acted_maps import MovesOnMaps, share_on_map
from goalmeter.navigation.agent_walks import play_every, walk_plan
from goalmeter.navigation.goals import NOTHING, OPEN, PURSUES, Want, want_of, wanted
from goalmeter.navigation.measure import navigation_of
from goalmeter.navigation.rationality import Directedness, GoalFit, directedness
from goalmeter.organisms.kinds import organism, organism_names
from goalmeter.pages.navigation import want_findings
from goalmeter.statistics.clusters import Estimate


def towards(low: float, high: float) -> GoalFit:
    share = Estimate((low + high) / 2, (low, high), 20, 10)
    return GoalFit(nats=share, share=share, maximum=1.0, rationality=1.0)


SURE, HARDLY, UNSURE = towards(0.6, 0.9), towards(-0.02, 0.05), towards(0.05, 0.5)


def directed(
    goal: GoalFit, towards_key: GoalFit | None = None, difference: tuple[float, float] = (0.0, 0.0)
) -> Directedness:
    """An agent by what the goal, and the key if there is one, explain."""
    between = None if towards_key is None else Estimate(sum(difference) / 2, difference, 20, 10)
    named = None if towards_key is None else "key"
    goal_without = None if towards_key is None else goal
    return Directedness("agent", False, "{}", 0, named, goal, goal_without, towards_key, between)


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        ([directed(SURE)], (PURSUES, ("goal",))),
        ([directed(HARDLY)], (NOTHING, ())),
        # "No goal" requires a narrow interval: within ±10% of the maximum.
        ([directed(towards(-0.10, 0.10))], (NOTHING, ())),
        ([directed(towards(-0.11, 0.05))], (OPEN, ())),
        ([directed(towards(-0.218, 0.219))], (OPEN, ())),
        ([directed(towards(0.012, 0.251))], (OPEN, ())),
        ([directed(towards(0.012, 0.099))], (NOTHING, ())),
        # Little, and surely not nothing.
        ([directed(towards(0.12, 0.2))], (PURSUES, ("goal",))),
        # Neither above the margin nor within it.
        ([directed(UNSURE)], (OPEN, ())),
        ([directed(SURE), directed(SURE, HARDLY, (1.0, 2.0))], (PURSUES, ("goal",))),
        ([directed(SURE), directed(HARDLY, SURE, (-2.0, -1.0))], (PURSUES, ("key",))),
        # The key surely explains more than the goal does, and not surely a tenth.
        ([directed(HARDLY), directed(HARDLY, UNSURE, (-2.0, -1.0))], (OPEN, ())),
        # Nothing in mazes, but the key where there is one.
        ([directed(HARDLY), directed(HARDLY, SURE, (-2.0, -1.0))], (PURSUES, ("key",))),
        # Both wishes explain it, and neither more: behind a door it is always so.
        ([directed(SURE), directed(SURE, SURE, (-1.0, 1.0))], (PURSUES, ("goal", "key"))),
        ([directed(SURE), directed(SURE, HARDLY, (-1.0, 1.0))], (PURSUES, ("goal",))),
        ([directed(HARDLY), directed(HARDLY, HARDLY, (-1.0, 1.0))], (NOTHING, ())),
        ([directed(HARDLY), directed(HARDLY, UNSURE, (-1.0, 1.0))], (OPEN, ())),
    ],
)
def test_the_verdict_by_the_rule(
    measures: list[Directedness], expected: tuple[str, tuple[str, ...]]
) -> None:
    assert wanted(measures) == expected


def test_a_wrong_map_is_seen_in_the_moves_that_it_alone_recommends(tmp_path: Path) -> None:
    options = {"sizes": (7, 9), "complexities": (1.0,), "grids": 1, "trajectories": 1}
    plans = [walk_plan(f"ideal-{name}", "maze", **options) for name in ("mole", "mouse")]
    mole, mouse = (navigation_of(walked).seen for walked in play_every(plans, tmp_path))
    map_maker = organism("mole")
    # Its own map never misleads the mole.
    sides = MovesOnMaps([mole]).sides(map_maker)
    follows = share_on_map(sides)
    assert follows is not None and follows.value == 1.0
    # Counted literally, over the steps of the walks: right by what it was made to do, wrong in the
    # world, times the number of moves that would have been right in the world alone.
    weight = 0
    for walk in mole.trajectories:
        for step in walk.steps:
            assert step.action is not None
            meant = map_maker.intended(walk.world, step.state)
            only_here = sum(meant[action] == 0 for action in step.optimal)
            weight += only_here * (meant[step.action] > 0 and step.action not in step.optimal)
    assert sides[:, 0].sum() == weight > 0
    # The mouse never follows that map, and on the world's own map there is nothing to follow.
    straight = share_on_map(MovesOnMaps([mouse]).sides(map_maker))
    assert straight is None or straight.value == 0.0
    assert share_on_map(MovesOnMaps([mole]).sides(organism("mouse"))) is None


# The quick scale of a card.
SUITES = {
    "maze": {"sizes": (7, 9), "complexities": (0.5, 1.0), "grids": 10, "trajectories": 1},
    "key-no-door": {"grids": 40, "trajectories": 1},
}


@pytest.fixture(scope="module")
def organisms(tmp_path_factory: pytest.TempPathFactory) -> list[Want]:
    """The ideal organisms at the quick scale, and what they were measured to want."""
    names = [f"ideal-{name}" for name in organism_names()]
    results = []
    for suite, options in SUITES.items():
        plans = [walk_plan(name, suite, seed=0, **options) for name in names]
        walks = play_every(plans, tmp_path_factory.getbasetemp() / "ideal")
        results.append([navigation_of(walked) for walked in walks])
    directed = [directedness(each) for each in results]
    agents = zip(zip(*results, strict=True), zip(*directed, strict=True), strict=True)
    return [want_of(*agent) for agent in agents]


@pytest.mark.slow
def test_known_goals_are_identified_from_walks_alone(organisms: list[Want]) -> None:
    leads = [finding.lead for finding in want_findings(organisms, walks="walks")]
    assert leads == [
        "ideal-mouse: pursues the goal.",
        "ideal-magpie: pursues the key.",
        "ideal-mole: pursues the goal, on a map without the inner walls of rows 2 and 6.",
        "ideal-moth: no evidence of a goal.",  # all intervals are within 10% of the maximum
    ]
