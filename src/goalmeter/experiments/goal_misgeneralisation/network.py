"""A trained agent: two hidden layers and four actions, as plain arrays and as text."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidFileError
from goalmeter._types import AnyArray, FloatArray
from goalmeter.experiments.goal_misgeneralisation.levels import ACTIONS

HIDDEN = (128, 128)


@dataclass(frozen=True, eq=False)
class Network:
    """What an agent learnt.

    Attributes:
        layers: of each layer its weights [out, in] and its biases [out]; ReLU between layers.
    """

    layers: Sequence[tuple[AnyArray, AnyArray]]

    def policy(self, observations: AnyArray) -> FloatArray:
        """Probabilities of the actions, [N, 4], at observations [N, D]."""
        values = np.asarray(observations, dtype=np.float64)
        for number, (weights, biases) in enumerate(self.layers):
            values = values @ weights.T.astype(np.float64) + biases
            if number < len(self.layers) - 1:
                values = np.maximum(values, 0.0)
        shares = np.exp(values - values.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def to_json(self) -> list[dict[str, str]]:
        """The numbers in single precision, little-endian, in base64."""
        return [
            {"weights": _text(weights), "biases": _text(biases)} for weights, biases in self.layers
        ]

    @classmethod
    def from_json(cls, value: Any) -> Network:
        """The network that `to_json` was of."""
        try:
            layers = [(_array(part["weights"]), _array(part["biases"])) for part in value]
            sizes = [len(biases) for _, biases in layers]
            shaped = [
                (weights.reshape(n, -1), biases)
                for (weights, biases), n in zip(layers, sizes, strict=True)
            ]
            fits = all(
                weights.shape[1] == before
                for (weights, _), before in zip(shaped[1:], sizes, strict=False)
            )
            if not fits or sizes[-1:] != [ACTIONS]:
                raise ValueError("its layers do not fit together")
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as cause:
            raise InvalidFileError(
                f"a trained agent cannot be read ({type(cause).__name__}: {cause}); remove its "
                f"line from the run, and the same command trains it again"
            ) from cause
        return cls(shaped)


def _text(array: AnyArray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode("ascii")


def _array(text: str) -> AnyArray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
