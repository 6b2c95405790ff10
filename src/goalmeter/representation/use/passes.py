"""Where a pass of a network stands: which columns of a batch it reads, and what was written so far.

Generation reads the prompts in one pass and then each token that it writes in one of its own. Other
passes read a prompt and what was written together, or a prompt whose beginning is in a cache. What
is to be changed is told by column, so that it is the same in all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from goalmeter.representation.network import Network
from goalmeter.representation.use.written import When, Written


class Batch:
    """Prompts that are being answered, filled up on the left.

    Args:
        tokenizer: of the model.
        lengths: of the prompts, in tokens.
        begun: how many tokens of each answer are read together with its prompt.
        conditions: on what is written, for each prompt.

    Attributes:
        gaps: fillings of each row.
        ends: of each row, the column behind its prompt.
        begin: the first column of this pass.
        columns: how many this pass has.
        met: of each row, the columns in this pass at which a condition holds.
    """

    def __init__(
        self,
        tokenizer: Any,
        lengths: Sequence[int],
        begun: Sequence[int],
        conditions: Sequence[Sequence[When]],
    ) -> None:
        rows = [length + more for length, more in zip(lengths, begun, strict=True)]
        self.gaps = [max(rows) - row for row in rows]
        self.ends = [gap + length for gap, length in zip(self.gaps, lengths, strict=True)]
        self.begin = self.columns = 0
        self.met: list[dict[When, list[int]]] = [{} for _ in rows]
        self._conditions = [list(dict.fromkeys(asked)) for asked in conditions]
        self._written = [Written(tokenizer) for _ in rows]

    def place(self, row: int, place: int) -> int | None:
        """Where a token of a prompt stands among the tokens of this pass; None if elsewhere."""
        column = self.gaps[row] + place - self.begin
        return column if 0 <= column < self.columns else None

    @contextmanager
    def followed(self, network: Network) -> Iterator[None]:
        """Take note of each pass of a network while this lasts."""
        base = network.local.model.base_model
        signature = inspect.signature(base.forward)

        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = signature.bind(*args, **kwargs).arguments
            cache = given.get("past_key_values")
            self._note(given["input_ids"], 0 if cache is None else int(cache.get_seq_length()))

        handle = base.register_forward_pre_hook(hook, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def _note(self, ids: Any, begin: int) -> None:
        self.begin, self.columns = begin, ids.shape[1]
        if not any(self._conditions):
            return
        for row, (end, tokens) in enumerate(zip(self.ends, ids.tolist(), strict=True)):
            written, asked = self._written[row], self._conditions[row]
            met: dict[When, list[int]] = {condition: [] for condition in asked}
            first = max(end, begin)
            written.cut(first - end)
            for column in range(first, begin + len(tokens)):
                written.append(tokens[column - begin])
                for condition in asked:
                    if condition(written):
                        met[condition].append(column - begin)
            self.met[row] = met
