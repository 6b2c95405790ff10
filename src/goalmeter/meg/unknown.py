"""Goal-directedness with respect to some utility of a class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike
from goalmeter.meg.linear_utility import TOLERANCE, linear_utility
from goalmeter.meg.neural import neural_utility
from goalmeter.meg.result import MegResult
from goalmeter.meg.utility_class import Over
from goalmeter.meg.watch import Listener, listener
from goalmeter.tabular.mdp import TabularMDP

if TYPE_CHECKING:
    from torch import nn


def unknown_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    features: ArrayLike | None = None,
    over: Over = "state",
    network: nn.Module | bool | None = None,
    reference: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    inputs: ArrayLike | None = None,
    seeds: Iterable[int] = range(5),
    progress: Listener | bool | None = None,
    timeout: float | None = None,
) -> MegResult:
    """MEG of a policy with respect to the best utility of a class.

    By default the class is *all* utilities over states (Definition 4.4 with the states as
    targets). Classes that are linear in their weights have a global optimum, which is found and
    certified: `upper_bound` is a proven bound on every utility of the class that is, at its
    rationality, up to a thousand times as large as the best one reached; the result's `bound_size`
    and `bound_measure` say in which sense. Classes without features and of more than 100 weights
    are solved matrix-free (`goalmeter.meg.visit_matching`), the others densely; where that leaves
    value and bound apart, a linear program looks for optima at infinity
    (`goalmeter.meg.recession`), and a class of up to some hundred weights is searched once more
    along falling penalties (`goalmeter.meg.penalised`).

    Args:
        mdp: the world; its reward is not used.
        policy: [S, A] or [H, S, A].
        features: [S, D] or [S, A, D] for utilities that are linear in them.
        over: "state", "state-action" or "time-state" (for each decision step its own utility).
        network: a torch module from state features to a utility, or True for the paper's MLP:
            Algorithm 2, a lower bound (see `goalmeter.meg.neural_utility`).
        reference: the policy that scores 0, [S, A] or [H, S, A]; default uniform.
        tolerance: nats between value and bound at which the optimum counts as certified.
        inputs: for a network, the state features [S, F] it reads; default one-hot.
        seeds: for a network, one restart for each.
        progress: called at every step with a `Progress`: value and bound so far, seconds gone and
            left at most. True writes a line to standard error every five seconds, False is
            silent, and None, the default, writes if standard error is a terminal or a notebook's.
        timeout: seconds after which the search ends with what it has; it is looked at in every
            pass over the decisions, so the end may come a Newton step late.

    Returns:
        A `MegResult` whose `utility` is the maximising one, scaled to 0..1, with `rationality`
        its beta; inf where the supremum is approached by ever larger utilities, and `utility`
        is then the direction that matters first. After a timeout `stopped` is "timeout", the value
        is the best so far and the bound what was proven by then; both hold.

    Raises:
        FitInterrupted: a `KeyboardInterrupt` whose attribute `result` is the best so far, where
            the search was interrupted at the keyboard.
        InvalidPolicyError, InvalidUtilityError: arrays that do not fit the MDP.
        InvalidParameterError: options that do not go together.

    Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4, section 5.
    Cost: up to 100 weights, or with features where H * A * S * D^2 is at most 1e8, ten to thirty
    Newton steps of O(H * transitions * D) each. Otherwise some hundred passes of
    O(H * transitions), and for each of some ten to sixty steps a sparse factorisation; with
    features also a matrix [D, D]. No array of S * S entries.

    Example: a mouse that never pays for its cheese has one goal that explains it fully.
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> result = unknown_utility(mouse, [[1, 0], [0.5, 0.5], [0.5, 0.5]])
        >>> print(round(result.value, 4), result.rationality)
        0.6931 inf
    """
    # One listener for both, so that progress and interruption look the same.
    hear = listener(progress)
    if network is not None and network is not False:
        if features is not None or over != "state":
            raise InvalidParameterError(
                "network and features (or over) are both given, expected one of them; "
                "pass the network's input features as inputs="
            )
        return neural_utility(
            mdp,
            policy,
            module=None if isinstance(network, bool) else network,
            inputs=inputs,
            seeds=seeds,
            reference=reference,
            progress=hear,
            timeout=timeout,
        )
    return linear_utility(
        mdp,
        policy,
        features=features,
        over=over,
        reference=reference,
        tolerance=tolerance,
        progress=hear,
        timeout=timeout,
    )
