"""Agents as functions of their history: protocol, adapters, draws, reality check, conversion."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, signature
from operator import index
from struct import pack
from typing import Any, NamedTuple, Protocol, SupportsIndex, cast

from goalmeter._errors import InvalidParameterError, shown

# An agent is a function of the history: percepts x_1 ... x_n and the actions y_1 ... y_{n-1}
# between them give the action y_n. An extended environment may ask what it would do at *any*
# history, so actions there need not be its own. For speed the function takes the form of a *mind*,
# which is told percepts and actions as they come, and can be asked and forked at any point.
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


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What an environment knows of the agent that plays it: how to begin one like it."""

    agent: Agent
    n_actions: int
    n_observations: int

    def begin(self, *, n_actions: int | None = None, **options: Any) -> Mind:
        """Return a fresh mind of the agent; with other legal actions or settings if given."""
        count = self.n_actions if n_actions is None else n_actions
        return self.agent.begin(count, self.n_observations, **options)

    def takes(self, option: str) -> bool:
        """Return whether the agent can be asked to assume a setting."""
        return option in options_of(self.agent)


def options_of(agent: Agent) -> frozenset[str]:
    """Return the settings that an agent can assume; none, if it does not say."""
    return getattr(agent, "options", frozenset())


class Agent:
    """Begins minds, two of which do the same if they are told the same.

    Here by `_mind`, by default such as do what `_choose` draws; a user's agent has `begin` alone.
    """

    # PunishSlowAgent counts the lines that an agent runs through, so they are part of its results.

    options: frozenset[str] = frozenset()  # settings that `begin` takes, such as "learning_rate"
    settled: bool = False  # whether it does the same at every history
    seed: int

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history, with the settings that it is asked to assume."""
        return self._mind(n_actions, n_observations, **(options and self._checked(options)))

    def _checked(self, options: dict[str, Any]) -> dict[str, Any]:
        for option in options:
            if option not in self.options:
                raise InvalidParameterError(
                    f"{self!r} cannot assume {option}={options[option]!r}: it knows "
                    f"{', '.join(sorted(self.options)) or 'no settings'}; ask "
                    f"Source.takes({option!r}) first"
                )
        return options

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        return DrawingMind(self, n_actions, hash_start(self.seed, n_actions, n_observations))

    def _choose(self, mind: Any) -> int:
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class DrawingMind:
    """A mind that remembers the hash of its history and the latest observation alone."""

    agent: Agent
    n_actions: int
    state: int  # the hash
    observation: int = 0

    @property
    def settled(self) -> bool:
        """Whether nothing that it is told changes what it does; see `environments.base.replay`."""
        return self.agent.settled

    def perceive(self, reward: float, observation: int) -> None:
        """Go on by a percept."""
        self.state = hash_percept(self.state, reward, observation)
        self.observation = observation

    def act(self) -> int:
        """Return what the agent does here."""
        return self.agent._choose(self)

    def take(self, action: int) -> None:
        """Go on by an action."""
        self.state = hash_action(self.state, action)

    def fork(self) -> DrawingMind:
        """Return another mind at the same point."""
        return DrawingMind(self.agent, self.n_actions, self.state, self.observation)


# A stochastic agent of the paper remembers its choices. Here the choice at a history is computed
# from a seed and a rolling hash of the history, so that identical histories give identical actions
# in any process, in any order and on any machine. Each turn is one step of mixing modulo 2^64, half
# of what SplitMix64 does for a number. A reward counts as the number it is: 1 and 1.0 are the same,
# -1 and -2 (which share a hash in Python) are not.
#
# Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators (2014).

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


class FunctionAgent(Agent):
    """An agent from a function of the history (Definition 1 of the paper).

    The function takes (history, n_actions, n_observations) and gives an integer. It is called with
    the whole history each time, so a run of n steps costs at least O(n^2). Its keyword-only
    parameters are settings that environments may ask it to assume, such as `learning_rate=0.1`.
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

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        return _FunctionMind(partial(self.function, **options), (n_actions, n_observations))


@dataclass
class _FunctionMind:
    function: partial[SupportsIndex]
    counts: tuple[int, int]  # legal actions, and observations
    percepts: tuple[Percept, ...] = ()
    actions: tuple[int, ...] = ()
    known: int | None = None

    def perceive(self, reward: float, observation: int) -> None:
        self.percepts += (Percept(reward, observation),)
        self.known = None

    def act(self) -> int:
        if self.known is None:
            answer = self.function(History(self.percepts, self.actions), *self.counts)
            # Only that it is an integer: whether it is legal is said by whoever asked.
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
    check_call(candidate, 3, f"{name}: {_name(candidate)}", FUNCTION)
    return FunctionAgent(candidate)


class RealityCheck(Agent):
    """The reality check of an agent pi (Definition 8).

        rc(x_1)             = pi(x_1)
        rc(x_1 y_1 ... x_n) = pi(x_1 y_1 ... x_n)  if y_i = rc(x_1 y_1 ... x_i) for all i < n,
                              pi(x_1)              otherwise.

    Until the first action that is not its own, rc is pi (Proposition 9.1), so a mind needs pi's
    mind and pi's first action only; once frozen it needs the action alone, and lets pi's mind go.
    The frozen action answers the first percept of the history at hand, which in a simulation may
    not be the first percept of the real one.

    It assumes what pi can assume, such as a learning rate. The authors' library does not, so that
    IncentivizeLearningRate pays -1 to every reality check; nor with `forward_options=False`.
    """

    def __init__(self, inner: Agent | HistoryFunction, *, forward_options: bool = True) -> None:
        self.inner = as_agent(inner)
        self.options = options_of(self.inner) if forward_options else frozenset()

    def __repr__(self) -> str:
        forwards = self.options == options_of(self.inner)
        return f"RealityCheck({self.inner!r}{'' if forwards else ', forward_options=False'})"

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        inner = self.inner.begin(n_actions, n_observations, **options)
        # Whoever does the same at every history is its own reality check.
        return inner if getattr(inner, "settled", False) else _CheckedMind(inner)


@dataclass(slots=True, eq=False)
class _CheckedMind:
    inner: Mind | None  # None: frozen
    first: int | None = None  # pi(x_1), once an action was taken
    known: int | None = None  # what it does here, if it was asked or is frozen
    settled: bool = False  # whether it is frozen; see `environments.base.replay`

    def perceive(self, reward: float, observation: int) -> None:
        inner = self.inner
        if inner is not None:
            inner.perceive(reward, observation)
            self.known = None

    def act(self) -> int:
        known = self.known
        if known is None:
            assert self.inner is not None  # a frozen mind knows what it does
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


# A learner becomes an agent by the power-of-two conversion (section 2.1): at n percepts a new one
# is trained on the first k, the largest power of two that n allows, and then acts without learning.


class Turn(NamedTuple):
    """A percept and the action that it followed; going on from it makes a new one."""

    before: Turn | None  # None before the first
    action: int | None
    reward: float
    observation: int


@dataclass(frozen=True)
class Prefix:
    """The start of a history: r_1 ... r_k, o_1 ... o_k and y_1 ... y_{k-1}."""

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
    """An agent that trains on the first k percepts of a history."""

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
        """Return the learning rate that it has if it is asked to assume none."""
        raise NotImplementedError

    def remembered(self, key: Hashable, train: Callable[[], Any], most: int) -> Any:
        """Return what a training gave, from memory if it is among the `most` latest ones used."""
        learned = self._learned.pop(key, None)
        if learned is None:
            learned = train()
        self._learned[key] = learned
        while len(self._learned) > most:
            del self._learned[next(iter(self._learned))]
        return learned


@dataclass(slots=True, eq=False)
class LearnerMind:
    """The history, marked where the training ends; training waits until it is asked."""

    agent: ConvertedAgent
    counts: tuple[int, int]  # legal actions, and observations
    rate: float | None  # the learning rate, if it is not the agent's own
    start: int  # the hash of the empty history
    state: int  # the hash of the history
    turn: Turn | None = None  # the latest
    action: int | None = None  # taken since the latest percept
    n: int = 0  # percepts
    trained_on: Turn | None = None  # percept k
    trained_state: int = 0  # the hash up to percept k
    learned: Any = None  # what the agent has trained on them, once that was needed
    known: int | None = None  # what it does here, if it was asked

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
            self.known = self.agent._choose(self)
        return self.known

    def take(self, action: int) -> None:
        """Go on by an action."""
        self.state = hash_action(self.state, action)
        self.action = action

    def fork(self) -> LearnerMind:
        """Return another mind at the same point."""
        twin: LearnerMind = object.__new__(LearnerMind)
        for name in LearnerMind.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin
