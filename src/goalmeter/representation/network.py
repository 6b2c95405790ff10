"""Causal language model whose residual stream can be read and changed at every block.

Layer 0 is the output of the embedding, layers 1 to L those of the blocks. Other parts differ
between models: the experts of a mixture are fused into single arrays, heads share keys, and
normalisations are in different places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from operator import index
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidParameterError, shown
from goalmeter.agents.local_models import LocalModel
from goalmeter.agents.registry import agent as named_agent

if TYPE_CHECKING:
    import torch

Change = Callable[["torch.Tensor"], "torch.Tensor | None"]


@dataclass(frozen=True)
class Network:
    """Local model with its blocks in order; the name follows Inspect."""

    name: str
    local: LocalModel

    @classmethod
    def open(cls, name: str) -> Network:
        """Open an agent by name, such as "goalmeter/mouse" or "goalmeter-local/FOLDER"."""
        named = named_agent(name)
        return cls(named.name, named.local_model(asker="reading activations"))

    @cached_property
    def blocks(self) -> tuple[Any, ...]:
        """Blocks of the residual stream, [L]."""
        from torch.nn import ModuleList

        count = self.local.model.config.get_text_config().num_hidden_layers
        lists = [
            (name.count("."), tuple(module))
            for name, module in self.local.model.named_modules()
            if isinstance(module, ModuleList) and len(module) == count
        ]
        if not lists:
            raise InvalidParameterError(
                f"{self.name} has no list of {count} blocks, so it has no known residual stream; "
                f"expected a decoder of transformers, such as Llama, GPT-2, Qwen or gpt-oss"
            )
        # A mixture with as many experts as there are layers is nested deeper than the blocks.
        return min(lists, key=lambda entry: entry[0])[1]

    @property
    def width(self) -> int:
        """Dimension of the residual stream, D."""
        return int(self.local.model.config.get_text_config().hidden_size)

    @property
    def pinned(self) -> dict[str, str]:
        """Dtype, kernels and versions, which determine the last bits of activations."""
        import torch
        import transformers

        config = self.local.model.config
        experts = getattr(config, "_experts_implementation", None)
        return {
            "dtype": str(self.local.model.dtype).removeprefix("torch."),
            "device": self.local.model.device.type,
            "attention": str(config._attn_implementation),
            **({"experts": str(experts)} if experts else {}),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    @cached_property
    def revision(self) -> str:
        """SHA-256 of all weights in hexadecimal digits."""
        import torch

        digest = hashlib.sha256()
        for name, weights in sorted(self.local.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(weights.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()

    def check_layers(self, layers: Sequence[int]) -> tuple[int, ...]:
        """Validate layers and return them in ascending order without duplicates."""
        blocks = len(self.blocks)
        chosen = sorted({index(layer) for layer in layers})
        if not chosen or chosen[0] < 0 or chosen[-1] > blocks:
            raise InvalidParameterError(
                f"layers are {shown(layers)}, expected numbers from 0 to {blocks}: {self.name} has "
                f"{blocks} blocks, and 0 is its embedding"
            )
        return tuple(chosen)

    def prompt_ids(self, question: str) -> tuple[int, ...]:
        """Return the token ids of a prompt whose only message is a question."""
        return self.local.ids([{"role": "user", "content": question}])

    def forward(self, rows: Sequence[Sequence[int]]) -> Any:
        """Run one forward pass over token sequences, without the head that computes logits."""
        import torch

        inputs = padded(rows, self.local.model.device)
        with torch.inference_mode():
            return self.local.model.base_model(**inputs, use_cache=False)

    def streams(self, ids: Sequence[int], layers: Sequence[int]) -> dict[int, torch.Tensor]:
        """Return the residual stream of a token sequence at some layers, each [T, D]."""
        read: dict[int, torch.Tensor] = {}

        def keep(layer: int, stream: torch.Tensor) -> None:
            read[layer] = stream[0].clone()

        with self.changed({layer: partial(keep, layer) for layer in layers}):
            self.forward([ids])
        return read

    @contextmanager
    def changed(self, changes: Mapping[int, Change]) -> Iterator[None]:
        """Read or change the residual stream at some layers, 0 to L, within a context.

        A change receives the stream, [B, T, D], and returns its replacement, or None to keep it.
        """
        with ExitStack() as stack:
            for layer, change in changes.items():
                if layer == 0:
                    hook = partial(_before, change)
                    handle = self.blocks[0].register_forward_pre_hook(hook, with_kwargs=True)
                else:
                    handle = self.blocks[layer - 1].register_forward_hook(partial(_after, change))
                stack.callback(handle.remove)
            yield


def _before(change: Change, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    new = change(args[0] if args else kwargs["hidden_states"])
    if new is None:
        return None
    return ((new, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": new})


def _after(change: Change, module: Any, args: tuple[Any, ...], output: Any) -> Any:
    # Some blocks return only the stream, others a tuple of the stream and attention.
    if not isinstance(output, tuple):
        return change(output)
    new = change(output[0])
    return None if new is None else (new, *output[1:])


def padded(
    rows: Sequence[Sequence[int]], device: Any, *, left: bool = False
) -> dict[str, torch.Tensor]:
    """Return sequences of different lengths as padded model inputs, [B, T] each."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    side = "left" if left else "right"
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_side=side)
    lengths = torch.tensor([[len(row)] for row in rows])
    # Positions are explicit: by default padding would count as tokens.
    places = torch.arange(ids.shape[1]) - (ids.shape[1] - lengths) * left
    mask = (places >= 0) & (places < lengths)
    inputs = {"input_ids": ids, "attention_mask": mask.long(), "position_ids": places.clamp(min=0)}
    return {name: value.to(device) for name, value in inputs.items()}
