"""Replay recorded decisions of a language model as tokens, and locate token positions."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError, InvalidTrajectoryError
from goalmeter._names import did_you_mean
from goalmeter.gridworld.conversions import rendered
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.navigation.plan import made_of
from goalmeter.navigation.rollouts import load
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.representation.network import Network
from goalmeter.representation.scenes import Scenes

# --- Spelling of tokens ---------------------------------------------------------------------------
# Characters are counted without whitespace because tokenizers differ in it: those that split at
# whitespace return single blanks, byte-level ones preserve it.

# Number of tokens decoded together to find the text that the last of them adds. A character of
# several bytes may span several tokens and appears only with the last of them.
_WINDOW = 8


@dataclass(frozen=True)
class Spelling:
    """Text of a token sequence without whitespace, and the end of each token in it."""

    text: str
    ends: tuple[int, ...]

    @classmethod
    def of(cls, ids: Sequence[int], tokenizer: Any) -> Spelling:
        """Decode token ids, special tokens included."""

        def packed(tokens: Sequence[int]) -> str:
            return _packed(tokenizer.decode(list(tokens)))

        known = range(len(tokenizer))
        if unknown := [token for token in ids if token not in known]:
            raise InvalidFileError(
                f"the record contains token id {unknown[0]}, but the tokenizer has 0 to "
                f"{len(known) - 1}; use the tokenizer of the run's model"
            )
        pieces = {token: packed([token]) for token in set(ids)}
        text = "".join(pieces[token] for token in ids)
        if text == packed(ids):
            return cls(text, tuple(accumulate(len(pieces[token]) for token in ids)))
        # An incomplete character is shown as a replacement character, and some tokenizers merge
        # pieces when decoding: find the text that each token adds to those before it.
        text = ""
        ends: list[int] = []
        for place in range(len(ids)):
            begin = max(0, place + 1 - _WINDOW)
            before, after = packed(ids[begin:place]), packed(ids[begin : place + 1])
            common = common_length(before, after)
            agreed = len(text) - len(before) + common
            # A character belongs to the token that completes it.
            ends[-_WINDOW:] = [min(end, agreed) for end in ends[-_WINDOW:]]
            text = text[:agreed] + after[common:]
            ends.append(len(text))
        return cls(text, tuple(ends))

    def token(self, character: int) -> int:
        """Return the index of the token that contains a character of the text."""
        return bisect_right(self.ends, character)

    def tokens(self, begin: int, end: int) -> tuple[int, ...]:
        """Return the indices of all tokens with characters begin to end - 1 of the text."""
        return tuple(range(self.token(begin), self.token(end - 1) + 1))


def _packed(text: str) -> str:
    return "".join(text.split())


def common_length(left: str, right: str) -> int:
    """Return the length of the common prefix of two texts."""
    length = min(len(left), len(right))
    return next((n for n in range(length) if left[n] != right[n]), length)


# --- Recorded decisions ---------------------------------------------------------------------------
@dataclass(frozen=True)
class Sample:
    """One decision of a recorded walk, with the tokens that the model read and wrote.

    Tokens must be recorded because the text of an answer does not determine them.
    """

    walk: str  # key of the walk in its run
    step: int  # number of the decision in the walk, from 0
    world: GridWorld
    state: State
    action: int | None  # 0 to 3; None for an answer that could not be parsed
    optimal: tuple[int, ...]  # actions that lead one step closer to the goal
    question: str  # text of the prompt, without chat markers
    prompt: tuple[int, ...]  # token ids of the prompt, chat markers included
    answer: tuple[int, ...]  # token ids of the answer

    @property
    def ids(self) -> tuple[int, ...]:
        """Replayed token ids: the prompt followed by the answer."""
        return self.prompt + self.answer

    @property
    def digest(self) -> str:
        """SHA-256 of the ids (see `digest_of`); equal digests share one forward pass."""
        return digest_of(self.ids)


def digest_of(ids: Iterable[int]) -> str:
    """Return the hexadecimal SHA-256 of token ids as little-endian 64-bit numbers."""
    return hashlib.sha256(np.array(list(ids), dtype="<i8").tobytes()).hexdigest()


def run_digest(trajectories: Iterable[Trajectory]) -> str:
    """Return the digest of all decisions' tokens, which identifies a run."""
    rows = []
    for step in (step for trajectory in trajectories for step in trajectory.steps):
        prompt = step.prompt_tokens if isinstance(step.prompt_tokens, tuple) else ()
        rows.append(digest_of((*prompt, *(step.answer_tokens or ()))))
    return digest_of(int(row[:12], 16) for row in rows)


def replay(run: str | Path, *, model: str | None = None) -> tuple[tuple[Sample, ...], Network]:
    """Return the decisions of a navigation run in order, and the model that made them.

    The run must be of a language model on this machine; by default, the model named in the run is
    loaded.
    """
    navigation = load(run)
    # Validate the run before the model is loaded, which takes longer.
    samples = samples_of(navigation.trajectories)
    return samples, Network.open(model or navigation.plan.agent)


def scenes_of(samples: Sequence[Sample]) -> Scenes:
    """Return the scenes of decisions: row i is decision i."""
    return Scenes.of(
        *([getattr(s, name) for s in samples] for name in ("world", "state", "action"))
    )


def samples_of(trajectories: Iterable[Trajectory]) -> tuple[Sample, ...]:
    """Return the decisions of walks in order."""
    samples = []
    for trajectory in trajectories:
        walk = made_of(trajectory).name
        for number, step in enumerate(trajectory.steps):
            prompt, answer = step.prompt_tokens, step.answer_tokens
            if not isinstance(prompt, tuple) or answer is None:
                raise InvalidTrajectoryError(
                    f"step {number} of {walk!r} was recorded without token ids, so its activations "
                    f"cannot be recomputed; repeat the run with a model on this machine "
                    f"(goalmeter/..., goalmeter-local/FOLDER), which records them"
                )
            fields = (step.state, step.action, step.optimal, step.prompt or "", prompt, answer)
            samples.append(Sample(walk, number, trajectory.world, *fields))
    if not samples:
        raise InvalidTrajectoryError(
            "the run has no decision to replay because none of its walks has a step; use a run "
            "whose model answered"
        )
    return tuple(samples)


# --- Positions ------------------------------------------------------------------------------------
# pre/end         last three tokens of the prompt: the state was read, nothing is written
# pre/goal        tokens of the goal's cell in the prompt; pre/agent: those of the agent's cell
# post/0.5        token at half of the reasoning; any share from 0 to 1
# post/end        last token of the reasoning, last token of its end marker, and the next token: the
#                 paper's "post-reasoning"
# post/step-2     token of the second move of the plan that the model states before it answers
# post/answer     token before the name of the action
#
# A position has a fixed number of tokens, so that rows of activations can be stacked. Samples that
# lack it (an answer without reasoning has no "post/end") are counted.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents" for three tokens before and after reasoning; its code finds the latter sixteen tokens
# before the end, which is correct for one answer format only.
BEFORE, AFTER = "pre", "post"
# End markers of reasoning: the tag of most models, and the answer channel of gpt-oss.
ENDS_OF_REASONING = ("</think>", "<|channel|>final<|message|>")
_ANSWER = '"action":"'
_MOVE = re.compile("|".join(ACTIONS))
_WIDTH = 3  # number of tokens at the end of the prompt and of the reasoning, as in the paper
Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Located:
    """Sample with the tokenizer of its model, to locate tokens by meaning."""

    sample: Sample
    tokenizer: Any

    def __post_init__(self) -> None:
        if self._question < 0:
            raise InvalidFileError(
                f"the tokens of step {self.sample.step} of {self.sample.walk!r} do not decode to "
                f"the recorded question, so the tokenizer is not that of the run's model; use that "
                f"model"
            )

    def cell(self, cell: Cell) -> Tokens:
        """Return the tokens of the prompt that describe a cell; none if it is not mentioned."""
        return self._in_question(span_of_cell(self.sample, cell))

    def label(self, label: str) -> Tokens:
        """Return the tokens of the cell after a label such as "Goal:" in a list of cells."""
        found = re.search(rf"^{re.escape(label)} (\S+)$", self.sample.question, re.MULTILINE)
        return self._in_question(found and found.span(1))

    def _in_question(self, span: tuple[int, int] | None) -> Tokens:
        before = [len(_packed(self.sample.question[:character])) for character in span or ()]
        return self._prompt.tokens(*(self._question + at for at in before)) if before else ()

    @property
    def end_of_prompt(self) -> Tokens:
        """Last three tokens of the prompt."""
        length = len(self.sample.prompt)
        return tuple(range(length - _WIDTH, length)) if length >= _WIDTH else ()

    def end_of_reasoning(self) -> Tokens:
        """Return the last token of the reasoning, the last of its end marker, and the next one."""
        length, last = self._reasoning
        found = length and last + 1 < len(self.sample.answer)
        return self._in_answer(length - 1, last, last + 1) if found else ()

    def before_action(self) -> Tokens:
        """Return the token before the name of the last stated action."""
        _, found, action = self._answer.text.rpartition(_ANSWER)
        place = self._answer.token(len(self._answer.text) - len(action))
        # The first token of the answer is predicted at the last of the prompt.
        return self._in_answer(place - 1) if found and action else ()

    def along_reasoning(self, share: float) -> Tokens:
        """Return the token at a share of the reasoning, 0 for its first and 1 for its last."""
        length, _ = self._reasoning
        return self._in_answer(round(share * (length - 1))) if length else ()

    def plan_step(self, number: int) -> Tokens:
        """Return the token in which a move of the stated plan begins, counted from 1."""
        moves = self._plan_moves[number - 1 : number]
        return self._in_answer(*(self._answer.token(move.start()) for move in moves))

    def stated_plan(self) -> tuple[int, ...]:
        """Return the actions of the plan that the reasoning states, in order."""
        return tuple(ACTIONS.index(move[0]) for move in self._plan_moves)

    @cached_property
    def _plan_moves(self) -> tuple[re.Match[str], ...]:
        """Moves after the last "plan" of the reasoning."""
        length, _ = self._reasoning
        end = self._answer.ends[length - 1] if length else 0
        begin = self._answer.text.rfind("plan", 0, end)
        return tuple(_MOVE.finditer(self._answer.text, begin, end)) if begin >= 0 else ()

    @cached_property
    def _prompt(self) -> Spelling:
        return Spelling.of(self.sample.prompt, self.tokenizer)

    @cached_property
    def _answer(self) -> Spelling:
        return Spelling.of(self.sample.answer, self.tokenizer)

    @cached_property
    def _question(self) -> int:
        """Index of the last occurrence of the question in the text of the prompt; -1 if missing."""
        return self._prompt.text.rfind(_packed(self.sample.question))

    @cached_property
    def _reasoning(self) -> tuple[int, int]:
        """Number of tokens of the reasoning (0 if none), and the last token of its end marker."""
        at, length = max((self._answer.text.rfind(end), len(end)) for end in ENDS_OF_REASONING)
        end = at + length - 1
        return (self._answer.token(at), self._answer.token(end)) if at >= 0 else (0, 0)

    def _in_answer(self, *places: int) -> Tokens:
        return tuple(len(self.sample.prompt) + place for place in places)


_NAMED: dict[str, Callable[[Located], Tokens]] = {
    f"{BEFORE}/end": lambda at: at.end_of_prompt,
    f"{BEFORE}/goal": lambda at: at.label("Goal:") or at.cell(at.sample.world.goal),
    f"{BEFORE}/agent": lambda at: at.label("Agent:") or at.cell(at.sample.state.cell),
    f"{AFTER}/end": Located.end_of_reasoning,
    f"{AFTER}/answer": Located.before_action,
}


def position(name: str) -> Callable[[Located], Tokens]:
    """Return a function that finds the tokens of a named position; none if a sample lacks it."""
    if name in _NAMED:
        return _NAMED[name]
    if (share := re.fullmatch(rf"{AFTER}/([01]|[01]?\.\d+)", name)) and float(share[1]) <= 1:
        return partial(Located.along_reasoning, share=float(share[1]))
    if step := re.fullmatch(rf"{AFTER}/step-([1-9]\d*)", name):
        return partial(Located.plan_step, number=int(step[1]))
    hint = did_you_mean(name, _NAMED)
    raise InvalidParameterError(
        f"unknown position {name!r}{hint + ' Expected' if hint else ', expected'} one of "
        f"{', '.join(_NAMED)}, a share of the "
        f"reasoning such as {AFTER}/0.5, or a move of the stated plan such as {AFTER}/step-1"
    )


def checked_positions(names: Sequence[str]) -> tuple[str, ...]:
    """Validate names of positions and return them without duplicates."""
    if not names:
        raise InvalidParameterError("positions is empty, expected at least one")
    for name in names:
        position(name)
    return tuple(dict.fromkeys(names))


def present_positions(
    samples: Sequence[Sample], tokenizer: Any, names: Sequence[str]
) -> tuple[str, ...]:
    """Return the positions that at least one decision has."""
    return tuple(
        name for name in names if any(position(name)(Located(each, tokenizer)) for each in samples)
    )


def span_of_cell(sample: Sample, cell: Cell) -> tuple[int, int] | None:
    """Return the characters (begin, end) of the question that describe a cell."""
    # A list of open cells contains each cell with its moves, but no walls.
    listed = rf"^Open:(?:.*?) ({cell.row},{cell.column} \S+)(?= |$)"
    if found := re.search(listed, sample.question, re.MULTILINE):
        return found.span(1)
    drawing = rendered(sample.world, sample.state)
    begin = sample.question.rfind(drawing)
    if begin < 0:
        return None
    rows = drawing.splitlines(keepends=True)
    # The first line contains the column numbers; every symbol is below the number of its column.
    numbers = list(re.finditer(r"\d+", rows[0]))
    at = begin + sum(map(len, rows[: cell.row + 1])) + numbers[cell.column].start()
    return at, at + 1
