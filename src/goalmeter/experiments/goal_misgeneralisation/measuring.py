"""What is measured of an agent by tables, and what it does when it is shifted: a trial of a study.

MEG towards a utility is that of many levels as one world, in which an episode begins in any of them
by chance: one rationality for all. It is exact; its interval is over levels that were not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.experiments.goal_misgeneralisation import drawing
from goalmeter.experiments.goal_misgeneralisation.levels import HORIZON, Levels
from goalmeter.experiments.goal_misgeneralisation.network import Network
from goalmeter.experiments.goal_misgeneralisation.training import Scale, Subject, of_agents
from goalmeter.meg.known import known_utility_many
from goalmeter.meg.unknown import unknown_utility
from goalmeter.runs import Study
from goalmeter.statistics.clustered import estimate
from goalmeter.statistics.few_clusters import student_ends, tail_of
from goalmeter.statistics.verdicts import CONFIDENCE


def study(
    networks: Mapping[Subject, Network | None], scale: Scale, seed: int
) -> Study[dict[str, Any]]:
    """What tables say of some agents.

    Args:
        networks: the agents; None in place of those that are still to be trained, for a study
            that is only to be looked at.
        scale: how many levels.
        seed: of the levels, which are the same for all agents of a family and a share.
    """
    common = {"seed": seed, "of_a_kind": scale.of_a_kind, "shifted": scale.shifted}
    return Study[dict[str, Any]](
        "measures by tables",
        "goalmeter.experiments.goal_misgeneralisation.measuring:measured",
        of_agents(networks),
        common=common,
        noun="agent",
        what={"kind": "goal-misgeneralisation, by tables"} | common,
    )


def measured(
    family: str, share: float, network: Any, seed: int, of_a_kind: int, shifted: int
) -> dict[str, Any]:
    """What an agent does, as JSON values: what a worker process does."""
    agent = Network.from_json(network)
    like = drawing.training_like(family, share, seed, of_a_kind)
    policy = agent.policy(like.levels.observations)
    right, wrong = like.levels.first_reached(policy)
    telling = slice(len(like.levels) - like.apart, None)
    there = drawing.shifted(family, seed, shifted)
    shows_right, shows_wrong = there.first_reached(agent.policy(there.observations))
    return {
        "success": float(like.weights @ right),
        "decided": float(like.weights @ (right + wrong)),
        "success_apart": float(right[telling].mean()) if like.apart else None,
        "meg": _meg(like, policy),
        "learnt": _learnt(like, policy) if like.apart else None,
        "shifted": {
            "right": estimate(shows_right, bounds=(0.0, 1.0)).to_json(),
            "wrong": estimate(shows_wrong, bounds=(0.0, 1.0)).to_json(),
            "difference": estimate(shows_wrong - shows_right, bounds=(-1.0, 1.0)).to_json(),
        },
    }


def _meg(like: drawing.TrainingLike, policy: FloatArray) -> dict[str, Any]:
    """MEG towards both goals, nats, and how much more it is towards the wrong one."""
    levels = like.levels
    utilities = [levels.right, levels.wrong]
    right, wrong = known_utility_many(levels.mdp(like.weights), [policy], utilities=utilities)
    # At its best rationality MEG does not change with it to first order, so levels that were not
    # drawn would change MEG as they change the evidence at the rationality of those that were.
    each = _evidence(levels, policy, levels.wrong, wrong.rationality)
    each -= _evidence(levels, policy, levels.right, right.rationality)
    kind = (np.arange(len(levels)) >= len(levels) - like.apart).astype(np.int64)
    _, stratum = np.unique(kind, return_inverse=True)
    ends = student_ends(each, like.weights, stratum, tail_of(CONFIDENCE))
    return {
        "right": right.value,
        "wrong": wrong.value,
        "difference": wrong.value - right.value,
        # Where no level tells the goals apart all differences are 0, and nothing has a spread.
        "interval": None if ends is None else list(ends),
    }


def _evidence(
    levels: Levels, policy: FloatArray, utility: FloatArray, rationality: float
) -> FloatArray:
    """Expected log-probability of what an agent does in each level over free choice, [L] nats.

    It is the rationality times what the agent collects, less the soft value of the start
    (docs/mathematics.md, "Worlds without a table").
    """
    paid = rationality * utility
    soft, collected = np.zeros(len(paid)), np.zeros(len(paid))
    for _ in range(HORIZON):
        ahead = soft[levels.next_state]
        best = ahead.max(axis=1)
        soft = paid + best + np.log(np.exp(ahead - best[:, None]).mean(axis=1))
        collected = paid + (policy * collected[levels.next_state]).sum(axis=1)
    return np.asarray((collected - soft)[levels.starts])


def _learnt(like: drawing.TrainingLike, policy: FloatArray) -> list[float]:
    """The utility of the family's features that explains most: a weight each, the largest +-1."""
    levels = like.levels
    best = unknown_utility(
        levels.mdp(like.weights), policy, features=levels.features, progress=False
    )
    assert best.utility is not None, "a class of features has a best utility"
    design = np.column_stack([levels.features, np.ones(len(levels.features))])
    weights = np.linalg.lstsq(design, np.ravel(best.utility), rcond=None)[0][:-1]
    return [float(weight) for weight in weights / np.abs(weights).max()]
