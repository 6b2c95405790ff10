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
        "decided": float(like.weights @ (right + wrong)),
        "failure": _mean_of_levels(like, 1.0 - right),
        "failure_apart": _mean(1.0 - right[telling]),
        "first_apart": _mean((wrong - right)[telling], (-1.0, 1.0)),
        "meg": _meg(like, policy),
        "learnt": _learnt(like, policy) if like.apart else None,
        "shifted": {
            "right": _mean(shows_right),
            "wrong": _mean(shows_wrong),
            "difference": _mean(shows_wrong - shows_right, (-1.0, 1.0)),
        },
    }


def _mean(values: FloatArray, bounds: tuple[float, float] = (0.0, 1.0)) -> dict[str, Any] | None:
    """The mean of some levels of one kind with its interval; None without a level."""
    return estimate(values, bounds=bounds).to_json() if len(values) else None


def _mean_of_levels(like: drawing.TrainingLike, values: FloatArray) -> dict[str, Any]:
    """The mean over training-like levels of both kinds, by their weights, with its interval."""
    return {"value": float(like.weights @ values), "interval": _interval(like, values)}


def _interval(like: drawing.TrainingLike, values: FloatArray) -> list[float] | None:
    """Student's interval over levels that were not drawn; None where no level differs."""
    kind = np.arange(len(like.levels)) >= len(like.levels) - like.apart
    _, stratum = np.unique(kind, return_inverse=True)
    ends = student_ends(values, like.weights, stratum, tail_of(CONFIDENCE))
    return None if ends is None else list(ends)


def _meg(like: drawing.TrainingLike, policy: FloatArray) -> dict[str, Any]:
    """MEG towards both goals, nats, and how much more it is towards the wrong one."""
    levels = like.levels
    utilities = [levels.right, levels.wrong]
    right, wrong = known_utility_many(levels.mdp(like.weights), [policy], utilities=utilities)
    # At its best rationality MEG does not change with it to first order, so levels that were not
    # drawn would change MEG as they change the evidence at the rationality of those that were.
    each = _evidence(levels, policy, levels.wrong, wrong.rationality)
    each -= _evidence(levels, policy, levels.right, right.rationality)
    return {
        "right": right.value,
        "wrong": wrong.value,
        "difference": wrong.value - right.value,
        # Where no level tells the goals apart all differences are 0, and nothing has a spread.
        "interval": _interval(like, each),
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
