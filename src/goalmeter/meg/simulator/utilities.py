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
# Each utility pays once per decision, from the results of `step`: the reward, or a function of the
# observation and the info after the action. Bounds of MEG need the range of a utility; if it is not
# given, the observed range is assumed, and a note of the result states this.

REWARD = "reward"
NO_UTILITY = "utility is an empty dictionary, expected at least one utility"
UtilityFunction = Callable[[Any, Mapping[str, Any]], float]
# Type of one utility in `from_simulator`.
Utility = str | UtilityFunction
_LARGEST = 1e12
_SLACK = 1e-9  # tolerance of a bound for rounding


@dataclass(frozen=True)
class Range:
    """Range of a utility's payoffs: of one decision, and of all from a state on."""

    low: float
    high: float
    least: float = -math.inf
    most: float = math.inf
    assumed: bool = False

    @property
    def spread(self) -> float:
        """Difference of the bounds of one decision."""
        return self.high - self.low

    def scaled(self, factor: float) -> Range:
        """Return the range of a multiple."""
        ends = (self.low * factor, self.high * factor)
        sums = (self.least * factor, self.most * factor)
        return Range(min(ends), max(ends), min(sums), max(sums), self.assumed)

    def in_words(self) -> str:
        """Return the assumption as a note."""
        whole = "" if math.isinf(self.most) else " in an episode"
        return (
            f"no bounds were given: the interval assumes that the utility stays in its observed "
            f"range, {self.low:.6g} to {self.high:.6g}{whole}; give bounds= to assume less"
        )

    def of_episode(self, horizon: int) -> tuple[float, float]:
        """Return the minimum and maximum return of an episode of up to `horizon` decisions."""
        low = max(min(self.low, 0.0) * horizon if self.low < 0 else 0.0, self.least)
        high = min(max(self.high, 0.0) * horizon, self.most)
        return (low, high)


@dataclass(frozen=True)
class NamedUtilities:
    """Utilities by name, in order, with their known ranges."""

    functions: Mapping[str, UtilityFunction | None]
    bounds: Mapping[str, Range]
    learnt: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the utilities in order."""
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
            f"number for every (observation, info) that step returns"
        ) from cause


def _number(value: Any) -> float:
    """Convert a single number to a float; NaN for anything else, such as arrays and strings."""
    if isinstance(value, (str, bytes)) or np.ndim(value):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def named_utilities(
    utility: Utility | Mapping[str, Utility], bounds: object = None
) -> NamedUtilities:
    """Validate and name the requested utilities."""
    single = not isinstance(utility, Mapping)
    several = {_name(utility): utility} if single else dict(utility)  # type: ignore[arg-type]
    if not several:
        raise InvalidParameterError(NO_UTILITY)
    functions: dict[str, UtilityFunction | None] = {}
    for name, given in several.items():
        if not isinstance(name, str) or not name:
            raise InvalidParameterError(f"utility has the name {name!r}, expected a string")
        is_reward = isinstance(given, str) and given == REWARD
        if not is_reward and not callable(given):
            raise InvalidParameterError(
                f"the utility {name!r} is {given!r}, expected 'reward' or a function of "
                f"(observation, info) that returns a number"
            )
        functions[name] = None if is_reward else given  # type: ignore[assignment]
    return NamedUtilities(functions, ranges_of(functions, bounds))


def ranges_of(names: Iterable[str], bounds: object) -> dict[str, Range]:
    """Validate the given ranges and return them by name."""
    known = list(names)
    given = bounds if isinstance(bounds, Mapping) else dict.fromkeys(known, bounds)
    if unknown := [name for name in given if name not in known]:
        raise InvalidParameterError(
            f"bounds are given for {unknown[0]!r}, expected one of {', '.join(known)}"
        )
    return {name: _range(name, value) for name, value in given.items() if value is not None}


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
            f"(low, high, least, most) with the bounds of the total from any state on"
        )
    numbers = [finite(end, f"bounds of {name!r}", least=-_LARGEST, most=_LARGEST) for end in ends]
    low, high = numbers[:2]
    least, most = numbers[2:] or (-math.inf, math.inf)
    if low > high or least > most or least > 0 or most < 0:
        raise InvalidParameterError(
            f"bounds of {name!r} are {value!r}, expected low <= high and least <= 0 <= most "
            f"(the total after the end of an episode is 0)"
        )
    return Range(low, high, least, most)


# --- Payments -----------------------------------------------------------------------------------
# Tolerance of bounds for sums of rounded payoffs.
_ROUNDING = 1e-6


class Payments:
    """Payoffs of U utilities and their observed ranges."""

    def __init__(self, utilities: NamedUtilities) -> None:
        self._utilities = utilities
        self._least = np.full(len(utilities.names), np.inf)
        self._most = -self._least

    def pay(
        self, reward: Any, observation: Any, info: Any, where: Callable[[], str]
    ) -> tuple[float, ...]:
        """Return the payoff of one step for each utility, [U]."""
        paid = []
        for name, function in self._utilities.functions.items():
            value = (
                reward if function is None else _called(function, name, observation, info, where)
            )
            number = _number(value)
            if not abs(number) <= _LARGEST:
                raise InvalidUtilityError(
                    f"the utility {name!r} is {value!r} {where()}, expected a finite number up to "
                    f"{_LARGEST:g}: a return that is not finite has no expectation; fix the "
                    f"reward, or pass as utility= a function that is finite everywhere"
                )
            given = self._utilities.bounds.get(name)
            if given is not None and not given.low - _SLACK <= number <= given.high + _SLACK:
                raise InvalidUtilityError(
                    f"the utility {name!r} is {number:g} {where()}, outside its bounds "
                    f"({given.low:g}, {given.high:g}); widen bounds="
                )
            paid.append(number)
        self._least, self._most = np.minimum(self._least, paid), np.maximum(self._most, paid)
        return tuple(paid)

    def extremes(self, which: int) -> tuple[float, float]:
        """Return the smallest and largest payoff so far of a utility, by number."""
        return float(self._least[which]), float(self._most[which])

    def check_total(self, total: FloatArray, episode: int) -> None:
        """Require that the totals of an episode, [U], are within their bounds."""
        for name, collected in zip(self._utilities.names, total, strict=True):
            given = self._utilities.bounds.get(name)
            if given and not given.least - _ROUNDING <= collected <= given.most + _ROUNDING:
                raise InvalidUtilityError(
                    f"the utility {name!r} has the total {collected:g} in episode {episode}, "
                    f"outside {given.least:g} to {given.most:g} of bounds=; widen bounds="
                )


# --- Learnt utilities ---------------------------------------------------------------------------
Features = Callable[[Any, Any], Any]
_ONE_HOT = 4_096  # maximum number of discrete observations with one-hot features


@dataclass(frozen=True, eq=False, kw_only=True)
class LearntUtility:
    """Unknown utility that is fitted to some episodes and bounded on others.

    It is a linear function with an intercept, or a torch module, of features of a step. The best
    fit to the first episodes is frozen, clipped to its range on them, and measured like any utility
    on episodes that were not used for the fit.
    """

    # `torch.nn.Module` from features [N, ...] to N numbers; a copy is trained from its current
    # weights. None for a linear function.
    module: Any = None
    # Function of (observation, info) that returns an array of fixed shape. None for the
    # observation: one-hot if discrete, otherwise flattened.
    features: Features | None = None
    # Number of steps, half of them of the reference; None for 30% of the budget, at most 20,000.
    steps: int | None = None
    # Maximum number of Adam steps; a quarter of the episodes is used for early stopping.
    iterations: int = 300
    learning_rate: float = 0.02  # learning rate of Adam
    weight_decay: float = 1e-3  # weight decay of Adam

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
                f"module is {self.module!r}, expected a torch.nn.Module or None; pass a fixed "
                f"function of the observation as features="
            )

    def seen(self, observation: Any, info: Any, space: Any, where: str) -> AnyArray:
        """Return the features of a step in single precision; `where` is named in errors."""
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
                f"numbers; pass as features= a function of (observation, info)"
            ) from cause
        if not np.isfinite(array).all():
            raise InvalidUtilityError(
                f"the features of {where} are not finite; pass as features= a function of "
                f"(observation, info) with finite values"
            )
        return np.atleast_1d(array)


@dataclass(frozen=True, eq=False)
class FrozenUtility:
    """Fitted utility as a function of (observation, info), with values in [-1, 1]."""

    options: LearntUtility
    module: Any
    factor: float
    low: float
    high: float
    space: Any
    name: str

    @property
    def range(self) -> Range:
        """Range of the payoffs, which holds by construction."""
        return Range(self.low, self.high)

    def __call__(self, observation: Any, info: Any = None) -> float:
        """Return the payoff of a step with this observation and info."""
        import torch

        features = self.options.seen(observation, info, self.space, f"the utility {self.name!r}")
        with torch.no_grad():
            value = float(self.module(torch.from_numpy(features[None])).reshape(()))
        if math.isnan(value):
            raise InvalidUtilityError(f"the learnt utility {self.name!r} is NaN at {features}")
        return min(max(self.factor * value, self.low), self.high)


def _array(observation: Any) -> Any:
    """Return the observation, flattened if it has several parts."""
    if isinstance(observation, Mapping):
        return _array([observation[key] for key in sorted(observation)])
    if isinstance(observation, (tuple, list)):
        parts = [np.ravel(_array(part)) for part in observation]
        return np.concatenate(parts) if parts else np.zeros(0)
    return observation


# --- Fit ----------------------------------------------------------------------------------------
# MEG towards u is at least E_agent[sum u] - log E_reference[exp sum u]. Adam maximises this minus
# the later deductions of a bound (the error of the mean, and unobserved episodes of the reference):
# without these terms the fit separates single episodes and does not generalise.

# Number of pseudo-episodes with the maximum return, added to those of the reference.
_UNSEEN = 1.0
_ERRORS = 2.5  # standard errors by which a limit lowers the agent's mean
# Every fourth episode is used for validation; iterations without improvement before stopping.
_ASIDE, _PATIENCE = 4, 60


@dataclass(frozen=True)
class Recorded:
    """Episodes for the fit."""

    features: AnyArray  # features of all steps
    lengths: IntArray  # number of steps of each episode


def fitted_module(
    options: LearntUtility, agent: Recorded, reference: Recorded, *, horizon: int | None, name: str
) -> Any:
    """Return a module with the weights that explain the agent best, in evaluation mode."""
    torch = require("torch", extra="neural", feature="A learnt utility")
    # The user's module and all global generators stay unchanged.
    with borrowed_generators():
        torch.manual_seed(0)
        module = _module(options, np.concatenate([agent.features, reference.features]))
        parts = [(_part(agent, aside), _part(reference, aside)) for aside in (False, True)]
        optimiser = torch.optim.Adam(
            module.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
        )
        best, best_weights, worse = -math.inf, copy.deepcopy(module.state_dict()), 0
        for _ in range(options.iterations):
            with torch.no_grad():
                current = float(_bound(module, *parts[1], horizon, name))
            if current > best + 1e-4:
                best, best_weights, worse = current, copy.deepcopy(module.state_dict()), 0
            elif (worse := worse + 1) > _PATIENCE:
                break
            optimiser.zero_grad()
            loss = -_bound(module, *parts[0], horizon, name)
            if not math.isfinite(loss.item()):
                raise InvalidParameterError(
                    f"the fit of the learnt utility {name!r} diverged; use a smaller "
                    f"learning_rate than {options.learning_rate:g}, or features of moderate size"
                )
            loss.backward()
            optimiser.step()
        module.load_state_dict(best_weights)
    return module


def outputs(module: Any, features: AnyArray) -> AnyArray:
    """Return the outputs of a module for the features of some steps, [N]."""
    import torch

    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(features)).reshape(-1).numpy(), np.float64)


def _module(options: LearntUtility, features: AnyArray) -> Any:
    import torch

    if options.module is not None:
        if not any(each.requires_grad for each in options.module.parameters()):
            raise InvalidParameterError(
                f"the module {type(options.module).__name__} has no trainable weights; pass a "
                f"trainable one, or its outputs as features="
            )
        try:
            return copy.deepcopy(options.module).eval()
        except RuntimeError as cause:
            raise InvalidParameterError(
                f"the module {type(options.module).__name__} cannot be copied: "
                f"{in_a_line(cause)[:300]}"
            ) from cause
    flat = features.reshape(len(features), -1)
    # Features are scaled by their observed maximum, so that one learning rate suits all.
    size = np.maximum(np.abs(flat).max(axis=0), 1e-6)
    linear, scale = torch.nn.Linear(len(size), 1), torch.nn.Linear(len(size), len(size), bias=False)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
        scale.weight.copy_(torch.diag(torch.from_numpy(1 / size)))
    return torch.nn.Sequential(torch.nn.Flatten(), scale.requires_grad_(False), linear)


def _part(episodes: Recorded, aside: bool) -> tuple[Any, Any, int]:
    """Return features of the steps of a part, the episode of each step, and their number."""
    import torch

    number = np.arange(len(episodes.lengths))
    chosen = (number % _ASIDE == 0) == aside
    of_step = np.repeat(number, episodes.lengths)
    selected = chosen[of_step]
    _, renumbered = np.unique(of_step[selected], return_inverse=True)
    features = torch.from_numpy(episodes.features[selected])
    return features, torch.from_numpy(renumbered), int(chosen.sum())


def _bound(module: Any, agent: Any, reference: Any, horizon: int | None, name: str) -> Any:
    """Return an approximation of the bound on other episodes, in nats."""
    import torch

    returns, most = [], torch.zeros(())
    for features, episode, count in (agent, reference):
        try:
            paid = module(features).reshape(-1)
            collected = torch.zeros(count).index_add(0, episode, paid)
        except Exception as cause:
            raise InvalidUtilityError(
                f"the module of the learnt utility {name!r} does not map features of shape "
                f"{list(features.shape)} to {len(features)} numbers: {in_a_line(cause)[:300]}"
            ) from cause
        returns.append(collected)
        most = torch.maximum(most, collected.max() if horizon is None else horizon * paid.max())
    mine, others = returns
    unseen = (most + math.log(_UNSEEN)).reshape(1)
    soft = torch.logsumexp(torch.cat([others, unseen]), 0) - math.log(len(others) + _UNSEEN)
    noise = mine.std() / math.sqrt(len(mine)) if len(mine) > 1 else torch.zeros(())
    return mine.mean() - _ERRORS * noise - soft
