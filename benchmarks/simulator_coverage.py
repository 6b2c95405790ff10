"""Coverage, width and cost of the interval of MEG from counted steps.

Worlds whose MEG is known exactly are sampled: the measure sees steps, not tables. `coverage` is the
share of runs whose 95% interval contains the exact value; `below` and `above` are the shares whose
interval lies entirely below or above it. `width`, `lower` (the lower end) and `bias` (of the
corrected estimate) are means over the runs, as shares of the exact value (in nats / 100 if that is
0). `none` counts runs without an interval: too many states for the budget, or too many decisions in
untried actions.

An agent is known by its policy, or in episodes only, `by answers` (its distributions) or `by
actions`. Steps are drawn from restored states, or (`episodes`) counted in episodes only.

Run i of row j has the seed 30,000,000 + 1000 j + i: the numbers are the same on every machine. The
method was chosen with other seeds.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import harness
import numpy as np

import goalmeter as gm
from goalmeter._types import FloatArray
from goalmeter.agents.environment_agents import table_actor
from goalmeter.gridworld import key_door, maze, tabular_world
from goalmeter.meg.simulator.bootstrap import Bootstrap, CountEstimate
from goalmeter.meg.simulator.collection import Collection
from goalmeter.meg.simulator.protocol import Episodes, TabularSimulator
from goalmeter.tabular import epsilon_greedy, optimal_policy, soft_plan

LEVEL = 0.95
BUDGETS, SMALL_BUDGETS = (20_000, 200_000, 1_000_000), (20_000, 60_000, 200_000)
RUNS, MANY = 16, 400
FIRST = 6 * 10**7  # first seed, beyond all that the method was chosen with
# What is known of the agent: its policy, or its distributions or actions in its episodes.
POLICY, ANSWERS, ACTIONS = "policy", "answers", "actions"


@dataclass(frozen=True)
class Case:
    """A world, an agent, what is known of it, and whether states can be restored."""

    name: str
    mdp: gm.TabularMDP
    policy: FloatArray
    known: str = POLICY
    restores: bool = True
    budgets: tuple[int, ...] = BUDGETS


def greedy(mdp: gm.TabularMDP, epsilon: float) -> FloatArray:
    return np.asarray(epsilon_greedy(optimal_policy(mdp), epsilon))


def soft(mdp: gm.TabularMDP, rationality: float) -> FloatArray:
    return np.asarray(soft_plan(mdp, rationality).policy()[..., 0])


def mixed(mdp: gm.TabularMDP, rationality: float, epsilon: float) -> FloatArray:
    return (1 - epsilon) * soft(mdp, rationality) + epsilon / mdp.n_actions


def sparse(seed: int, successors: int = 2, horizon: int = 20) -> gm.TabularMDP:
    """A random world of 30 states and 4 actions with few successors."""
    rng = np.random.default_rng(seed)
    after = rng.integers(0, 30, (30, 4, successors))
    probability = rng.dirichlet(np.full(successors, 2.0), (30, 4))
    return gm.TabularMDP((after, probability), rng.normal(size=30), horizon=horizon)


def frozen_lake(slippery: bool = True, size: int = 4, horizon: int = 30) -> gm.TabularMDP:
    """FrozenLake, being on the goal paid once: the goal leads on to an end that pays nothing."""
    table = gm.TabularMDP.from_gymnasium(
        "FrozenLake-v1", horizon=horizon, is_slippery=slippery, map_name=f"{size}x{size}"
    )
    goal = size**2
    p = np.zeros((goal + 1, 4, goal + 1))
    p[:goal, :, :goal] = table.transition.to_dense()[:goal, :, :goal]
    p[goal - 1 :] = 0.0
    p[goal - 1 :, :, goal] = 1.0
    reward = np.zeros(goal + 1)
    reward[goal - 1] = 1.0
    return gm.TabularMDP(p, reward, horizon=horizon)


def slipping(mdp: gm.TabularMDP, share: float, starts: bool = False) -> gm.TabularMDP:
    """The world with a share of decisions taken at random, and perhaps with random starts."""
    dense = mdp.transition.to_dense()
    mixed = (1 - share) * dense + share * dense.mean(axis=1, keepdims=True)
    initial = mdp.initial
    if starts:
        moves = (dense.argmax(axis=2) != np.arange(mdp.n_states)[:, None]).any(axis=1)
        initial = moves / moves.sum()
    return gm.TabularMDP(mixed, mdp.reward, horizon=mdp.horizon, initial=initial)


def lottery(probability: float, horizon: int = 20) -> gm.TabularMDP:
    """A choice between nothing and a rare prize of 1, at each decision."""
    p = np.array([[[1.0, 0.0], [1 - probability, probability]], [[1.0, 0.0], [1.0, 0.0]]])
    return gm.TabularMDP(p, [0.0, 1.0], horizon=horizon)


def weather(influence: float) -> gm.TabularMDP:
    """Actions move between two places; payoffs come from a weather of its own, and from place 1."""
    places, changes = [[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.4, 0.6]]
    p = np.array([[np.outer(to, change).ravel() for to in places] for change in changes * 2])
    return gm.TabularMDP(p, [0.0, 1.0, influence, 1.0 + influence], horizon=6)


def twice(mdp: gm.TabularMDP) -> gm.TabularMDP:
    """The world with two copies of each action."""
    p = np.repeat(mdp.transition.to_dense(), 2, axis=1)
    return gm.TabularMDP(p, mdp.reward, horizon=mdp.horizon)


def first_optimal(mdp: gm.TabularMDP) -> FloatArray:
    """One optimal action at each time, the first of several, [H, S, A]."""
    return np.eye(mdp.n_actions)[np.asarray(optimal_policy(mdp)).argmax(axis=-1)]


def cases() -> list[Case]:
    lake, firm, large = frozen_lake(), frozen_lake(slippery=False), frozen_lake(True, 8, 60)
    cliff, cab = gm.cliff_world(1), gm.TabularMDP.from_gymnasium("Taxi-v4", horizon=25)
    slick = {share: slipping(cliff, share) for share in (0.05, 0.2)}
    shapes = maze(7, 0.8, 0).world, maze(7, 0.0, 2).world, key_door(0)
    mazes = [tabular_world(world, horizon=20).mdp for world in shapes]
    walls, halls, keys = (slipping(mdp, 0.1) for mdp in mazes)
    starts = slipping(halls, 0.1, starts=True)
    errors = (0.05, 0.1, 0.2, 0.3, 0.5)
    soft_lakes = (10.0, 40.0, -20.0)
    random = ((0, 2, 20, 1.0), (1, 2, 5, 1.0), (2, 2, 20, -0.5), (3, 4, 50, 0.5), (4, 8, 20, 2.0))
    sparse_worlds = {s: sparse(s, k, h) for s, k, h, _ in random}
    first = sparse_worlds[0]
    return [
        *(Case(f"slippery lake, ε = {e}", lake, greedy(lake, e)) for e in errors),
        *(Case(f"slippery lake, β = {b:g}", lake, soft(lake, b)) for b in soft_lakes),
        Case("slippery lake 8 x 8, ε = 0.2", large, greedy(large, 0.2)),
        Case("firm lake, ε = 0.2", firm, greedy(firm, 0.2)),
        Case("cliff world, ε = 0.1", cliff, greedy(cliff, 0.1)),
        *(Case(f"cliff world, slip {s}, ε = 0.1", m, greedy(m, 0.1)) for s, m in slick.items()),
        *(
            Case(f"cliff world, slip 0.2, β = {b}", slick[0.2], soft(slick[0.2], b))
            for b in (0.1, -0.1)
        ),
        *(
            Case(f"random {s}, {k} successors, H = {h}, β = {b}", m, soft(m, b))
            for s, k, h, b in random
            for m in [sparse_worlds[s]]
        ),
        Case("maze, slip 0.1, ε = 0.1", walls, greedy(walls, 0.1)),
        Case("open maze, slip 0.1, ε = 0.3", halls, greedy(halls, 0.3)),
        Case("key and door, slip 0.1, ε = 0.1", keys, greedy(keys, 0.1)),
        Case("open maze, random starts, ε = 0.2", starts, greedy(starts, 0.2)),
        Case("taxi, ε = 0.1", cab, greedy(cab, 0.1), budgets=BUDGETS[:1]),
        *(
            Case(f"lottery of {p}", lottery(p), np.array([[0.1, 0.9], [0.5, 0.5]]))
            for p in (1e-2, 1e-3)
        ),
        *(
            Case(f"{name}, by {known}", mdp, greedy(mdp, epsilon), known)
            for name, mdp, epsilon in (
                ("slippery lake", lake, 0.2),
                ("open maze, random starts", starts, 0.2),
                ("cliff world", cliff, 0.1),
            )
            for known in (ANSWERS, ACTIONS)
        ),
        *(
            Case(f"{name}, episodes", mdp, policy, known, False, SMALL_BUDGETS)
            for name, mdp, policy, known in (
                ("slippery lake, ε = 0.2", lake, greedy(lake, 0.2), POLICY),
                ("slippery lake, ε = 0.5", lake, greedy(lake, 0.5), POLICY),
                ("random 0", first, soft(first, 1.0), POLICY),
                ("random 0, by actions", first, soft(first, 1.0), ACTIONS),
                ("open maze, random starts", starts, greedy(starts, 0.2), POLICY),
            )
        ),
        # Returns that few episodes have, or none.
        *(
            Case(f"{name}, by {known}{kind}", mdp, policy, known, restores, SMALL_BUDGETS)
            for name, mdp, policy in (
                ("slippery lake 8 x 8, β = 40", large, soft(large, 40.0)),
                ("slippery lake 8 x 8, β = 40, ε = 0.3", large, mixed(large, 40.0, 0.3)),
                ("lottery of 0.001", lottery(1e-3), np.array([[0.1, 0.9], [0.5, 0.5]])),
            )
            for known in (ANSWERS, ACTIONS)
            for kind, restores in (("", True), (", episodes", False))
        ),
        # Actions that are equivalent for the utility, or nearly so.
        *(
            Case(f"weather, influence {c}, by {known}", m, np.tile([0.05, 0.95], (4, 1)), known)
            for c in (0.0, 0.01, 0.1)
            for m in [weather(c)]
            for known in (POLICY, ACTIONS)
        ),
        *(
            Case(f"{name}, optimal at each time", mdp, first_optimal(mdp))
            for name, mdp in (
                ("slippery lake", lake),
                ("cliff world, slip 0.2", slick[0.2]),
                ("random 0", first),
                ("open maze, slip 0.1", halls),
            )
        ),
        Case("random 0, actions twice, β = 1", twice(first), soft(twice(first), 1.0)),
        Case("random 0, actions twice, ε = 0.1", twice(first), greedy(twice(first), 0.1)),
        Case("open maze, slip 0.1, optimal, by actions", halls, greedy(halls, 0.0), ACTIONS),
        Case("slippery lake, optimal, episodes", lake, greedy(lake, 0.0), restores=False),
        # Without chance, by the answers of an agent in places that few episodes visit.
        Case("open maze, ε = 0.3, by answers", mazes[1], greedy(mazes[1], 0.3), ANSWERS),
    ]


def sampled(case: Case, budget: int, seed: int) -> CountEstimate | None:
    """One run; None if there are too many states."""
    mdp, horizon = case.mdp, case.mdp.horizon or 0
    simulator = TabularSimulator(mdp, seed=seed)
    simulator.returns_to_states = case.restores
    if case.known != POLICY:
        simulator.policy = lambda actor, horizon: None  # type: ignore[method-assign]
    if case.known == ACTIONS:
        played, even = simulator.play, np.eye(mdp.n_actions)

        def play(*args: Any) -> Episodes:
            episodes = played(*args)
            return episodes._replace(answers=even[episodes.visits[:, 1]])

        simulator.play = play  # type: ignore[method-assign]
    actor = table_actor(case.policy, mdp.n_states, mdp.n_actions, horizon)
    found = Collection(simulator, actor, horizon, budget, seed).run()
    if not found.complete:
        return None
    bootstrap = Bootstrap(found.table, found.agent(), seed, found.length)
    return bootstrap.measure(np.ones((1, 1)), LEVEL)


def covered(case: Case, budget: int, runs: int, first: int = 0) -> dict[str, Any]:
    """Coverage of one world at one budget."""
    exact = gm.meg.known_utility(case.mdp, case.policy).value
    slack = 1e-7 * max(exact, 1.0)
    results, seconds = harness.processor(
        lambda: [sampled(case, budget, first + run) for run in range(runs)]
    )
    estimates = [each for each in results if each is not None and each.interval is not None]
    row: dict[str, Any] = {"name": case.name, "budget": budget, "exact": exact, "runs": runs}
    row |= {"none": runs - len(estimates), "seconds": seconds / runs}
    if not estimates:
        return row
    ends, unit = np.array([each.interval for each in estimates]), exact if exact > slack else 1.0
    return row | {
        "coverage": float(np.mean((ends[:, 0] <= exact + slack) & (exact <= ends[:, 1] + slack))),
        "below": float(np.mean(ends[:, 1] + slack < exact)),
        "above": float(np.mean(ends[:, 0] - slack > exact)),
        "width": float(np.mean(np.ptp(ends, axis=1))) / unit,
        "lower": float(np.mean(ends[:, 0])) / unit,
        "bias": (float(np.mean([each.value for each in estimates])) - exact) / unit,
        "uncorrected": (float(np.mean([each.plain for each in estimates])) - exact) / unit,
        "untried": float(np.mean([max(each.untried) for each in estimates])),
    }


@cache
def planned() -> list[tuple[Case, int]]:
    """All worlds and agents, each with all of its budgets."""
    return [(case, budget) for case in cases() for budget in case.budgets]


def planned_row(number: int) -> dict[str, Any]:
    """One row of the table."""
    return covered(*planned()[number], RUNS, first=FIRST + 1000 * number)


def measure(quick: bool) -> dict[str, Any]:
    """All cells, and slippery FrozenLake at the default budget with many runs."""
    chosen = cases()
    if quick:
        return {"cells": [covered(c, BUDGETS[0], 2) for c in (chosen[2], chosen[-1])], "many": []}
    many = [covered(chosen[2], 200_000, MANY, first=2 * FIRST)]
    with ProcessPoolExecutor() as pool:  # rows do not depend on each other
        cells = [*pool.map(planned_row, range(len(planned())))]
    return {"cells": cells, "many": many}


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    header = ["world and agent", "budget", "exact", "runs", "none", "seconds", "coverage", "below",
              "above", "width", "lower", "bias"]  # fmt: skip
    rows = []
    for r in [*result["cells"], *result["many"]]:
        row = [r["name"], f"{r['budget']:,}", f"{r['exact']:.3f}", str(r["runs"])]
        row += [str(r["none"]), f"{r['seconds']:.2f}"]
        names = ("coverage", "below", "above", "width", "lower", "bias")
        rows.append([*row, *(f"{r[n]:.1%}" if n in r else "–" for n in names)])
    random = [r for r in result["cells"] if r.get("width", 0) > 1e-6]
    total = sum(r["runs"] - r["none"] for r in random)
    inside = sum((r["runs"] - r["none"]) * r["coverage"] for r in random)
    counted = f"{inside:.0f} of {total} intervals contain the exact value."
    return f"{counted}\n\n{harness.table(header, rows)}"


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
