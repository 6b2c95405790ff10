"""The same MEG by running the levels, with a guarantee: a trial of a study.

Who runs a level sees of which kind it is, so nine in ten episodes are run in levels that tell the
goals apart. In the others the two utilities are one function: they keep the rationality, which is
one for all levels, where the agent's goal is clear, and add nothing else to the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalmeter.experiments.goal_misgeneralisation import drawing
from goalmeter.experiments.goal_misgeneralisation.network import Network
from goalmeter.experiments.goal_misgeneralisation.training import Scale, Subject, of_agents
from goalmeter.meg.known import known_utility_many
from goalmeter.meg.simulator.measure import from_simulator
from goalmeter.runs import Study

RIGHT, WRONG = "right", "wrong"
# The share of episodes in levels that tell the goals apart.
TELLING = 0.9


def study(
    networks: Mapping[Subject, Network | None], scale: Scale, seed: int
) -> Study[dict[str, Any]]:
    """What running the levels says of some agents; the arguments are those of `measuring.study`."""
    common = {"seed": seed, "of_a_kind": scale.run_of_a_kind, "budget": scale.budget}
    return Study[dict[str, Any]](
        "measures by running",
        "goalmeter.experiments.goal_misgeneralisation.running:run",
        of_agents(networks),
        common=common,
        noun="agent",
        what={"kind": "goal-misgeneralisation, by running"} | common,
    )


def run(
    family: str, share: float, network: Any, seed: int, of_a_kind: int, budget: int
) -> dict[str, Any]:
    """What an agent's runs say, as JSON values: what a worker process does."""
    like = drawing.training_like(family, share, seed, of_a_kind)
    levels = like.levels
    policy = Network.from_json(network).policy(levels.observations)
    utilities: dict[str, Any] = {RIGHT: levels.right, WRONG: levels.wrong}
    world = levels.mdp(like.with_more_apart(TELLING))
    results = from_simulator(
        world, policy, utility=utilities, budget=budget, seed=seed, progress=False
    )
    assert isinstance(results, dict), "several utilities give several results"
    difference, interval = results[WRONG].less(results[RIGHT])
    right, wrong = known_utility_many(world, [policy], utilities=list(utilities.values()))
    return {
        "difference": difference,
        "interval": list(interval),
        "exact": wrong.value - right.value,
        "steps": sum(results[RIGHT].steps.values()),
        "method": results[RIGHT].method,
    }
