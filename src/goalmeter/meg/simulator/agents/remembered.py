"""Answers of a network, kept by observation: small worlds show the same ones again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.agents.acting import FunctionActor

# Observations that are kept; of pictures of 64 by 64 in colours this is 250 MB.
_MOST = 20_000


def remembered(actor: FunctionActor) -> FunctionActor:
    """The same actor, which is asked once for each observation; dictionaries are asked anew.

    Args:
        actor: who gives the same answer to the same observation, always.
    """
    answers: dict[tuple[bytes, tuple[int, ...], str], FloatArray] = {}
    ask: Callable[[Any], FloatArray] = actor.function

    def function(observation: Any) -> FloatArray:
        if isinstance(observation, (dict, tuple)):
            return ask(observation)
        array = np.asarray(observation)
        key = array.tobytes(), array.shape, array.dtype.str
        answer = answers.get(key)
        if answer is None:
            answer = ask(observation)
            if len(answers) < _MOST:
                answers[key] = answer
        return answer

    return replace(actor, function=function)
