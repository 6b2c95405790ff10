"""Whether a model is the one that wrote the answers on record.

Activations are those of the recorded tokens, whoever wrote them: read by another model, or by one
whose weights have changed since, they would be taken for the reasons of walks that it never made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.representation.network import Network, padded
from goalmeter.representation.replay import Sample

_ANSWERS = 16
# A model's own answers are as surprising as it expects, give or take their spread; other kernels
# and precisions move that by far less than this.
_SPREADS = 10.0
_LEAST = 0.02  # nats a token


def check_author(samples: Sequence[Sample], network: Network, temperature: float = 1.0) -> None:
    """Refuse a model that would hardly have written the answers.

    Of tokens that are drawn from a model the mean surprise, -log p, is the entropy of its
    distributions; drawn at a temperature below 1, or from likely tokens only, it is less. So
    answers whose surprise lies far above were written by another model. Small changes of weights,
    and models that would have said the same, are not told apart.

    Args:
        samples: decisions with the tokens of their answers; some of them are read.
        network: the model.
        temperature: of the answers.
    """
    import torch

    answered = [sample for sample in samples if sample.answer]
    places = np.unique(np.linspace(0, len(answered) - 1, min(_ANSWERS, len(answered))).astype(int))
    surprise = entropy = variance = 0.0
    tokens = 0
    for place in places.tolist():
        sample = answered[place]
        with torch.inference_mode():
            inputs = padded([sample.ids], network.local.model.device)
            logits = network.local.model(**inputs, use_cache=False).logits[0]
        # The token before tells of the next.
        heated = logits[len(sample.prompt) - 1 : -1].double() / max(temperature, 1.0)
        logs = torch.log_softmax(heated, dim=-1)
        if not torch.isfinite(logits).all():
            raise InvalidTrajectoryError(
                f"{network.name} gives numbers that are not finite at step {sample.step} of "
                f"{sample.walk!r}: its weights are broken, or its precision is too low; take the "
                f"model that walked, in the precision in which it walked"
            )
        probabilities = logs.exp()
        chosen = logs.gather(1, torch.tensor(sample.answer, device=logs.device)[:, None])
        expected = -(probabilities * logs).sum(dim=1)
        surprise -= float(chosen.sum())
        entropy += float(expected.sum())
        variance += float(((probabilities * logs**2).sum(dim=1) - expected**2).clamp(min=0).sum())
        tokens += len(sample.answer)
    if surprise - entropy > max(_SPREADS * variance**0.5, _LEAST * tokens):
        raise InvalidTrajectoryError(
            f"{network.name} has not written these answers: {len(places)} of them have a surprise "
            f"of {surprise / tokens:.3g} nats a token, expected about {entropy / tokens:.3g} of "
            f"answers of its own; take the model that walked, with the weights of then"
        )
