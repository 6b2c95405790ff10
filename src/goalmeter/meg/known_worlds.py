"""Known utilities in many worlds, those of like shape side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import PolicyBehaviour
from goalmeter.meg.known_batch import Lot, measure_known, measure_lot
from goalmeter.meg.many import Case, measure_parts
from goalmeter.meg.result import MegResult
from goalmeter.tabular.evaluation import state_occupancy
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_of_reference
from goalmeter.tabular.policies import check_policy
from goalmeter.tabular.rewards import check_resolved, rewards_of, stack_rewards
from goalmeter.tabular.side_by_side import Sums, side_by_side


def measure_cases(cases: Sequence[Case]) -> list[MegResult]:
    """The MEG of each case with respect to its utility, in order."""
    return measure_parts(cases, _together, _alone)


def _alone(case: Case) -> MegResult:
    log_reference = log_of_reference(case.mdp, case.reference)
    (result,) = measure_known(
        case.mdp, [case.policy], [case.utility], log_reference, case.reference
    )
    return result


def _together(cases: Sequence[Case]) -> list[MegResult]:
    each = [rewards_of(case.mdp, case.utility) for case in cases]
    rewards = stack_rewards(each)
    check_resolved(rewards)
    mdp = side_by_side([case.mdp for case in cases])
    return measure_lot(
        Lot(
            worlds=[case.mdp for case in cases],
            mdp=mdp,
            behaviour=behaviour_side_by_side(mdp, cases),
            rewards=rewards,
            shown=[utility.shown(0) for utility in each],
            log_reference=reference_side_by_side(cases),
            sums=Sums(len(cases)),
            policies=[case.policy for case in cases],
            utilities=[case.utility for case in cases],
            references=[case.reference for case in cases],
        )
    )


def behaviour_side_by_side(mdp: TabularMDP, cases: Sequence[Case]) -> PolicyBehaviour:
    """What the policies of W cases do, in the world `mdp` of their worlds side by side."""
    policy = _joined([check_policy(case.mdp, case.policy) for case in cases])[..., None]
    return PolicyBehaviour(mdp, policy, state_occupancy(mdp, policy))


def reference_side_by_side(cases: Sequence[Case]) -> FloatArray | None:
    """The log references of W cases, which all have one or none: [T, A, W * S] or None."""
    logs = [log_of_reference(case.mdp, case.reference) for case in cases]
    present = [log for log in logs if log is not None]
    return _joined(present) if present else None


def _joined(arrays: Sequence[FloatArray]) -> FloatArray:
    """Arrays [T or 1, A, S] of W worlds as one [T, A, W * S]."""
    steps = max(map(len, arrays))
    out = np.empty((steps, arrays[0].shape[1], len(arrays), arrays[0].shape[2]))
    for i, array in enumerate(arrays):
        out[:, :, i] = array
    return out.reshape(*out.shape[:2], -1)
