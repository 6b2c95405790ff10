"""Goal-directedness with respect to a known utility."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike
from goalmeter.meg.known_batch import measure_known
from goalmeter.meg.known_worlds import measure_cases
from goalmeter.meg.many import cases_of
from goalmeter.meg.result import MegResult
from goalmeter.meg.watch import Listener
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_of_reference

# Actions times states times problems of one world that are worked on together.
_PART_ENTRIES = 2**17


def known_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    utility: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    progress: Listener | None = None,
) -> MegResult:
    """MEG of a policy with respect to a known utility, the MDP's reward by default.

        MEG = max over b of E_policy[ sum_t log pi_b(a_t | s_t) - log reference(a_t | s_t) ]

    with pi_b the soft-optimal policy of rationality b, infinities included. The value is
    certified: the evidence is concave in b and the optimum is bracketed.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A], rows summing to 1 within 1e-9.
        utility: [S], [S, A], [H, S] or [H, S, A], reward units; default `mdp.reward`.
        reference: the policy that scores 0, [S, A] or [H, S, A]; default uniform, as in the
            paper. With a habit as the reference, MEG asks for goal-directedness beyond it.
        progress: called after each pass over all decisions, with a `Progress`.

    Returns:
        A `MegResult`; a utility that no choice influences scores 0, and a note says so.

    Raises:
        InvalidPolicyError: policy or reference is not a policy of this MDP.
        InvalidUtilityError: utility does not fit this MDP, or varies by less than 1e-290.

    Source: MEG paper (NeurIPS 2024), Definition 3.2, Theorem 5.1.
    Cost: about ten passes of O(H * transitions).

    Example: the mouse that goes for the cheese with probability 0.8 (the paper's Example 1).
        >>> to_cheese, to_nothing = [0, 1, 0], [0, 0, 1]
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[to_cheese, to_nothing], *stay], [0, 1, -1], horizon=2)
        >>> result = known_utility(mouse, [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
        >>> print(round(result.value, 4), round(result.rationality, 4))
        0.1927 0.6931
    """
    if progress is None:
        return known_utility_many(mdp, [policy], utilities=[utility], reference=reference)[0]
    log_reference = log_of_reference(mdp, reference)
    return measure_known(mdp, [policy], [utility], log_reference, reference, progress)[0]


def known_utility_many(
    mdp: TabularMDP | Sequence[TabularMDP],
    policies: Sequence[ArrayLike],
    *,
    utilities: Sequence[ArrayLike | None] | None = None,
    reference: ArrayLike | None = None,
    references: Sequence[ArrayLike | None] | None = None,
) -> list[MegResult]:
    """`known_utility` of many policies, utilities or worlds, or of all of these, in one batch.

    Results are those of single calls, up to rounding, in the order given. Worlds of like shape
    (numbers of states and actions, horizon, discount) are worked on together, whatever else they
    differ in; a small world then costs a tenth of what it costs alone.

    Args:
        mdp: the world, or B worlds.
        policies: B policies, or one that is measured in every world or against every utility.
        utilities: B utilities, or one for all; default each world's own reward.
        reference: as in `known_utility`, shared by the batch.
        references: B of them, None among them for the uniform policy; in place of `reference`.

    Raises:
        InvalidParameterError: numbers of worlds, policies, utilities and references that do not
            go together.
        InvalidPolicyError, InvalidUtilityError: as `known_utility`; the error names the world.

    Example: the mouse of `known_utility`, and one that finds its cheese in the other place.
        >>> to_cheese, to_nothing = [0, 1, 0], [0, 0, 1]
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[to_cheese, to_nothing], *stay], [0, 1, -1], horizon=2)
        >>> behaviour = [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]
        >>> other = mouse.replace(reward=[0, -1, 1])
        >>> for result in known_utility_many([mouse, other], [behaviour]):
        ...     print(round(result.value, 4), round(result.rationality, 4))
        0.1927 0.6931
        0.1927 -0.6931
    """
    if not isinstance(mdp, TabularMDP) or references is not None:
        return measure_cases(cases_of(mdp, policies, utilities, reference, references))
    compared: list[ArrayLike | None] = [None] if utilities is None else list(utilities)
    counts = {len(policies), len(compared)}
    if 0 in counts or len(counts - {1}) > 1:
        raise InvalidParameterError(
            f"got {len(policies)} policies and {len(compared)} utilities, expected as many of one "
            f"as of the other, or a single one that is used for all"
        )
    log_reference = log_of_reference(mdp, reference)
    batch = max(len(policies), len(compared))
    # A part of the batch whose arrays stay in cache costs less than the whole at once.
    part = max(1, _PART_ENTRIES // (mdp.n_actions * mdp.n_states))
    results = []
    for start in range(0, batch, part):
        members = slice(start, start + part)
        results += measure_known(
            mdp,
            list(policies) if len(policies) == 1 else list(policies[members]),
            compared if len(compared) == 1 else compared[members],
            log_reference,
            reference,
        )
    return results
