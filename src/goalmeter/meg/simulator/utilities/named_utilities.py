"""What a simulator's steps are worth: its own reward, or functions of what a step shows.

Each utility is collected once a decision, from what `step` returned for it: the reward, or a
function of the observation and the information that followed the action. Guarantees need to know
what a utility cannot exceed; where nobody says it, what was seen stands in, and the result says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._arguments import finite
from goalmeter._errors import GoalmeterError, InvalidParameterError, InvalidUtilityError
from goalmeter._text import in_a_line

REWARD = "reward"
NO_UTILITY = "utility is an empty dictionary, expected at least one utility"
UtilityFunction = Callable[[Any, Mapping[str, Any]], float]
# What `from_simulator` takes for one utility and for several.
Utility = str | UtilityFunction
_LARGEST = 1e12
# What rounding may add to a bound.
_SLACK = 1e-9


@dataclass(frozen=True)
class Range:
    """What a utility may pay.

    Attributes:
        low: least of a decision.
        high: most of a decision.
        least: least of all decisions that may still follow, whatever their number; -inf for none.
        most: the most of them; inf for no bound but `high` for each.
        assumed: whether it is what was seen, and nobody vouches for it.
    """

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
    """Utilities by name, in an order, with what is known of their ranges.

    Attributes:
        functions: by name; None is the environment's own reward.
        bounds: ranges that the caller vouches for, by name.
        learnt: names of those that stand for the best of a class, of which an upper end is asked.
    """

    functions: Mapping[str, UtilityFunction | None]
    bounds: Mapping[str, Range]
    learnt: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the utilities, in order."""
        return tuple(self.functions)

    def paid(
        self, reward: float, observation: Any, info: Mapping[str, Any], where: Callable[[], str]
    ) -> tuple[float, ...]:
        """What a step pays of each."""
        out = []
        for name, function in self.functions.items():
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
            told = self.bounds.get(name)
            if told is not None and not told.low - _SLACK <= number <= told.high + _SLACK:
                raise InvalidUtilityError(
                    f"the utility {name!r} is {number:g} {where()}, outside of the bounds "
                    f"({told.low:g}, {told.high:g}) that were given; give wider bounds="
                )
            out.append(number)
        return tuple(out)


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
    """The utilities that a caller asks for.

    Args:
        utility: "reward", a function of (observation, info), or several by name.
        bounds: (low, high) of what one decision may pay, (low, high, least, most) with the least
            and most that all decisions from any state on may pay together, or such bounds by name.
    """
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
