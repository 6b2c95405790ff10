"""What a probe finds without any training of the model: random weights, and embeddings alone.

A probe on a network with random weights reads what the architecture carries along by itself; on the
embeddings of the same tokens, what these tokens say without any context. What a probe gains on a
model's activations beyond both is what the model has made of its prompt.

Source: random encoders as controls in Belinkov (2022, "Probing Classifiers", section 4.1) and
Zhang and Bowman (2018).
"""

from __future__ import annotations

import copy

from goalmeter._errors import InvalidParameterError, require
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.activations import Activations
from goalmeter.representation.network import Network

RANDOM_WEIGHTS, EMBEDDINGS = "random weights", "embeddings alone"


def untrained(network: Network, *, seed: int) -> Network:
    """A network of the same configuration whose weights are drawn as before any training.

    It has the tokenizer, the number type, the device and the kernels of the trained one, which is
    left as it is; so is the state of torch's random numbers.

    Args:
        network: the trained one.
        seed: of the weights.
    """
    torch = require("torch", extra="lm", feature="A network with random weights")
    transformers = require("transformers", extra="lm", feature="A network with random weights")
    trained = network.local.model
    # The configuration keeps what was chosen for the trained one, its kernels among it.
    config = copy.deepcopy(trained.config)
    # Seeding torch itself would seed every device; weights are drawn on the processor.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=trained.dtype, attn_implementation=config._attn_implementation
        )
    model.to(trained.device).eval()
    model.generation_config = copy.deepcopy(trained.generation_config)
    local = copy.copy(network.local)
    local.model = model
    return Network(f"{network.name} with random weights (seed {seed})", local)


def alternatives_of(
    activations: Activations,
    layer: int,
    position: str,
    *,
    random: Activations | None = None,
    rows: IntArray | None = None,
) -> dict[str, FloatArray]:
    """Other activations of the same decisions at the same tokens, as `compare` takes them.

    Args:
        activations: of the trained model, captured at layer 0 too: its embedding. Where positions
            are added to words (GPT-2), so they are there.
        layer: of the random network.
        position: whose tokens are looked at.
        random: the same decisions, captured from a network with random weights.
        rows: numbers of the decisions that are looked at; None for all.

    Returns:
        By name, [rows, tokens * D].
    """
    sources = {EMBEDDINGS: activations.at(0, position)}
    if random is not None:
        _check_rows(activations, random)
        sources[RANDOM_WEIGHTS] = random.at(layer, position)
    kept = slice(None) if rows is None else rows
    return {name: source[kept].reshape(len(source[kept]), -1) for name, source in sources.items()}


def _check_rows(activations: Activations, random: Activations) -> None:
    """See that two captures are of the same decisions in the same order."""
    ours, theirs = ([row.digest for row in each.rows] for each in (activations, random))
    if ours != theirs:
        raise InvalidParameterError(
            f"{random.folder} holds {len(theirs)} decisions and {activations.folder} "
            f"{len(ours)}, which are not the same tokens in the same order; capture the same "
            f"decisions with the network of random weights"
        )
