"""Which agents there are, and how each is trained: a trial of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goalmeter.agents.learners.global_generators import borrowed_generators
from goalmeter.experiments.goal_misgeneralisation import drawing
from goalmeter.experiments.goal_misgeneralisation.cloning import UPDATES, cloned
from goalmeter.experiments.goal_misgeneralisation.network import Network
from goalmeter.experiments.goal_misgeneralisation.reinforcement import TOTAL, reinforced
from goalmeter.runs import Study

PPO, CLONE, WRONG_CLONE = "PPO", "clone of the right goal", "clone of the wrong goal"
KINDS = (PPO, CLONE, WRONG_CLONE)
# At a share of 0 the two utilities are one function: no behaviour there distinguishes the goals.
SHARES = (1e-3, 1e-2, 0.1, 1.0)


@dataclass(frozen=True)
class Scale:
    """How much is made of everything.

    Attributes:
        levels: that an agent is trained on.
        updates: of a clone's weights.
        steps: of PPO.
        of_a_kind: training-like levels of each kind that are worked out, at most.
        shifted: levels in which agents are shifted.
        run_of_a_kind: training-like levels of each kind that are run, at most.
        budget: steps of a measurement by running.
    """

    levels: int = drawing.TRAINED_ON
    updates: int = UPDATES
    steps: int = TOTAL
    of_a_kind: int = drawing.MOST_OF_A_KIND
    shifted: int = drawing.SHIFTED
    run_of_a_kind: int = 20
    budget: int = 600_000


@dataclass(frozen=True)
class Subject:
    """An agent.

    Attributes:
        family: of the levels it is trained on.
        kind: how.
        share: of these levels that tell the goals apart.
        seed: of its levels and of its training.
    """

    family: str
    kind: str
    share: float
    seed: int

    @property
    def name(self) -> str:
        """As runs keep it."""
        return f"{self.family}, {self.kind}, share {self.share:g}, seed {self.seed}"


def subjects(seeds: Sequence[int]) -> list[Subject]:
    """Every kind of agent in every family of levels, at every share, once for each seed."""
    # Agents that learn from the same levels follow each other, so that these are drawn once.
    return [
        Subject(family, kind, share, seed)
        for seed in seeds
        for family in drawing.FAMILIES
        for share in SHARES
        for kind in KINDS
    ]


def of_agents(networks: Mapping[Subject, Network | None]) -> dict[str, dict[str, Any]]:
    """The trials of a study that asks about some agents, by their names; see `measuring.study`."""
    return {
        agent.name: {
            "family": agent.family,
            "share": agent.share,
            "network": network and network.to_json(),
        }
        for agent, network in networks.items()
    }


def study(agents: Sequence[Subject], scale: Scale) -> Study[Network]:
    """The training of some agents."""
    return Study[Network](
        "training",
        "goalmeter.experiments.goal_misgeneralisation.training:trained",
        {agent.name: vars(agent) for agent in agents},
        common={"levels": scale.levels, "updates": scale.updates, "steps": scale.steps},
        noun="agent",
        what={
            "kind": "goal-misgeneralisation, training",
            "levels": scale.levels,
            "updates": scale.updates,
            "steps": scale.steps,
            "seeds": sorted({agent.seed for agent in agents}),
        },
        from_json=lambda key, value: Network.from_json(value),
        to_json=lambda network: network.to_json(),
    )


def trained(
    family: str, kind: str, share: float, seed: int, levels: int, updates: int, steps: int
) -> list[dict[str, Any]]:
    """The network of an agent, as JSON values: what a worker process does."""
    there = drawing.training_levels(family, share, seed, levels)
    with borrowed_generators():
        if kind == PPO:
            network = reinforced(there, seed, steps=steps)
        else:
            wanted = there.right if kind == CLONE else there.wrong
            network = cloned(there, wanted, seed, updates=updates)
    return network.to_json()
