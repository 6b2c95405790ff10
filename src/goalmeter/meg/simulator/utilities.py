"""Utilities of a step: the environment's reward, functions of a step, and learnt utilities.

Learnt utilities are fitted to episodes by the dual of maximum causal entropy and are then fixed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError, finite, require, whole
from goalmeter._types import AnyArray
from goalmeter.agents.stable_baselines import borrowed_generators
from goalmeter.meg.simulator.agents import SimulatorAgent, count_of, first_of

if TYPE_CHECKING:
    from goalmeter.meg.simulator.environments import GymnasiumSimulator

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
# Tolerance of bounds for rounding: of one decision, and of sums.
_SLACK, _ROUNDING = 1e-9, 1e-6


@dataclass(frozen=True)
class Range:
    """Range of a utility's payoffs: of one decision, and of all from a state on."""

    low: float
    high: float
    least: float = -math.inf
    most: float = math.inf
    assumed: bool = False

    def scaled(self, factor: float) -> Range:
        """Return the range of a multiple."""
        ends = (self.low * factor, self.high * factor)
        sums = (self.least * factor, self.most * factor)
        return Range(min(ends), max(ends), min(sums), max(sums), self.assumed)

    def in_words(self) -> str:
        """Return the assumption as a note."""
        span = "" if math.isinf(self.most) else " in an episode"
        return (
            f"no bounds were given: the interval assumes that the utility stays in its observed "
            f"range, {self.low:.6g} to {self.high:.6g}{span}; give bounds= to assume less"
        )

    def of_episode(self, horizon: int) -> tuple[float, float]:
        """Return the minimum and maximum return of an episode of up to `horizon` decisions."""
        low = max(min(self.low, 0.0) * horizon, self.least)
        return low, min(max(self.high, 0.0) * horizon, self.most)


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


def named_utilities(
    utility: Utility | Mapping[str, Utility], bounds: object = None
) -> NamedUtilities:
    """Validate and name the requested utilities."""
    if isinstance(utility, Mapping):
        several = dict(utility)
    else:
        name = utility if isinstance(utility, str) else getattr(utility, "__name__", "utility")
        several = {"utility" if name == "<lambda>" else str(name): utility}
    if not several:
        raise InvalidParameterError(NO_UTILITY)
    functions: dict[str, UtilityFunction | None] = {}
    for name, given in several.items():
        is_reward = isinstance(given, str) and given == REWARD
        if not (isinstance(name, str) and (is_reward or callable(given))):
            raise InvalidParameterError(
                f"the utility {name!r} is {given!r}, expected 'reward' or a function of "
                f"(observation, info) that returns a number"
            )
        functions[name] = given if callable(given) else None
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


def _range(name: str, value: object) -> Range:
    ends = tuple(value) if isinstance(value, (tuple, list)) else ()
    numbers = [finite(end, f"bounds of {name!r}", least=-_LARGEST, most=_LARGEST) for end in ends]
    low, high, least, most = [*numbers, -math.inf, math.inf, 0.0, 0.0][:4]
    if len(numbers) not in (2, 4) or low > high or not least <= 0 <= most:
        raise InvalidParameterError(
            f"bounds of {name!r} are {value!r}, expected (low, high) of one decision with low <= "
            f"high, or (low, high, least, most) with the bounds of the total from any state on, "
            f"least <= 0 <= most"
        )
    return Range(low, high, least, most)


class Payments:
    """Payoffs of U utilities and their observed ranges."""

    def __init__(self, utilities: NamedUtilities) -> None:
        self._functions, names = utilities.functions, utilities.names
        plain = Range(-_LARGEST, _LARGEST)
        self._ranges = {name: utilities.bounds.get(name, plain) for name in names}
        self._observed = [(math.inf, -math.inf)] * len(names)

    def pay(self, reward: Any, observation: Any, info: Any) -> tuple[float, ...]:
        """Return the payoff of one step for each utility, [U]."""
        paid = []
        for i, (name, function) in enumerate(self._functions.items()):
            number = float(reward if function is None else function(observation, info))
            low, high = self._ranges[name].low - _SLACK, self._ranges[name].high + _SLACK
            # False for NaN.
            if not low <= number <= high:
                raise InvalidUtilityError(
                    f"the utility {name!r} is {number:g} in a step, expected a finite number from "
                    f"{low:g} to {high:g}; fix it, or widen bounds="
                )
            least, most = self._observed[i]
            self._observed[i] = min(least, number), max(most, number)
            paid.append(number)
        return tuple(paid)

    def extremes(self, which: int) -> tuple[float, float]:
        """Return the smallest and largest payoff so far of a utility, by number."""
        return self._observed[which]

    def check_total(self, total: list[float]) -> None:
        """Require that the totals of an episode, [U], are within their bounds."""
        for (name, known), paid in zip(self._ranges.items(), total, strict=True):
            low, high = known.least - _ROUNDING, known.most + _ROUNDING
            if not low <= paid <= high:
                raise InvalidUtilityError(
                    f"the utility {name!r} has the total {paid:g} in an episode, outside {low:g} "
                    f"to {high:g} of bounds=; widen bounds="
                )


# --- Learnt utilities ---------------------------------------------------------------------------
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
    features: Callable[[Any, Any], Any] | None = None
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

    def seen(self, observation: Any, info: Any, space: Any) -> AnyArray:
        """Return the features of a step in single precision."""
        if self.features is not None:
            observation = self.features(observation, info)
        elif (count := count_of(space)) is not None and count <= _ONE_HOT:
            place = int(observation) - first_of(space)
            return np.asarray(np.eye(1, count, place, dtype=np.float32)[0])
        array = np.array(_flat(observation), dtype=np.float32)
        if not np.isfinite(array).all():
            raise InvalidUtilityError(
                "the features of a learnt utility are not finite; pass as features= a function of "
                "(observation, info) with finite values"
            )
        return np.atleast_1d(array)


@dataclass(frozen=True, eq=False)
class FrozenUtility:
    """Fitted utility as a function of (observation, info), with values in [-1, 1]."""

    options: LearntUtility
    module: Any
    factor: float
    range: Range  # range of the payoffs, which holds by construction
    space: Any

    def __call__(self, observation: Any, info: Any = None) -> float:
        """Return the payoff of a step with this observation and info."""
        features = self.options.seen(observation, info, self.space)
        value = self.factor * float(_outputs(self.module, features[None])[0])
        # NaN stays, and is refused like that of any utility.
        return max(min(value, self.range.high), self.range.low) if value == value else value


def _flat(observation: Any) -> Any:
    """Return the observation, flattened if it has several parts."""
    if isinstance(observation, Mapping):
        observation = [observation[key] for key in sorted(observation)]
    if isinstance(observation, (tuple, list)):
        return np.concatenate([np.zeros(0), *(np.ravel(_flat(part)) for part in observation)])
    return observation


# --- Fit ----------------------------------------------------------------------------------------
# MEG towards u is at least E_agent[sum u] - log E_reference[exp sum u]. Adam maximises this minus
# the later deductions of a bound (the error of the mean, and unobserved episodes of the reference):
# without these terms the fit separates single episodes and does not generalise.

# Share of the budget if a utility has no number of steps; maximum steps; minimum episodes.
_SHARE, _MOST, _LEAST_EPISODES = 0.3, 20_000, 8
# First episode numbers of the agent and of the reference, disjoint from those used for bounds.
_AGENT, _REFERENCE = 2**41, 2**42
_ERRORS = 2.5  # standard errors by which a limit lowers the agent's mean
# Every fourth episode is used for validation; iterations without improvement before stopping.
_ASIDE, _PATIENCE = 4, 60


class UtilityFits(NamedTuple):
    """Utilities fitted before the measurement, by name."""

    frozen: Mapping[str, FrozenUtility]
    episodes: tuple[int, int]  # number of episodes of the agent and of the reference
    steps: int


def learnt_of(utility: Any, bounds: Any) -> dict[str, LearntUtility]:
    """Return the utilities to be learnt, by name."""
    several = utility if isinstance(utility, Mapping) else {"learnt": utility}
    learnt = {name: each for name, each in several.items() if isinstance(each, LearntUtility)}
    given = bounds if isinstance(bounds, Mapping) else dict.fromkeys(several, bounds)
    if bounded := [name for name in learnt if given.get(name) is not None]:
        raise InvalidParameterError(
            f"bounds are given for {bounded[0]!r}, which is learnt and has its own bounds; give "
            f"bounds= by name for the other utilities only"
        )
    return learnt


def fits_of(
    learnt: Mapping[str, LearntUtility],
    space: Any,
    simulator_of: Callable[[NamedUtilities], GymnasiumSimulator],
    actor: SimulatorAgent,
    horizon: int,
    budget: int,
) -> UtilityFits:
    """Fit utilities to episodes of the agent and of its reference; `space` of observations."""
    torch = require("torch", extra="neural", feature="A learnt utility")
    requested = [each.steps for each in learnt.values() if each.steps is not None]
    limit = max(requested, default=min(int(_SHARE * budget), _MOST))
    if limit > budget / 2:
        raise InvalidParameterError(
            f"steps of a learnt utility are {limit:,}, expected at most half of the budget, "
            f"{budget // 2:,}; the other half is needed for the bounds"
        )
    rows: dict[str, list[AnyArray]] = {name: [] for name in learnt}

    def record(observation: Any, info: Any) -> float:
        for name, each in learnt.items():
            rows[name].append(each.seen(observation, info, space))
        return 0.0

    simulator = simulator_of(NamedUtilities({"learnt": record}, {}))
    lengths: list[list[int]] = []
    for player, first in ((actor, _AGENT), (simulator.free_choice(), _REFERENCE)):
        decided: list[int] = []
        while sum(decided) < limit / 2 or len(decided) < _LEAST_EPISODES:
            decided += simulator.play(player, horizon, first + len(decided)).decisions.tolist()
        lengths.append(decided)
    # Without a return to states the bound adds up the largest payoffs of all decisions.
    known = None if simulator.returns_to_states else horizon
    frozen = {}
    for name, each in learnt.items():
        features = np.stack(rows[name])
        # The user's module and all global generators stay unchanged.
        with borrowed_generators():
            torch.manual_seed(0)
            module = _module(each, features)
            if not _fit(each, module, features, lengths, known):
                raise InvalidParameterError(
                    f"the fit of the learnt utility {name!r} diverged; use a smaller learning_rate "
                    f"than {each.learning_rate:g}, or features of moderate size"
                )
        values = _outputs(module, features)
        factor = 1.0 / max(float(np.abs(values).max()), 1e-12)
        limits = Range(float(values.min()), float(values.max())).scaled(factor)
        frozen[name] = FrozenUtility(each, module, factor, limits, space)
    return UtilityFits(frozen, (len(lengths[0]), len(lengths[1])), sum(map(sum, lengths)))


def _outputs(module: Any, features: AnyArray) -> AnyArray:
    """Return the outputs of a module for the features of some steps, [N]."""
    import torch

    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(features)).reshape(-1).numpy(), np.float64)


def _module(options: LearntUtility, features: AnyArray) -> Any:
    """Return the module to be fitted: a copy of the given one, or a linear function."""
    import torch

    if options.module is not None:
        if not any(each.requires_grad for each in options.module.parameters()):
            raise InvalidParameterError(
                f"the module {type(options.module).__name__} has no trainable weights; pass a "
                f"trainable one, or its outputs as features="
            )
        return copy.deepcopy(options.module).eval()
    # Features are scaled by their observed maximum, so that one learning rate suits all.
    size = np.maximum(np.abs(features.reshape(len(features), -1)).max(axis=0), 1e-6)
    linear, scale = torch.nn.Linear(len(size), 1), torch.nn.Linear(len(size), len(size), bias=False)
    scale.weight.data = torch.diag(torch.from_numpy(1 / size))
    for parameter in linear.parameters():
        torch.nn.init.zeros_(parameter)
    return torch.nn.Sequential(torch.nn.Flatten(), scale.requires_grad_(False), linear)


def _fit(
    options: LearntUtility,
    module: Any,
    features: AnyArray,
    lengths: list[list[int]],
    horizon: int | None,
) -> bool:
    """Fit a module to episodes of the agent and of the reference; return whether it converged.

    `features` has all their steps in order, and `lengths` the numbers of steps of the episodes.
    """
    import torch

    aside = torch.tensor([i % _ASIDE == 0 for part in lengths for i in range(len(part))])
    of_agent = torch.arange(len(aside)) < len(lengths[0])
    episode = torch.from_numpy(np.repeat(np.arange(len(aside)), lengths[0] + lengths[1]))
    steps = torch.from_numpy(features)

    def bound(paid: Any, collected: Any, chosen: Any) -> Any:
        """Approximate the bound on other episodes, in nats, from those chosen."""
        mine, others = collected[chosen & of_agent], collected[chosen & ~of_agent]
        # One pseudo-episode of the reference with the maximum return.
        most = collected[chosen].max()
        if horizon is not None:
            most = horizon * paid[chosen[episode]].max()
        others = torch.cat([others, most.clamp(min=0.0).reshape(1)])
        soft = torch.logsumexp(others, 0) - math.log(len(others))
        noise = mine.std() / math.sqrt(len(mine)) if len(mine) > 1 else torch.zeros(())
        return mine.mean() - _ERRORS * noise - soft

    optimiser = torch.optim.Adam(
        module.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
    )
    best, best_weights, worse = -math.inf, copy.deepcopy(module.state_dict()), 0
    for _ in range(options.iterations):
        paid = module(steps).reshape(-1)
        collected = torch.zeros(len(aside)).index_add(0, episode, paid)
        loss, current = -bound(paid, collected, ~aside), bound(paid, collected, aside).item()
        if not math.isfinite(loss.item()):
            return False
        if current > best + 1e-4:
            best, best_weights, worse = current, copy.deepcopy(module.state_dict()), 0
        elif (worse := worse + 1) > _PATIENCE:
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    module.load_state_dict(best_weights)
    return True
