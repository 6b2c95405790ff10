"""Probabilities of the four actions, read off the log-probabilities of an answer's tokens.

The token that decides is the one in which the name of the *last* answered action begins; an earlier
one may be part of the reasoning. Alternatives to it that begin the name of another action count for
that action. What is left to 1 went to other tokens, or to alternatives that were not recorded.

After reasoning the deciding token is mostly certain: these are the probabilities of the action
given all that was written before it, not those of the policy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import exp
from typing import Any

from goalmeter.agents.navigators.protocol import Probabilities
from goalmeter.gridworld.world import ACTIONS

# Above 0 by no more than that, a logarithm of a probability is one that was rounded.
_ROUNDING = 0.01
_VALUE = re.compile(r'"action"\s*:\s*"\s*(?=[A-Za-z])')


def action_probabilities(tokens: Sequence[Any]) -> Probabilities | None:
    """Of LEFT, RIGHT, UP and DOWN.

    None if there are no alternatives, if the action is not found, or if one of the numbers is no
    log-probability.

    Args:
        tokens: of the whole answer in order, as Inspect's `Logprob`: token, logprob, top_logprobs.

    Example: two tokens, the second of which decides.
        >>> from types import SimpleNamespace as N
        >>> up, down = N(token='UP"}', logprob=-0.5), N(token="DO", logprob=-1.0)
        >>> decides = N(token='UP"}', logprob=-0.5, top_logprobs=[up, down])
        >>> lead = N(token='{"action": "', logprob=0.0, top_logprobs=[])
        >>> [round(p, 3) for p in action_probabilities([lead, decides])]
        [0.0, 0.0, 0.607, 0.368]
    """
    text = "".join(token.token for token in tokens)
    places = [match.end() for match in _VALUE.finditer(text)]
    if not places:
        return None
    begun = 0
    for token in tokens:
        if begun + len(token.token) > places[-1]:
            break
        begun += len(token.token)
    lead, tops = token.token[: places[-1] - begun], list(token.top_logprobs or [])
    # Some servers send NaN, which is below nothing.
    if not tops or not all(top.logprob < _ROUNDING for top in (token, *tops)):
        return None
    if token.token not in [top.token for top in tops]:
        tops.append(token)  # it was drawn, though it is not among the likeliest
    out = [0.0] * len(ACTIONS)
    for top in tops:
        action = _begun(top.token[len(lead) :]) if top.token.startswith(lead) else None
        if action is not None:
            out[action] += exp(top.logprob)
    total = max(1.0, sum(out))  # sums of rounded logarithms may exceed 1
    left, right, up, down = (p / total for p in out)
    return left, right, up, down


def _begun(text: str) -> int | None:
    """The action whose name a text begins with, or is the beginning of."""
    letters = re.match(r"[A-Za-z]*", text)
    word = letters[0].upper() if letters else ""
    fitting = [a for a, name in enumerate(ACTIONS) if word and name.startswith(word)]
    return fitting[0] if len(fitting) == 1 else None
