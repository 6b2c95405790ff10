"""The simplest utility: small weights that explain most of what any utility explains."""

from __future__ import annotations

import pytest

import goalmeter as gm
from goalmeter.meg import simplest_utility, unknown_utility


def mouse() -> gm.TabularMDP:
    transition = [[[0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]]
    return gm.TabularMDP(transition, [0, 1, -1], horizon=2)


def test_the_mouse_wants_cheese_and_minds_nothing_else() -> None:
    # Only the difference between the outcomes matters; the smallest weights that make one are
    # +w and -w, and the start, which nothing depends on, stays at 0: scaled, 1, 0 and one half.
    result = simplest_utility(mouse(), [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
    assert result.utility == pytest.approx([0.5, 1.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_it_explains_the_share_it_is_asked_for(share: float) -> None:
    mdp = gm.cliff_world(1)
    policy = gm.epsilon_greedy(gm.optimal_policy(mdp), 0.3)
    best = unknown_utility(mdp, policy).value
    result = simplest_utility(mdp, policy, share=share)
    assert share <= result.share <= 1.0 + 1e-9
    assert result.evidence == pytest.approx(result.share * best)
    # The utility and rationality that are returned are the ones that explain it.
    again = gm.meg.mce_plug_in(mdp, policy, utility=result.utility * result.rationality)
    assert again.evidence == pytest.approx(result.evidence, abs=1e-8)
