"""Positions in a replayed decision, by what stands there and never by a number.

    pre/end         the last three tokens of the prompt: the state has been read, nothing is written
    pre/goal        the tokens of the goal's cell in the prompt; pre/agent: those of the agent's
    post/0.5        the token half way through the reasoning; any share from 0 to 1
    post/end        the last token of the reasoning, the last of the marker that ends it, and the
                    one behind: the paper's "post-reasoning"
    post/step-2     the token of the second move of the plan that the model states before it answers
    post/answer     the token after which the action is written

A position is a fixed number of tokens, so that rows of activations can be stacked; a sample that
lacks it (an answer without reasoning has no "post/end") has none there, which is counted.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents": the pre- and post-reasoning positions are three tokens each. Its code counts sixteen tokens
back from the end for the latter, which is right for one format of answers only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter._text import shown
from goalmeter.gridworld.text import rendered
from goalmeter.gridworld.world import ACTIONS, Cell
from goalmeter.representation.replay import Sample
from goalmeter.representation.spelling import Spelling, packed_length

BEFORE, AFTER = "pre", "post"
# How reasoning ends: tags of thoughts, and the channel of gpt-oss in which the answer stands.
ENDS_OF_REASONING = ("</think>", "<|channel|>final<|message|>")
_ANSWER = re.compile(r'"action":"')
_MOVE = re.compile("|".join(ACTIONS))
_PLAN = "plan"
_WIDTH = 3  # tokens at the end of the prompt and of the reasoning, as in the paper


@dataclass(frozen=True)
class Located:
    """A sample whose tokens can be asked for by what they are.

    Args:
        sample: the recorded decision.
        tokenizer: of the model that walked, a transformers object.
    """

    sample: Sample
    tokenizer: Any

    def __post_init__(self) -> None:
        if self._question < 0:
            raise InvalidFileError(
                f"the tokens of step {self.sample.step} of {self.sample.walk!r} do not spell the "
                f"question that was recorded with them; it is not the tokenizer of the model that "
                f"walked: name that model"
            )

    def cell(self, cell: Cell) -> tuple[int, ...]:
        """The tokens of the prompt that say what is in a cell; none where it is not mentioned.

        In a prompt that lists open cells these are the cell and the ways from it, and a wall is not
        mentioned; in one that draws the grid it is the symbol of the cell.
        """
        span = span_of_cell(self.sample, cell)
        if span is None:
            return ()
        question = self.sample.question
        begin = self._question + packed_length(question[: span[0]])
        return self._prompt.tokens(begin, begin + packed_length(question[slice(*span)]))

    def label(self, label: str) -> tuple[int, ...]:
        """The tokens of the cell behind a label such as "Goal:" in a prompt that lists cells."""
        span = re.search(rf"^{re.escape(label)} (\S+)$", self.sample.question, re.MULTILINE)
        if span is None:
            return ()
        begin = self._question + packed_length(self.sample.question[: span.start(1)])
        return self._prompt.tokens(begin, begin + packed_length(span[1]))

    @property
    def end_of_prompt(self) -> tuple[int, ...]:
        """The last three tokens of the prompt."""
        length = len(self.sample.prompt)
        return tuple(range(length - _WIDTH, length)) if length >= _WIDTH else ()

    @property
    def end_of_reasoning(self) -> tuple[int, ...]:
        """The last token of the reasoning, the last of its end's marker, and the one behind."""
        marker = self._marker
        if marker is None:
            return ()
        first, last = marker
        places = (first - 1, last, last + 1)
        inside = first >= 1 and last + 1 < len(self.sample.answer)
        return self._in_answer(places) if inside else ()

    @property
    def before_action(self) -> tuple[int, ...]:
        """The token after which the name of the last stated action is written."""
        matches = list(_ANSWER.finditer(self._answer.text))
        if not matches or matches[-1].end() >= len(self._answer.text):
            return ()
        first = self._answer.tokens(matches[-1].end(), matches[-1].end() + 1)[0]
        # The answer's first token is written after the prompt's last.
        return (len(self.sample.prompt) + first - 1,)

    def along_reasoning(self, share: float) -> tuple[int, ...]:
        """The token at a share of the reasoning, 0 for its first and 1 for its last."""
        marker = self._marker
        if marker is None or marker[0] < 1:
            return ()
        return self._in_answer((round(share * (marker[0] - 1)),))

    def plan_step(self, number: int) -> tuple[int, ...]:
        """The token in which a move of the stated plan begins, counted from 1.

        The plan is what the reasoning says behind the last "plan" in it.
        """
        marker = self._marker
        if marker is None:
            return ()
        last = self._answer.ends[marker[0] - 1] if marker[0] else 0
        begin = self._answer.text.rfind(_PLAN, 0, last)
        if begin < 0:
            return ()
        moves = list(_MOVE.finditer(self._answer.text, begin, last))
        if len(moves) < number:
            return ()
        at = moves[number - 1].start()
        return self._in_answer(self._answer.tokens(at, at + 1))

    def stated_plan(self) -> tuple[int, ...]:
        """The actions of the plan that the reasoning states, in order; none if it states none."""
        marker = self._marker
        if marker is None or not marker[0]:
            return ()
        last = self._answer.ends[marker[0] - 1]
        begin = self._answer.text.rfind(_PLAN, 0, last)
        moves = _MOVE.finditer(self._answer.text, begin, last) if begin >= 0 else ()
        return tuple(ACTIONS.index(move[0]) for move in moves)

    @cached_property
    def _prompt(self) -> Spelling:
        return Spelling.of(self.sample.prompt, self.tokenizer)

    @cached_property
    def _answer(self) -> Spelling:
        return Spelling.of(self.sample.answer, self.tokenizer)

    @cached_property
    def _question(self) -> int:
        """Where the question begins among the characters of the prompt; -1 where it is not there.

        A prompt may end with an example of a question, so the last one counts.
        """
        return self._prompt.text.rfind("".join(self.sample.question.split()))

    @cached_property
    def _marker(self) -> tuple[int, int] | None:
        """The first and the last token, in the answer, of what ends the reasoning."""
        places = [(self._answer.text.rfind(end), len(end)) for end in ENDS_OF_REASONING]
        at, length = max(places)
        if at < 0:
            return None
        tokens = self._answer.tokens(at, at + length)
        return tokens[0], tokens[-1]

    def _in_answer(self, places: Sequence[int]) -> tuple[int, ...]:
        return tuple(len(self.sample.prompt) + place for place in places)


def position(name: str) -> Callable[[Located], tuple[int, ...]]:
    """What finds the tokens of a named position: none where a sample lacks it.

    Example: names are checked before a model is loaded.
        >>> position("post/0.25") is not None
        True
    """
    if name in _NAMED:
        return _NAMED[name]
    if (share := re.fullmatch(rf"{AFTER}/([01]|[01]?\.\d+)", name)) and float(share[1]) <= 1:
        return lambda located: located.along_reasoning(float(share[1]))
    if step := re.fullmatch(rf"{AFTER}/step-([1-9]\d*)", name):
        return lambda located: located.plan_step(int(step[1]))
    hint = did_you_mean(name, _NAMED)
    raise InvalidParameterError(
        f"there is no position {name!r}{hint + ' Known are' if hint else ', expected one of'} "
        f"{', '.join(_NAMED)}, a share of the "
        f"reasoning such as {AFTER}/0.5, or a move of the stated plan such as {AFTER}/step-1"
    )


def checked_positions(names: Sequence[str]) -> tuple[str, ...]:
    """Names of positions, each once, after all of them were looked at."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidParameterError(
            f"positions is {shown(names)}, expected a list of names, such as ['{BEFORE}/end']"
        )
    if not names:
        raise InvalidParameterError("positions is empty, expected at least one")
    for name in names:
        position(name)
    return tuple(dict.fromkeys(names))


def present_positions(
    samples: Sequence[Sample], tokenizer: Any, names: Sequence[str]
) -> tuple[str, ...]:
    """Those of some positions that any decision has."""
    left = dict.fromkeys(names)
    present: set[str] = set()
    for sample in samples:
        located = Located(sample, tokenizer)
        present |= {name for name in left if position(name)(located)}
        left = {name: None for name in left if name not in present}
        if not left:
            break
    return tuple(name for name in names if name in present)


_NAMED: dict[str, Callable[[Located], tuple[int, ...]]] = {
    f"{BEFORE}/end": lambda located: located.end_of_prompt,
    f"{BEFORE}/goal": lambda located: _goal(located),
    f"{BEFORE}/agent": lambda located: _agent(located),
    f"{AFTER}/end": lambda located: located.end_of_reasoning,
    f"{AFTER}/answer": lambda located: located.before_action,
}


def _goal(located: Located) -> tuple[int, ...]:
    return located.label("Goal:") or located.cell(located.sample.world.goal)


def _agent(located: Located) -> tuple[int, ...]:
    return located.label("Agent:") or located.cell(located.sample.state.cell)


def span_of_cell(sample: Sample, cell: Cell) -> tuple[int, int] | None:
    """Where the question says what is in a cell, as (begin, end) among its characters."""
    question = sample.question
    listed = re.search(
        rf"^Open:(?:.*?) ({cell.row},{cell.column} \S+)(?= |$)", question, re.MULTILINE
    )
    if listed:
        return listed.span(1)
    drawing = rendered(sample.world, sample.state)
    begin = question.rfind(drawing)
    if begin < 0:
        return None
    rows = drawing.splitlines(keepends=True)
    # The first line numbers the columns; every symbol stands under the number of its column.
    column = re.match(rf"\s*(?:\d+\s+){{{cell.column}}}(\d)", rows[0])
    assert column is not None
    at = begin + sum(map(len, rows[: cell.row + 1])) + column.start(1)
    return at, at + 1
