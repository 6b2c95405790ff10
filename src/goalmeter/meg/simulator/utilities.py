"""Utilities of a step: the environment's reward, functions of a step, and learnt utilities.

Learnt utilities are fitted to episodes by the dual of maximum causal entropy and are then fixed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidParameterError,
    InvalidUtilityError,
    finite,
    in_a_line,
    require,
    whole,
)
from goalmeter._types import AnyArray, FloatArray, IntArray
from goalmeter.agents.stable_baselines import borrowed_generators
from goalmeter.meg.simulator.agents import count_of, first_of

# --- Named utilities -----------------------------------------------------------------------------
# Each utility is collected once a decision, from what `step` returned for it: the reward, or a
# function of the observation and the information that followed the action. Guarantees need to know
# what a utility cannot exceed; where nobody says it, what was seen stands in, and the result says
# so.

REWARD = "reward"
NO_UTILITY = "utility is an empty dictionary, expected at least one utility"
UtilityFunction = Callable[[Any, Mapping[str, Any]], float]
# What `from_simulator` takes for one utility and for several.
Utility = str | UtilityFunction
_LARGEST = 1e12
_SLACK = 1e-9  # what rounding may add to a bound


@dataclass(frozen=True)
class Range:
    """What a utility may pay."""

    low: float
    high: float
    least: float = -math.inf
    most: float = math.inf
    assumed: bool = False

    @property
    def spread(self) -> float:
        """By how much decisions may differ."""
        return self.high - self.low

    def scaled(self, factor: float) -> Range:
        """The range of a multiple."""
        ends = (self.low * factor, self.high * factor)
        sums = (self.least * factor, self.most * factor)
        return Range(min(ends), max(ends), min(sums), max(sums), self.assumed)

    def in_words(self) -> str:
        """What is assumed, as a note says it."""
        whole = "" if math.isinf(self.most) else " in an episode"
        return (
            f"no bounds were given: the interval assumes that the utility stays within what was "
            f"seen, {self.low:.6g} to {self.high:.6g}{whole}; give bounds= to assume less"
        )

    def of_episode(self, horizon: int) -> tuple[float, float]:
        """Least and most that an episode of up to `horizon` decisions collects."""
        low = max(min(self.low, 0.0) * horizon if self.low < 0 else 0.0, self.least)
        high = min(max(self.high, 0.0) * horizon, self.most)
        return (low, high)


@dataclass(frozen=True)
class NamedUtilities:
    """Utilities by name, in an order, with what is known of their ranges."""

    functions: Mapping[str, UtilityFunction | None]
    bounds: Mapping[str, Range]
    learnt: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the utilities, in order."""
        return tuple(self.functions)


def _called(
    function: UtilityFunction, name: str, observation: Any, info: Any, where: Callable[[], str]
) -> Any:
    try:
        return function(observation, info)
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidUtilityError(
            f"the utility {name!r} raised {in_a_line(cause)} {where()}, expected a finite "
            f"number for every (observation, info) that step gives"
        ) from cause


def _number(value: Any) -> float:
    """A single number as a float, NaN for anything else: an array or a text is no number."""
    if isinstance(value, (str, bytes)) or np.ndim(value):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def named_utilities(
    utility: Utility | Mapping[str, Utility], bounds: object = None
) -> NamedUtilities:
    """The utilities that a caller asks for."""
    single = not isinstance(utility, Mapping)
    several = {_name(utility): utility} if single else dict(utility)  # type: ignore[arg-type]
    if not several:
        raise InvalidParameterError(NO_UTILITY)
    functions: dict[str, UtilityFunction | None] = {}
    for name, asked in several.items():
        if not isinstance(name, str) or not name:
            raise InvalidParameterError(f"utility has the name {name!r}, expected a text")
        is_reward = isinstance(asked, str) and asked == REWARD
        if not is_reward and not callable(asked):
            raise InvalidParameterError(
                f"the utility {name!r} is {asked!r}, expected 'reward' or a function of "
                f"(observation, info) that gives a number"
            )
        functions[name] = None if is_reward else asked  # type: ignore[assignment]
    return NamedUtilities(functions, ranges_of(functions, bounds))


def ranges_of(names: Iterable[str], bounds: object) -> dict[str, Range]:
    """The ranges that a caller vouches for, by name; see `named_utilities`."""
    known = list(names)
    told = bounds if isinstance(bounds, Mapping) else dict.fromkeys(known, bounds)
    if unknown := [name for name in told if name not in known]:
        raise InvalidParameterError(
            f"bounds are given for {unknown[0]!r}, expected one of {', '.join(known)}"
        )
    return {name: _range(name, value) for name, value in told.items() if value is not None}


def _name(utility: object) -> str:
    if isinstance(utility, str):
        return utility
    name = getattr(utility, "__name__", "utility")
    return "utility" if name == "<lambda>" else str(name)


def _range(name: str, value: object) -> Range:
    ends = tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(ends) not in (2, 4):
        raise InvalidParameterError(
            f"bounds of {name!r} are {value!r}, expected (low, high) of one decision, or "
            f"(low, high, least, most) with what all that follow may pay together"
        )
    numbers = [finite(end, f"bounds of {name!r}", least=-_LARGEST, most=_LARGEST) for end in ends]
    low, high = numbers[:2]
    least, most = numbers[2:] or (-math.inf, math.inf)
    if low > high or least > most or least > 0 or most < 0:
        raise InvalidParameterError(
            f"bounds of {name!r} are {value!r}, expected low <= high and least <= 0 <= most "
            f"(an episode may be over, and then pays 0)"
        )
    return Range(low, high, least, most)


# --- Payments -----------------------------------------------------------------------------------
# Sums of rounded payments may leave their bounds by so much.
_ROUNDING = 1e-6


class Payments:
    """What U utilities paid in all steps of one world."""

    def __init__(self, utilities: NamedUtilities) -> None:
        self._utilities = utilities
        self._least = np.full(len(utilities.names), np.inf)
        self._most = -self._least

    def pay(
        self, reward: Any, observation: Any, info: Any, where: Callable[[], str]
    ) -> tuple[float, ...]:
        """What one step pays of each utility, [U]."""
        paid = []
        for name, function in self._utilities.functions.items():
            value = (
                reward if function is None else _called(function, name, observation, info, where)
            )
            number = _number(value)
            if not abs(number) <= _LARGEST:
                raise InvalidUtilityError(
                    f"the utility {name!r} is {value!r} {where()}, expected a finite number up to "
                    f"{_LARGEST:g}: a return that is not finite has no expectation; mend the "
                    f"reward, or give utility= a function that is finite everywhere"
                )
            told = self._utilities.bounds.get(name)
            if told is not None and not told.low - _SLACK <= number <= told.high + _SLACK:
                raise InvalidUtilityError(
                    f"the utility {name!r} is {number:g} {where()}, outside of the bounds "
                    f"({told.low:g}, {told.high:g}) that were given; give wider bounds="
                )
            paid.append(number)
        self._least, self._most = np.minimum(self._least, paid), np.maximum(self._most, paid)
        return tuple(paid)

    def extremes(self, which: int) -> tuple[float, float]:
        """The least and the most that any step has paid of a utility, by its number."""
        return float(self._least[which]), float(self._most[which])

    def check_total(self, total: FloatArray, episode: int) -> None:
        """See that an episode, by its number, kept to the bounds of what it adds up to, [U]."""
        for name, collected in zip(self._utilities.names, total, strict=True):
            told = self._utilities.bounds.get(name)
            if told and not told.least - _ROUNDING <= collected <= told.most + _ROUNDING:
                raise InvalidUtilityError(
                    f"the utility {name!r} added up to {collected:g} in episode {episode}, outside "
                    f"of {told.least:g} to {told.most:g} that bounds= allows; give wider bounds="
                )


# --- Learnt utilities ---------------------------------------------------------------------------
Features = Callable[[Any, Any], Any]
_ONE_HOT = 4_096  # numbered observations are shown as one 1 among zeros up to so many


@dataclass(frozen=True, eq=False, kw_only=True)
class LearntUtility:
    """An unknown utility that is fitted to some episodes and bounded with others.

    It is linear in features of what a step shows, with an intercept, or what a torch module makes
    of them. The best one for the first episodes is frozen, its values clipped to those that these
    episodes showed, and measured like any utility, on episodes that the fit never saw.
    """

    # A `torch.nn.Module` from features [N, ...] to N numbers, trained as a copy from its present
    # weights; None for a linear function.
    module: Any = None
    # A function of (observation, info) that gives an array of a fixed shape; None for the
    # observation: a number as one 1 among zeros, all else as a flat array.
    features: Features | None = None
    # Half for the agent and half for its reference; None for 30% of the budget, at most 20,000.
    steps: int | None = None
    # Of Adam, at most; it stops early by a quarter of these episodes.
    iterations: int = 300
    learning_rate: float = 0.02  # of Adam
    weight_decay: float = 1e-3  # of Adam

    def __post_init__(self) -> None:
        if self.steps is not None:
            whole(self.steps, "steps", least=10, most=10**8)
        whole(self.iterations, "iterations", least=1, most=10**6)
        finite(self.learning_rate, "learning_rate", least=1e-12, most=1e3)
        finite(self.weight_decay, "weight_decay", least=0.0, most=1e3)
        if self.features is not None and not callable(self.features):
            raise InvalidParameterError(
                f"features is {self.features!r}, expected a function or None"
            )
        if self.module is not None and not hasattr(self.module, "parameters"):
            raise InvalidParameterError(
                f"module is {self.module!r}, expected a torch.nn.Module or None; a fixed function "
                f"of what is observed can be given as features="
            )

    def seen(self, observation: Any, info: Any, space: Any, where: str) -> AnyArray:
        """The features of a step, single precision; `where` is what to name in an error."""
        if self.features is not None:
            observation = self.features(observation, info)
        elif (count := count_of(space)) is not None and count <= _ONE_HOT:
            place = int(observation) - first_of(space)
            return np.asarray(np.eye(1, count, place, dtype=np.float32)[0])
        try:
            array = np.array(_array(observation), dtype=np.float32)
        except (TypeError, ValueError) as cause:
            raise InvalidUtilityError(
                f"the features of {where} are {type(observation).__name__}, expected an array of "
                f"numbers; give features= a function of (observation, info)"
            ) from cause
        if not np.isfinite(array).all():
            raise InvalidUtilityError(
                f"the features of {where} are not all finite; give features= a function of "
                f"(observation, info) that is"
            )
        return np.atleast_1d(array)


@dataclass(frozen=True, eq=False)
class FrozenUtility:
    """A utility that was learnt, as a function of (observation, info), in [-1, 1]."""

    asked: LearntUtility
    module: Any
    factor: float
    low: float
    high: float
    space: Any
    name: str

    @property
    def range(self) -> Range:
        """What it pays, which needs nobody to vouch for it."""
        return Range(self.low, self.high)

    def __call__(self, observation: Any, info: Any = None) -> float:
        """What a step pays that showed this."""
        import torch

        features = self.asked.seen(observation, info, self.space, f"the utility {self.name!r}")
        with torch.no_grad():
            made = float(self.module(torch.from_numpy(features[None])).reshape(()))
        if math.isnan(made):
            raise InvalidUtilityError(
                f"the learnt utility {self.name!r} is no number at {features}"
            )
        return min(max(self.factor * made, self.low), self.high)


def _array(observation: Any) -> Any:
    """The observation, flat where it has several parts."""
    if isinstance(observation, Mapping):
        return _array([observation[key] for key in sorted(observation)])
    if isinstance(observation, (tuple, list)):
        parts = [np.ravel(_array(part)) for part in observation]
        return np.concatenate(parts) if parts else np.zeros(0)
    return observation


# --- Fit ----------------------------------------------------------------------------------------
# MEG towards u is at least E_agent[sum u] - log E_reference[exp sum u]. That is climbed by Adam,
# less what a bound will take off later (the error of the mean, and episodes of the reference that
# were not seen): without these terms the best fit tells single episodes apart and does not hold up
# on others.

# Episodes that are added to those of the reference, as if they had collected the most.
_UNSEEN = 1.0
_ERRORS = 2.5  # standard errors that a limit takes off the agent's mean
# Every so many episodes are set aside, and how many iterations may pass without a gain on them.
_ASIDE, _PATIENCE = 4, 60


@dataclass(frozen=True)
class Recorded:
    """Episodes as the fit sees them."""

    features: AnyArray
    lengths: IntArray


def fitted_module(
    asked: LearntUtility, agent: Recorded, reference: Recorded, *, horizon: int | None, name: str
) -> Any:
    """A module with the weights that explain the agent best, in evaluation mode."""
    torch = require("torch", extra="neural", feature="A learnt utility")
    # The user's module stays as it is, and so do everybody else's draws.
    with borrowed_generators():
        torch.manual_seed(0)
        module = _module(asked, np.concatenate([agent.features, reference.features]))
        parts = [(_part(agent, aside), _part(reference, aside)) for aside in (False, True)]
        optimiser = torch.optim.Adam(
            module.parameters(), lr=asked.learning_rate, weight_decay=asked.weight_decay
        )
        best, best_weights, since = -math.inf, copy.deepcopy(module.state_dict()), 0
        for _ in range(asked.iterations):
            with torch.no_grad():
                now = float(_bound(module, *parts[1], horizon, name))
            if now > best + 1e-4:
                best, best_weights, since = now, copy.deepcopy(module.state_dict()), 0
            elif (since := since + 1) > _PATIENCE:
                break
            optimiser.zero_grad()
            loss = -_bound(module, *parts[0], horizon, name)
            if not math.isfinite(loss.item()):
                raise InvalidParameterError(
                    f"the fit of the learnt utility {name!r} diverged; give a smaller "
                    f"learning_rate than {asked.learning_rate:g}, or features of moderate size"
                )
            loss.backward()
            optimiser.step()
        module.load_state_dict(best_weights)
    return module


def outputs(module: Any, features: AnyArray) -> AnyArray:
    """What a module makes of the features of some steps, [N]."""
    import torch

    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(features)).reshape(-1).numpy(), np.float64)


def _module(asked: LearntUtility, features: AnyArray) -> Any:
    import torch

    if asked.module is not None:
        if not any(each.requires_grad for each in asked.module.parameters()):
            raise InvalidParameterError(
                f"the module {type(asked.module).__name__} has no weights that can be learnt; give "
                f"one that has, or what it makes as features="
            )
        try:
            return copy.deepcopy(asked.module).eval()
        except RuntimeError as cause:
            raise InvalidParameterError(
                f"no copy of the module {type(asked.module).__name__} can be made: "
                f"{in_a_line(cause)[:300]}"
            ) from cause
    flat = features.reshape(len(features), -1)
    # In units of what was seen, so that one learning rate suits all features.
    size = np.maximum(np.abs(flat).max(axis=0), 1e-6)
    linear, scale = torch.nn.Linear(len(size), 1), torch.nn.Linear(len(size), len(size), bias=False)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
        scale.weight.copy_(torch.diag(torch.from_numpy(1 / size)))
    return torch.nn.Sequential(torch.nn.Flatten(), scale.requires_grad_(False), linear)


def _part(episodes: Recorded, aside: bool) -> tuple[Any, Any, int]:
    """Features of the steps of some episodes, the episode of each step, and how many they are."""
    import torch

    number = np.arange(len(episodes.lengths))
    chosen = (number % _ASIDE == 0) == aside
    of_step = np.repeat(number, episodes.lengths)
    kept = chosen[of_step]
    _, again = np.unique(of_step[kept], return_inverse=True)
    features = torch.from_numpy(episodes.features[kept])
    return features, torch.from_numpy(again), int(chosen.sum())


def _bound(module: Any, agent: Any, reference: Any, horizon: int | None, name: str) -> Any:
    """What about will be proven of the utility, nats."""
    import torch

    returns, most = [], torch.zeros(())
    for features, episode, count in (agent, reference):
        try:
            paid = module(features).reshape(-1)
            collected = torch.zeros(count).index_add(0, episode, paid)
        except Exception as cause:
            raise InvalidUtilityError(
                f"the module of the learnt utility {name!r} does not make {len(features)} numbers "
                f"of features of shape {list(features.shape)}: {in_a_line(cause)[:300]}"
            ) from cause
        returns.append(collected)
        most = torch.maximum(most, collected.max() if horizon is None else horizon * paid.max())
    mine, others = returns
    unseen = (most + math.log(_UNSEEN)).reshape(1)
    soft = torch.logsumexp(torch.cat([others, unseen]), 0) - math.log(len(others) + _UNSEEN)
    noise = mine.std() / math.sqrt(len(mine)) if len(mine) > 1 else torch.zeros(())
    return mine.mean() - _ERRORS * noise - soft
