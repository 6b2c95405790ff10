"""Histories as text, which make a language model an agent: a function of its history.

A history is rendered in one of two ways. The next text always extends the previous one.

    transcript   one text of lines "reward 1 observation 0 action 1", to be continued
    chat         a message "reward 1 observation 0 action" for each percept, and its answer

A model with log-probabilities chooses among the legal actions only. Any other model samples a
reply, whose first legal action counts; if there is none, the reply is invalid and the action is
drawn uniformly. Draws depend only on seed and history, and the action at a history is remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.abilities import Ability, NamedAgent, call_of
from goalmeter.agents.history import (
    Agent,
    Mind,
    Turn,
    below,
    hash_action,
    hash_percept,
    hash_start,
    prefix,
    uniform,
)
from goalmeter.agents.local_models import OURS, LocalModel, local_model, model_agent

# A rendering, and perhaps that the likeliest action is taken instead of a draw.
TEXT_OPTIONS = ("transcript", "chat", "transcript, greedy", "chat, greedy")
Messages = list[dict[str, str]]
Reply = Callable[[Messages, int], str]  # (messages, seed) -> text

INSTRUCTIONS = """\
You act in an unknown environment. Each action is followed by a reward and an observation.
Choose actions with the highest total reward. Answer with the number of an action only.
actions 0 to {}
observations 0 to {}
"""
_NUMBER = re.compile(r"(?<![\w.-])\d+(?!\.?\w)")


def messages_of(rendering: str, counts: tuple[int, int], turn: Turn | None) -> Messages:
    """Render a history up to a turn; `counts` are the numbers of actions and of observations."""
    past = prefix(turn)
    start, *percepts = map(_percept, past.rewards, past.observations)
    start = INSTRUCTIONS.format(counts[0] - 1, counts[1] - 1) + start
    later = [*zip(past.actions, percepts, strict=True)]
    if rendering == "transcript":
        text = start + "".join(f" {action}\n{percept}" for action, percept in later)
        return [{"role": "user", "content": text}]
    return [{"role": "user", "content": start}, *(m for each in later for m in _exchange(*each))]


def _percept(reward: float, observation: int) -> str:
    number = int(reward) if reward == int(reward) else float(reward)
    return f"reward {number} observation {observation} action"


def _exchange(action: int | None, percept: str) -> Messages:
    answer = {"role": "assistant", "content": str(action)}
    return [answer, {"role": "user", "content": percept}]


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Point:
    """What a network computed of a text."""

    cache: Any  # of keys and values
    logits: Any  # of the next token


@dataclass(slots=True, eq=False)
class TextMind:
    """Mind that stores its history as a linked list of turns, with its hash."""

    agent: TextAgent
    counts: tuple[int, int]  # numbers of legal actions and of observations
    state: int  # hash of the history up to the latest percept
    turn: Turn | None = None
    action: int | None = None  # action since the latest percept
    point: _Point | None = None  # latest computed point of the history
    computed: Turn | None = None  # turn of this point

    def perceive(self, reward: float, observation: int) -> None:
        """Append a percept to the history."""
        if self.action is not None:
            self.state = hash_action(self.state, self.action)
        self.state = hash_percept(self.state, reward, observation)
        self.turn = Turn(self.turn, self.action, reward, observation)
        if (point := self.agent.points.get(self.state)) is not None:
            self.point, self.computed = point, self.turn

    def act(self) -> int:
        """Return the agent's action."""
        return self.agent._choose(self)

    def take(self, action: int) -> None:
        """Append an action to the history."""
        self.action = action

    def fork(self) -> TextMind:
        """Return an independent copy, which shares what was computed."""
        self.agent.advance(self)
        return replace(self)


class TextAgent(Agent):
    """Agent whose action at a history answers a text; each history is asked about once."""

    def __init__(self, seed: int, options: str) -> None:
        self.seed = seed
        self.rendering, _, choice = options.partition(", ")  # one of TEXT_OPTIONS
        self.greedy = choice == "greedy"
        self.calls = 0  # number of answers
        self.invalid_replies = 0  # number of answers without a legal action
        # Points that a mind holds, by the hash of their history: other minds continue from them.
        self.points: WeakValueDictionary[int, _Point] = WeakValueDictionary()
        self._actions: dict[int, int] = {}  # by the hash of the history

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        counts = (n_actions, n_observations)
        return TextMind(self, counts, hash_start(self.seed, *counts))

    def _choose(self, mind: TextMind) -> int:
        action = self._actions.get(mind.state)
        if action is None:
            self.calls += 1
            action = self.answer(mind)
            if action is None:
                self.invalid_replies += 1
                action = below(mind.state, mind.counts[0])  # as the agent `random`
            self._actions[mind.state] = action
        return action

    def answer(self, mind: TextMind) -> int | None:
        """Return the answered action; None if it is not legal."""
        raise NotImplementedError

    def advance(self, mind: TextMind) -> None:
        """Compute what copies of a mind share."""


class ReplyAgent(TextAgent):
    """Language model that samples a reply to the text of the whole history."""

    def __init__(self, seed: int, options: str, reply: Reply) -> None:
        super().__init__(seed, options)
        self.reply = reply

    def answer(self, mind: TextMind) -> int | None:
        """Return the first legal action of a reply; its seed depends on the history."""
        messages = messages_of(self.rendering, mind.counts, mind.turn)
        reply = self.reply(messages, below(mind.state, 2**31, stream=1))
        numbers = map(int, _NUMBER.findall(reply))
        return next((number for number in numbers if number < mind.counts[0]), None)


class ForcedChoiceAgent(TextAgent):
    """Local language model that chooses among the tokens of the legal actions.

    A step computes only the tokens that it adds to the text: minds extend the network's cache of
    keys and values, and forks share it.
    """

    def __init__(self, seed: int, options: str, model: LocalModel) -> None:
        super().__init__(seed, options)
        self.model = model
        self.positions = 0  # number of token positions computed
        # By the number of actions: tokens that all answers begin with, and those that differ.
        self._answers: dict[int, tuple[list[int], list[int]]] = {}

    def check_counts(self, n_actions: int, n_observations: int) -> None:
        """Raise unless the model's answers differ in one token."""
        counts, first = (n_actions, n_observations), Turn(None, None, 0, 0)
        answers = [self._tokens(counts, Turn(first, k, 0, 0)) for k in range(n_actions)]
        columns = enumerate(zip(*answers, strict=False))
        place = next((place for place, column in columns if len(set(column)) > 1), 0)
        tokens = [answer[place] for answer in answers]
        if len(set(tokens)) < n_actions:
            raise InvalidParameterError(
                f"the model's tokens do not distinguish the actions 0 to {n_actions - 1}; use an "
                f"environment with at most 10 actions"
            )
        self._answers[n_actions] = answers[0][:place], tokens

    def answer(self, mind: TextMind) -> int:
        """Draw an action by its probability among the legal ones, or take the likeliest."""
        if mind.counts[0] not in self._answers:
            self.check_counts(*mind.counts)
        shared, tokens = self._answers[mind.counts[0]]
        self.advance(mind)
        point = self._extended(mind.point, shared) if shared else mind.point
        weights = point.logits[tokens].double().softmax(0)  # type: ignore[union-attr]
        if self.greedy:
            return int(weights.argmax())
        return int((weights[:-1].cumsum(0) <= uniform(mind.state)).sum())

    def advance(self, mind: TextMind) -> None:
        """Compute the turns of a history that have not been computed, all at once."""
        turns, turn = [], mind.turn
        while turn is not None and turn is not mind.computed:
            turns.append(turn)
            turn = turn.before
        if turns:
            tokens = [t for each in reversed(turns) for t in self._tokens(mind.counts, each)]
            mind.point, mind.computed = self._extended(mind.point, tokens), mind.turn
            self.points[mind.state] = mind.point

    def _extended(self, point: _Point | None, tokens: list[int]) -> _Point:
        self.positions += len(tokens)
        return _Point(*self.model.extended(point and point.cache, tokens))

    def _tokens(self, counts: tuple[int, int], turn: Turn) -> list[int]:
        """Return the tokens that a turn, with the action before it, adds to the text."""
        is_chat, is_first = self.rendering == "chat", turn.before is None
        start = messages_of(self.rendering, counts, turn._replace(before=None))
        percept = _percept(turn.reward, turn.observation)
        if not is_chat:
            text = start[0]["content"] if is_first else f" {turn.action}\n{percept}"
            return list(self.model.tokenizer(text, add_special_tokens=is_first)["input_ids"])
        before = self.model.ids(start)
        if is_first:
            return list(before)
        after = self.model.ids(start + _exchange(turn.action, percept))
        if after[: len(before)] != before:
            raise InvalidParameterError(
                "the model's chat template changes earlier messages; use transcript"
            )
        return list(after[len(before) :])


# --- Names ----------------------------------------------------------------------------------------
def text_agent(name: str) -> NamedAgent:
    """Return a language model by name, with its actions at histories.

    With options in brackets, as in "goalmeter/mouse(chat, greedy)", it has no other ability.
    """
    call = call_of(name)
    options = re.sub(r"\s*,\s*", ", ", call.argument or "")
    model = model_agent(call.kind if options in TEXT_OPTIONS else name)
    is_local = Ability.HIDDEN in model.abilities

    def at_histories(seed: int = 0) -> TextAgent:
        chosen = options if options in TEXT_OPTIONS else TEXT_OPTIONS[0]
        if is_local:
            return ForcedChoiceAgent(seed, chosen, _shared_model(model.name))
        from goalmeter.agents.inspect_providers import replies_of

        return ReplyAgent(seed, chosen, replies_of(model.name, greedy="greedy" in chosen))

    if is_local or not model.name.startswith(OURS):
        model = replace(model, makers={**model.makers, Ability.HISTORY: at_histories})
    if options not in TEXT_OPTIONS:
        return model
    model.require(Ability.HISTORY, asker=f"the rendering {options}")
    about = f"{model.about}; histories as text: {options}"
    return NamedAgent(f"{model.name}({options})", about, {Ability.HISTORY: at_histories})


# Trials of one model follow each other, and each has its own agent.
_shared_model = lru_cache(maxsize=1)(local_model)
