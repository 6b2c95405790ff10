"""Agents as functions of their history: protocol, adapters, draws, reality check, conversion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from operator import index
from struct import pack
from typing import Any, ClassVar, NamedTuple, Protocol, SupportsIndex, cast

from goalmeter._errors import InvalidParameterError, shown

# An agent is a function of the history (Definition 1 of the paper): percepts x_1 ... x_n and the
# actions y_1 ... y_{n-1} between them give the action y_n. An extended environment may ask what the
# agent would do at *any* history (Definition 2).
#
# For speed a function of the history takes the form of a *mind*: it is told percepts and actions as
# they come, can be asked at any point, and can be forked there. `FunctionAgent` and `as_function`
# turn one form into the other. A mind must give what the function gives, whatever the history:
# actions in it need not be its own.
#
# Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section 2.


class NoActionError(InvalidParameterError):
    """An agent was asked what it does, and did not answer with an integer."""


class Percept(NamedTuple):
    """A reward and an observation."""

    reward: float
    observation: int


class History(NamedTuple):
    """Percepts x_1 ... x_n and the actions y_1 ... y_{n-1} between them."""

    percepts: tuple[Percept, ...]
    actions: tuple[int, ...]


class Mind(Protocol):
    """An agent at a point of a history; percepts and actions alternate, a percept first."""

    def perceive(self, reward: float, observation: int) -> None:
        """Go on by a percept."""

    def act(self) -> int:
        """Return what the agent does here, after a percept. Asking changes nothing."""

    def take(self, action: int) -> None:
        """Go on by an action: the one that was taken, whether or not the agent chose it."""

    def fork(self) -> Mind:
        """Return another mind at the same point; neither knows what the other does afterwards."""


class Agent(Protocol):
    """Begins minds. Two minds that are told the same do the same.

    Attributes:
        options: names of settings that an environment may ask it to assume, such as
            "learning_rate"; an agent without this attribute has none.
    """

    @property
    def options(self) -> frozenset[str]:
        """Names of the settings that `begin` takes."""

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history, told how many actions and observations are legal."""


class Source:
    """What an environment knows of the agent that plays it: how to begin one like it."""

    __slots__ = ("_agent", "_n_actions", "_n_observations")

    def __init__(self, agent: Agent, n_actions: int, n_observations: int) -> None:
        self._agent = agent
        self._n_actions = n_actions
        self._n_observations = n_observations

    def begin(self, *, n_actions: int | None = None, **options: Any) -> Mind:
        """Return a fresh mind of the agent; with other legal actions or settings if given."""
        count = self._n_actions if n_actions is None else n_actions
        return self._agent.begin(count, self._n_observations, **options)

    def takes(self, option: str) -> bool:
        """Return whether the agent can be asked to assume a setting."""
        return option in options_of(self._agent)


def options_of(agent: Agent) -> frozenset[str]:
    """Return the settings that an agent can assume; none, if it does not say."""
    return getattr(agent, "options", frozenset())


def refuse_unknown(agent: Agent, options: Mapping[str, Any]) -> None:
    """Refuse settings that an agent does not know, rather than ignore them."""
    for option in options:
        if option not in (known := options_of(agent)):
            raise InvalidParameterError(
                f"{agent!r} cannot assume {option}={options[option]!r}: it knows "
                f"{', '.join(sorted(known)) or 'no settings'}; ask Source.takes({option!r}) first"
            )


# A stochastic agent of the paper is made deterministic by remembering its choices. Here the choice
# at a history is computed from a seed and a rolling hash of the history instead, so that identical
# histories give identical actions in any process, in any order and on any machine.
#
# Each turn is one step of mixing modulo 2^64: what happened is added, every part times an odd
# constant of its own; the high half is folded onto the low one, and the sum is multiplied. The
# hash after a percept is then a draw already: half of what SplitMix64 does for each number, since
# every operation on such integers costs Python some 30 ns. A reward counts as the number it is: 1
# and 1.0 are the same, -1 and -2 (which share a hash in Python) are not.
#
# Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators (2014), for the
# mixing and its constants.

_MASK = (1 << 64) - 1
_UNIT = 2.0**-53
_LARGE = 1 << 63
# Odd, with their bits well spread, so that small numbers times them do not meet by accident.
_ACTION = 0x9E3779B97F4A7C15
_OBSERVATION = 0xD1B54A32D192ED03
_REWARD = 0xABC98388FB8FAC03
_STREAM = 0x8CB92BA72F3D8DD7
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def hash_start(seed: int, n_actions: int, n_observations: int) -> int:
    """Return the hash of the empty history, of an agent with this seed in such a world."""
    return _mixed(seed * _SECOND + n_actions * _ACTION + n_observations * _OBSERVATION)


def hash_percept(state: int, reward: Any, observation: int) -> int:
    """Return the hash after one more percept; the reward may be any real number."""
    # A float, a fraction, a NumPy number; or one that arithmetic modulo 2^64 would not tell apart.
    if type(reward) is not int or not -_LARGE < reward < _LARGE:
        reward = _whole(reward)
    told: int = (state + reward * _REWARD + observation * _OBSERVATION) & _MASK
    return (told ^ (told >> 32)) * _FIRST & _MASK


def hash_action(state: int, action: int) -> int:
    """Return the hash after one more action: to be mixed by a percept, not drawn from."""
    return (state + action * _ACTION) & _MASK


def uniform(state: int, stream: int = 0) -> float:
    """Return a number in [0, 1) from the hash after a percept; its streams are independent."""
    if stream:
        state = (state + stream * _STREAM) & _MASK
        state = (state ^ (state >> 32)) * _SECOND & _MASK
    return (state >> 11) * _UNIT


def below(state: int, n: int, stream: int = 0) -> int:
    """Return a whole number in 0 .. n-1: floor(n * uniform(state, stream))."""
    return int(uniform(state, stream) * n)


def _whole(reward: Any) -> int:
    """A real number as an int: itself if it is whole and small, else its words or bits, mixed."""
    if not isinstance(reward, int):
        number = float(reward)
        if not number.is_integer():
            return _mixed(int.from_bytes(pack(">d", number), "big"))
    whole = int(reward)
    if -_LARGE < whole < _LARGE:
        return whole
    mixed, words = int(whole < 0), abs(whole)
    while words:
        mixed = _mixed(mixed * _SECOND + (words & _MASK) + _FIRST)
        words >>= 64
    return mixed


def _mixed(z: int) -> int:
    z &= _MASK
    z = ((z ^ (z >> 30)) * _FIRST) & _MASK
    z = ((z ^ (z >> 27)) * _SECOND) & _MASK
    return z ^ (z >> 31)


# A user's agent: (history, n_actions, n_observations) -> action.
HistoryFunction = Callable[[History, int, int], int]
FUNCTION = "a function (history, n_actions, n_observations) -> int"


class FunctionAgent:
    """An agent from a function of the history (Definition 1 of the paper).

    Every question hands the function the whole history, so a run of n steps costs at least
    O(n^2); an agent that learns step by step is faster as a mind of its own.

    Keyword-only parameters of the function are settings that environments may ask it to assume:
    with `def agent(history, n_actions, n_observations, *, learning_rate=0.1)` it can be asked what
    it would do if it learnt at another rate.

    Args:
        function: of (history, n_actions, n_observations), gives an integer: an `int`, or anything
            that Python can index a list with, such as NumPy's integers.

    Raises:
        InvalidParameterError: it cannot be called with these three.
    """

    def __init__(self, function: Callable[..., SupportsIndex]) -> None:
        if not callable(function):
            raise InvalidParameterError(f"{shown(function)} cannot be called, expected {FUNCTION}")
        check_call(function, 3, _name(function), FUNCTION)
        self.function = function
        parameters = parameters_of(function)
        self.options = frozenset(p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY)

    def __repr__(self) -> str:
        return f"FunctionAgent({_name(self.function)})"

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind that remembers the history for the function."""
        if options:
            refuse_unknown(self, options)
        function = partial(self.function, **options) if options else self.function
        return _FunctionMind(function, n_actions, n_observations, [], [])


class _FunctionMind:
    def __init__(
        self,
        function: Callable[..., SupportsIndex],
        n_actions: int,
        n_observations: int,
        percepts: list[Percept],
        actions: list[int],
    ) -> None:
        self._function = function
        self._counts = n_actions, n_observations
        self._percepts = percepts
        self._actions = actions
        self._known: int | None = None

    def perceive(self, reward: float, observation: int) -> None:
        self._percepts.append(Percept(reward, observation))
        self._known = None

    def act(self) -> int:
        known = self._known
        if known is None:
            history = History(tuple(self._percepts), tuple(self._actions))
            answer = self._function(history, *self._counts)
            # Only that it is an integer: whether it is legal is said by whoever asked.
            try:
                self._known = known = index(answer)
            except TypeError:
                n = len(self._percepts)
                raise NoActionError(
                    f"{_name(self._function)} returned {shown(answer)} "
                    f"({type(answer).__name__}) at a history of {n} percept{'s' * (n > 1)}, "
                    f"expected an integer in 0 .. {self._counts[0] - 1}"
                ) from None
        return known

    def take(self, action: int) -> None:
        self._actions.append(action)

    def fork(self) -> _FunctionMind:
        told = self._percepts.copy(), self._actions.copy()
        twin = _FunctionMind(self._function, *self._counts, *told)
        twin._known = self._known
        return twin


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function; of builtins without a signature, none."""
    try:
        return list(signature(function).parameters.values())
    except (ValueError, TypeError):
        return []


def _name(function: Callable[..., Any]) -> str:
    function = function.func if isinstance(function, partial) else function
    return getattr(function, "__name__", None) or shown(function)


def check_call(function: Callable[..., Any], arguments: int, name: str, expected: str) -> None:
    """Refuse what cannot be called with so many arguments; builtins do not say, and pass."""
    try:
        takes = signature(function)
    except (ValueError, TypeError):
        return
    try:
        takes.bind(*[None] * arguments)
    except TypeError as cause:
        raise InvalidParameterError(
            f"{name}({', '.join(map(str, takes.parameters))}) cannot be called as it will be: "
            f"{cause}; expected {expected}"
        ) from cause


def as_agent(candidate: object, name: str = "the agent") -> Agent:
    """Return an agent as it is, and the agent that a function of the history makes."""
    is_class = isinstance(candidate, type)
    begin = getattr(candidate, "begin", None)
    if callable(begin) and not is_class:
        expected = f"begin(n_actions, n_observations), as {name} is an object"
        check_call(begin, 2, f"{type(candidate).__name__}.begin", expected)
        return cast(Agent, candidate)
    if is_class or not callable(candidate):
        kind = "a class without the method 'begin'" if is_class else shown(candidate)
        raise InvalidParameterError(
            f"{name} is {kind}, expected {FUNCTION}, an object with the method 'begin', or a class "
            f"of such objects"
        )
    try:
        return FunctionAgent(candidate)
    except InvalidParameterError as cause:
        raise InvalidParameterError(f"{name}: {cause}") from cause


def as_function(agent: Agent, **options: Any) -> HistoryFunction:
    """Return the function of the history that an agent is: a fresh mind is told all of it."""

    def act(history: History, n_actions: int, n_observations: int) -> int:
        mind = agent.begin(n_actions, n_observations, **options)
        for percept, action in zip(history.percepts, (*history.actions, None), strict=True):
            mind.perceive(*percept)
            if action is not None:
                mind.take(action)
        return mind.act()

    return act


class RealityCheck:
    """The reality check of an agent pi (Definition 8).

        rc(x_1)             = pi(x_1)
        rc(x_1 y_1 ... x_n) = pi(x_1 y_1 ... x_n)  if y_i = rc(x_1 y_1 ... x_i) for all i < n,
                              pi(x_1)              otherwise.

    Until the first action that is not its own, rc is pi (Proposition 9.1), so a mind needs pi's
    mind and pi's first action only; once frozen it needs the action alone, and lets pi's mind go.
    The frozen action answers the first percept of the history at hand, which in a simulation may
    not be the first percept of the real one.

    Args:
        inner: pi; an agent, or a function of the history.
        forward_options: assume what pi can assume, such as a learning rate. The authors' library
            does not, so that IncentivizeLearningRate pays -1 to every reality check; False is so.

    Source: Definition 8 and Proposition 9.
    """

    def __init__(self, inner: Agent | HistoryFunction, *, forward_options: bool = True) -> None:
        self.inner = as_agent(inner)
        self.options = options_of(self.inner) if forward_options else frozenset()

    def __repr__(self) -> str:
        forwards = self.options == options_of(self.inner)
        return f"RealityCheck({self.inner!r}{'' if forwards else ', forward_options=False'})"

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history; takes the settings of the inner agent."""
        if options:
            refuse_unknown(self, options)
        inner = self.inner.begin(n_actions, n_observations, **options)
        # Whoever does the same at every history is its own reality check.
        return inner if getattr(inner, "settled", False) else _CheckedMind(inner, None, None)


class _CheckedMind:
    __slots__ = ("_first", "_inner", "_known", "settled")

    def __init__(self, inner: Mind | None, first: int | None, known: int | None) -> None:
        self._inner = inner  # None: frozen
        self._first = first  # pi(x_1), once an action was taken
        self._known = known  # what it does here, if it was asked or is frozen
        self.settled = inner is None  # see `environments.base.replay`

    def perceive(self, reward: float, observation: int) -> None:
        inner = self._inner
        if inner is not None:
            inner.perceive(reward, observation)
            self._known = None

    def act(self) -> int:
        known = self._known
        if known is None:
            assert self._inner is not None  # a frozen mind knows what it does
            self._known = known = self._inner.act()
        return known

    def take(self, action: int) -> None:
        inner = self._inner
        if inner is None:
            return
        choice = self._known
        if choice is None:
            choice = inner.act()
        if self._first is None:
            self._first = choice
        if choice == action:
            inner.take(action)
        else:
            self._inner = None
            self._known = self._first
            self.settled = True

    def fork(self) -> _CheckedMind:
        inner = self._inner
        copy = None if inner is None else inner.fork()
        return _CheckedMind(copy, self._first, self._known)


# A learner that trains on a stream of experience becomes an agent by the power-of-two conversion:
# at a history of n percepts a new learner is trained on the first k, the largest power of two that
# n allows, is held to the actions that the history says were taken, and then acts on what follows
# without learning (section 2.1).


class Turn(NamedTuple):
    """A percept, the action that it followed, and the turn before; None before the first.

    Going on from a turn makes a new one and leaves it as it is, so a fork costs nothing.
    """

    before: Turn | None
    action: int | None
    reward: float
    observation: int


@dataclass(frozen=True)
class Prefix:
    """The start of a history: r_1 ... r_k, o_1 ... o_k and y_1 ... y_{k-1}."""

    rewards: tuple[float, ...]
    observations: tuple[int, ...]
    actions: tuple[int, ...]


def prefix(turn: Turn) -> Prefix:
    """Return the history up to a turn."""
    turns: list[Turn] = []
    at: Turn | None = turn
    while at is not None:
        turns.append(at)
        at = at.before
    turns.reverse()
    return Prefix(
        tuple(turn.reward for turn in turns),
        tuple(turn.observation for turn in turns),
        tuple(turn.action for turn in turns if turn.action is not None),
    )


class ConvertedAgent(ABC):
    """An agent that trains on the first k percepts of a history.

    It can be asked to assume a `learning_rate`, or a `learning_rate_scale` times its own.
    """

    options: ClassVar[frozenset[str]] = frozenset({"learning_rate", "learning_rate_scale"})

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._learned: OrderedDict[Hashable, Any] = OrderedDict()

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history."""
        refuse_unknown(self, options)
        rate = options.get("learning_rate")
        if "learning_rate_scale" in options:
            own = self.own_rate(n_actions, n_observations) if rate is None else rate
            rate = own * options["learning_rate_scale"]
        mind = LearnerMind()
        mind.agent = self
        mind.counts = n_actions, n_observations
        mind.rate = rate
        mind.start = mind.state = hash_start(self.seed, n_actions, n_observations)
        mind.turn = mind.action = mind.trained_on = mind.learned = mind.known = None
        mind.n = mind.trained_state = 0
        return mind

    @abstractmethod
    def own_rate(self, n_actions: int, n_observations: int) -> float:
        """Return the learning rate that it has if it is asked to assume none."""

    @abstractmethod
    def choose(self, mind: LearnerMind) -> int:
        """Return what it does at a history."""

    def remembered(self, key: Hashable, train: Callable[[], Any], most: int) -> Any:
        """Return what a training gave, from memory if it is among the `most` latest ones used."""
        if key in self._learned:
            self._learned.move_to_end(key)
        else:
            self._learned[key] = train()
            while len(self._learned) > most:
                self._learned.popitem(last=False)
        return self._learned[key]


@dataclass(slots=True, init=False, eq=False)
class LearnerMind:
    """The history, marked where the training ends; training waits until it is asked.

    Made without arguments and filled in, which takes half the time.
    """

    agent: ConvertedAgent
    counts: tuple[int, int]  # legal actions, and observations
    rate: float | None  # the learning rate, if it is not the agent's own
    start: int  # the hash of the empty history
    state: int  # the hash of the history
    turn: Turn | None  # the latest
    action: int | None  # taken since the latest percept
    n: int  # percepts
    trained_on: Turn | None  # percept k
    trained_state: int  # the hash up to percept k
    learned: Any  # what the agent has trained on them, once that was needed
    known: int | None  # what it does here, if it was asked

    def perceive(self, reward: float, observation: int) -> None:
        """Go on by a percept."""
        self.state = state = hash_percept(self.state, reward, observation)
        self.turn = turn = Turn(self.turn, self.action, reward, observation)
        self.known = None
        self.n = n = self.n + 1
        if not n & (n - 1):  # a power of two
            self.trained_on, self.trained_state, self.learned = turn, state, None

    def act(self) -> int:
        """Return what the agent does here."""
        if self.known is None:
            self.known = self.agent.choose(self)
        return self.known

    def take(self, action: int) -> None:
        """Go on by an action."""
        self.state = hash_action(self.state, action)
        self.action = action

    def fork(self) -> LearnerMind:
        """Return another mind at the same point."""
        twin = LearnerMind()
        for name in LearnerMind.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin
