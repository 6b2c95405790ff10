"""Answers under interventions: the model reads, reasons and answers by itself, changed or not.

What is compared is behaviour, not the likelihood of an answer that was written without the change:
a model that searches before it answers settles its move during the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goalmeter.agents.language_models.sampling import Sampling
from goalmeter.navigation.asking.answers import understood
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.interventions import Intervention, applied

BATCH = 48
UNCHANGED = Intervention()


@dataclass(frozen=True)
class Answered:
    """How a decision was answered.

    Attributes:
        action: 0 to 3; None where the answer cannot be read.
        invalid: why it cannot.
        tokens: of the answer.
    """

    action: int | None
    invalid: str
    tokens: tuple[int, ...]


def answer_all(
    network: Network,
    samples: Sequence[Sample],
    interventions: Sequence[Intervention] | None = None,
    *,
    tokens: int = 512,
    temperature: float = 0.0,
    seed: int = 0,
) -> list[Answered]:
    """Ask the prompts of some decisions again, each under its own intervention.

    Args:
        network: the model.
        samples: whose prompts are asked.
        interventions: one a sample; None to change nothing.
        tokens: of an answer at most, its reasoning included.
        temperature: 0 takes the likeliest token.
        seed: of the draws; the answer to a sample depends on it and the sample's number only.

    Returns:
        The answers, in the order of the samples.
    """
    changes = [UNCHANGED] * len(samples) if interventions is None else list(interventions)
    answers: dict[int, Answered] = {}
    # Prompts of like lengths together: fillings cost as much as words.
    order = sorted(range(len(samples)), key=lambda number: len(samples[number].prompt))
    for begin in range(0, len(order), BATCH):
        batch = order[begin : begin + BATCH]
        prompts = [
            network.local.prompt(
                samples[number].prompt, tokens, Sampling(seed + number, temperature=temperature)
            )
            for number in batch
        ]
        lengths = [len(prompt.ids) for prompt in prompts]
        with applied(network, [changes[number] for number in batch], lengths):
            replies = network.local.answers(prompts)
        for number, reply in zip(batch, replies, strict=True):
            answers[number] = answered(network, reply.ids)
    return [answers[number] for number in range(len(samples))]


def answered(network: Network, ids: Sequence[int]) -> Answered:
    """What the tokens of an answer say."""
    read = understood(network.local.text(ids))
    return Answered(read.action, read.invalid, tuple(ids))
