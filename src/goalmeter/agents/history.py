"""Agents as functions of their history: protocol, adapters, randomness, reality check, learners."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, signature
from operator import index
from struct import pack
from typing import Any, NamedTuple, Protocol, SupportsIndex, cast

from goalmeter._errors import InvalidParameterError, shown

# An agent is a function of the history: it maps percepts x_1 ... x_n and the actions y_1 ...
# y_{n-1} between them to the action y_n. An extended environment may query it at *any* history,
# with actions that are not its own. For speed the function has the form of a *mind*, which receives
# percepts and actions one by one, and can be queried and forked at any point.
#
# Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section 2.


class NoActionError(InvalidParameterError):
    """An agent did not return an integer as its action."""


class Percept(NamedTuple):
    """A reward and an observation."""

    reward: float
    observation: int


class History(NamedTuple):
    """Percepts x_1 ... x_n and the actions y_1 ... y_{n-1} between them."""

    percepts: tuple[Percept, ...]
    actions: tuple[int, ...]


class Mind(Protocol):
    """State of an agent at a point of a history; percepts and actions alternate, percept first."""

    def perceive(self, reward: float, observation: int) -> None:
        """Append a percept to the history."""

    def act(self) -> int:
        """Return the agent's action after a percept, without side effects."""

    def take(self, action: int) -> None:
        """Append the action taken to the history, whether or not the agent chose it."""

    def fork(self) -> Mind:
        """Return an independent copy at the same point of the history."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Source of further minds of the playing agent, for use by its environment."""

    agent: Agent
    n_actions: int
    n_observations: int

    def begin(self, *, n_actions: int | None = None, **options: Any) -> Mind:
        """Return a new mind of the agent, with other legal actions or settings if given."""
        count = self.n_actions if n_actions is None else n_actions
        return self.agent.begin(count, self.n_observations, **options)

    def takes(self, option: str) -> bool:
        """Return whether the agent supports a setting."""
        return option in options_of(self.agent)


def options_of(agent: Agent) -> frozenset[str]:
    """Return the settings that an agent supports; none if it has no `options`."""
    return getattr(agent, "options", frozenset())


class Agent:
    """Agent on histories; its minds act equally at equal histories.

    Subclasses override `_choose` or `_mind`; user agents only need the method `begin`.
    """

    # PunishSlowAgent counts the executed lines of an agent, so edits of its code change results.

    options: frozenset[str] = frozenset()  # settings supported by `begin`, as "learning_rate"
    settled: bool = False  # whether the action is the same at every history
    seed: int

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history, with the given settings."""
        return self._mind(n_actions, n_observations, **(options and self._check(options)))

    def _check(self, options: dict[str, Any]) -> dict[str, Any]:
        for option in options:
            if option not in self.options:
                raise InvalidParameterError(
                    f"{self!r} does not support {option}={options[option]!r}, expected "
                    f"{', '.join(sorted(self.options)) or 'no settings'}; check "
                    f"Source.takes({option!r}) first"
                )
        return options

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        return DrawingMind(self, n_actions, hash_start(self.seed, n_actions, n_observations))

    def _choose(self, mind: Any) -> int:
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class DrawingMind:
    """Mind that stores only the hash of its history and the latest observation."""

    agent: Agent
    n_actions: int
    state: int  # hash of the history
    observation: int = 0

    @property
    def settled(self) -> bool:
        """Whether the action is the same at every history; see `environments.base.replay`."""
        return self.agent.settled

    def perceive(self, reward: float, observation: int) -> None:
        """Append a percept to the history."""
        self.state = hash_percept(self.state, reward, observation)
        self.observation = observation

    def act(self) -> int:
        """Return the agent's action."""
        return self.agent._choose(self)

    def take(self, action: int) -> None:
        """Append an action to the history."""
        self.state = hash_action(self.state, action)

    def fork(self) -> DrawingMind:
        """Return an independent copy."""
        return DrawingMind(self.agent, self.n_actions, self.state, self.observation)


# Stochastic agents in the paper remember their choices. Here a choice is computed from a seed and a
# rolling hash of the history, so that equal histories give equal actions in any process, in any
# order and on any machine. Each turn is one mixing step modulo 2^64, half of a step of SplitMix64.
# Rewards are hashed by value: 1 and 1.0 are equal, -1 and -2 (equal hashes in Python) differ.
#
# Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators (2014).

_MASK = (1 << 64) - 1
_UNIT = 2.0**-53
_LARGE = 1 << 63
# Odd constants with well-spread bits, so that their products with small numbers do not collide.
_ACTION = 0x9E3779B97F4A7C15
_OBSERVATION = 0xD1B54A32D192ED03
_REWARD = 0xABC98388FB8FAC03
_STREAM = 0x8CB92BA72F3D8DD7
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def hash_start(seed: int, n_actions: int, n_observations: int) -> int:
    """Return the hash of the empty history for a seed and the sizes of an environment."""
    return _mixed(seed * _SECOND + n_actions * _ACTION + n_observations * _OBSERVATION)


def hash_percept(state: int, reward: Any, observation: int) -> int:
    """Return the hash after a percept; the reward may be any real number."""
    # Floats, fractions, NumPy numbers, and integers that would collide modulo 2^64.
    if type(reward) is not int or not -_LARGE < reward < _LARGE:
        reward = _integer_of(reward)
    z: int = (state + reward * _REWARD + observation * _OBSERVATION) & _MASK
    return (z ^ (z >> 32)) * _FIRST & _MASK


def hash_action(state: int, action: int) -> int:
    """Return the hash after an action; it needs a percept before numbers are drawn from it."""
    return (state + action * _ACTION) & _MASK


def uniform(state: int, stream: int = 0) -> float:
    """Return a number in [0, 1) from the hash after a percept; streams are independent."""
    if stream:
        state = (state + stream * _STREAM) & _MASK
        state = (state ^ (state >> 32)) * _SECOND & _MASK
    return (state >> 11) * _UNIT


def below(state: int, n: int, stream: int = 0) -> int:
    """Return a random integer in 0 .. n-1: floor(n * uniform(state, stream))."""
    return int(uniform(state, stream) * n)


def _integer_of(reward: Any) -> int:
    """Return a small integer as it is, and any other real number as its mixed words or bits."""
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


# Function of a user's agent: (history, n_actions, n_observations) -> action.
HistoryFunction = Callable[[History, int, int], int]
FUNCTION = "a function (history, n_actions, n_observations) -> int"


class FunctionAgent(Agent):
    """Agent defined by a function of the history (Definition 1 of the paper).

    The function maps (history, n_actions, n_observations) to an integer. Each call receives the
    whole history, so a run of n steps costs at least O(n^2). Its keyword-only parameters are
    settings that environments may change, such as `learning_rate=0.1`.
    """

    def __init__(self, function: Callable[..., SupportsIndex]) -> None:
        if not callable(function):
            raise InvalidParameterError(f"{shown(function)} is not callable, expected {FUNCTION}")
        check_call(function, 3, _name(function), FUNCTION)
        self.function = function
        parameters = parameters_of(function)
        self.options = frozenset(p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY)

    def __repr__(self) -> str:
        return f"FunctionAgent({_name(self.function)})"

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        return _FunctionMind(partial(self.function, **options), (n_actions, n_observations))


@dataclass
class _FunctionMind:
    function: partial[SupportsIndex]
    counts: tuple[int, int]  # numbers of legal actions and of observations
    percepts: tuple[Percept, ...] = ()
    actions: tuple[int, ...] = ()
    known: int | None = None  # cached action

    def perceive(self, reward: float, observation: int) -> None:
        self.percepts += (Percept(reward, observation),)
        self.known = None

    def act(self) -> int:
        if self.known is None:
            answer = self.function(History(self.percepts, self.actions), *self.counts)
            # The action must be an integer; the caller checks whether it is legal.
            try:
                self.known = index(answer)
            except TypeError:
                n = len(self.percepts)
                raise NoActionError(
                    f"{_name(self.function)} returned {shown(answer)} "
                    f"({type(answer).__name__}) at a history of {n} percept{'s' * (n > 1)}, "
                    f"expected an integer in 0 .. {self.counts[0] - 1}"
                ) from None
        return self.known

    def take(self, action: int) -> None:
        self.actions += (action,)

    def fork(self) -> _FunctionMind:
        return replace(self)


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function; none for builtins without a signature."""
    try:
        return list(signature(function).parameters.values())
    except (ValueError, TypeError):
        return []


def _name(function: Callable[..., Any]) -> str:
    function = function.func if isinstance(function, partial) else function
    return getattr(function, "__name__", None) or shown(function)


def check_call(function: Callable[..., Any], arguments: int, name: str, expected: str) -> None:
    """Raise unless a function accepts a number of arguments; builtins without signature pass."""
    try:
        form = signature(function)
    except (ValueError, TypeError):
        return
    try:
        form.bind(*[None] * arguments)
    except TypeError as cause:
        raise InvalidParameterError(
            f"{name}({', '.join(map(str, form.parameters))}) has the wrong parameters: "
            f"{cause}; expected {expected}"
        ) from cause


def as_agent(candidate: object, name: str = "the agent") -> Agent:
    """Return an agent unchanged, and a function of the history as an agent."""
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
    check_call(candidate, 3, f"{name}: {_name(candidate)}", FUNCTION)
    return FunctionAgent(candidate)


class RealityCheck(Agent):
    """The reality check of an agent pi (Definition 8).

        rc(x_1)             = pi(x_1)
        rc(x_1 y_1 ... x_n) = pi(x_1 y_1 ... x_n)  if y_i = rc(x_1 y_1 ... x_i) for all i < n,
                              pi(x_1)              otherwise.

    Until the first action that is not its own, rc equals pi (Proposition 9.1). A mind stores pi's
    mind and pi's first action until then, and only this action once it is frozen. The frozen action
    is the response to the first percept of the history at hand, which in a simulation may differ
    from the first percept of the real history.

    It supports the settings of pi, such as a learning rate, unless `forward_options=False`. The
    authors' library does not, so IncentivizeLearningRate pays -1 to every reality check.
    """

    def __init__(self, inner: Agent | HistoryFunction, *, forward_options: bool = True) -> None:
        self.inner = as_agent(inner)
        self.options = options_of(self.inner) if forward_options else frozenset()

    def __repr__(self) -> str:
        forwards = self.options == options_of(self.inner)
        return f"RealityCheck({self.inner!r}{'' if forwards else ', forward_options=False'})"

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        inner = self.inner.begin(n_actions, n_observations, **options)
        # An agent with the same action at every history is its own reality check.
        return inner if getattr(inner, "settled", False) else _CheckedMind(inner)


@dataclass(slots=True, eq=False)
class _CheckedMind:
    inner: Mind | None  # None: frozen
    first: int | None = None  # pi(x_1), after the first action
    known: int | None = None  # current action, if it was computed or is frozen
    settled: bool = False  # whether it is frozen; see `environments.base.replay`

    def perceive(self, reward: float, observation: int) -> None:
        inner = self.inner
        if inner is not None:
            inner.perceive(reward, observation)
            self.known = None

    def act(self) -> int:
        known = self.known
        if known is None:
            assert self.inner is not None  # a frozen mind has a known action
            self.known = known = self.inner.act()
        return known

    def take(self, action: int) -> None:
        inner = self.inner
        if inner is None:
            return
        choice = self.known
        if choice is None:
            choice = inner.act()
        if self.first is None:
            self.first = choice
        if choice == action:
            inner.take(action)
        else:
            self.inner = None
            self.known = self.first
            self.settled = True

    def fork(self) -> _CheckedMind:
        copy = None if self.inner is None else self.inner.fork()
        return _CheckedMind(copy, self.first, self.known, self.settled)


# The power-of-two conversion (section 2.1) makes a learner an agent: at n percepts a new learner is
# trained on the first k, the largest power of two up to n, and then acts without learning.


class Turn(NamedTuple):
    """A percept with the action before it, as a linked list."""

    before: Turn | None  # None for the first turn
    action: int | None
    reward: float
    observation: int


@dataclass(frozen=True)
class Prefix:
    """Prefix of a history: r_1 ... r_k, o_1 ... o_k and y_1 ... y_{k-1}."""

    rewards: tuple[float, ...]
    observations: tuple[int, ...]
    actions: tuple[int, ...]


def prefix(turn: Turn | None) -> Prefix:
    """Return the history up to a turn."""
    turns: list[Turn] = []
    while turn is not None:
        turns.append(turn)
        turn = turn.before
    _, actions, rewards, observations = zip(*reversed(turns), strict=True)
    return Prefix(rewards, observations, actions[1:])


class ConvertedAgent(Agent):
    """Agent that trains on the first k percepts of a history."""

    options = frozenset({"learning_rate", "learning_rate_scale"})

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._learned: dict[Hashable, Any] = {}

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        counts, rate = (n_actions, n_observations), options.get("learning_rate")
        if "learning_rate_scale" in options:
            own = self._own_rate(*counts) if rate is None else rate
            rate = own * options["learning_rate_scale"]
        start = hash_start(self.seed, *counts)
        return LearnerMind(self, counts, rate, start, start)

    def _own_rate(self, n_actions: int, n_observations: int) -> float:
        """Return the default learning rate."""
        raise NotImplementedError

    def remembered(self, key: Hashable, train: Callable[[], Any], most: int) -> Any:
        """Return the result of a training, from a cache of the `most` recently used results."""
        learned = self._learned.pop(key, None)
        if learned is None:
            learned = train()
        self._learned[key] = learned
        while len(self._learned) > most:
            del self._learned[next(iter(self._learned))]
        return learned


@dataclass(slots=True, eq=False)
class LearnerMind:
    """Mind of a learner: the history with the end of its training data; training is lazy."""

    agent: ConvertedAgent
    counts: tuple[int, int]  # numbers of legal actions and of observations
    rate: float | None  # learning rate; None for the agent's default
    start: int  # hash of the empty history
    state: int  # hash of the history
    turn: Turn | None = None  # latest turn
    action: int | None = None  # action since the latest percept
    n: int = 0  # number of percepts
    trained_on: Turn | None = None  # percept k
    trained_state: int = 0  # hash up to percept k
    learned: Any = None  # result of the training on these percepts, once computed
    known: int | None = None  # current action, once computed

    def perceive(self, reward: float, observation: int) -> None:
        """Append a percept to the history."""
        self.state = state = hash_percept(self.state, reward, observation)
        self.turn = turn = Turn(self.turn, self.action, reward, observation)
        self.known = None
        self.n = n = self.n + 1
        if not n & (n - 1):  # n is a power of two
            self.trained_on, self.trained_state, self.learned = turn, state, None

    def act(self) -> int:
        """Return the agent's action."""
        if self.known is None:
            self.known = self.agent._choose(self)
        return self.known

    def take(self, action: int) -> None:
        """Append an action to the history."""
        self.state = hash_action(self.state, action)
        self.action = action

    def fork(self) -> LearnerMind:
        """Return an independent copy."""
        twin: LearnerMind = object.__new__(LearnerMind)
        for name in LearnerMind.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin
