"""A measurement in a simulator as it is kept: every utility's result, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from typing import Any, NamedTuple
from uuid import uuid4

from goalmeter._errors import InvalidFileError
from goalmeter._text import shown
from goalmeter.meg.result import json_number
from goalmeter.meg.simulator.measure import COMBINATION
from goalmeter.meg.simulator.result import SimulatorProgress, SimulatorResult
from goalmeter.statistics.verdicts import Verdict, verdict

# The kind of runs that hold one, and the key of their only trial.
KIND, KEY = "simulator", "measurement"


class Difference(NamedTuple):
    """How much more MEG is towards one utility than towards another.

    Attributes:
        towards: name of the one.
        than: name of the other.
        value: difference of the estimates, nats.
        interval: of the difference, at the level of the measurement, nats.
    """

    towards: str
    than: str
    value: float
    interval: tuple[float, float]

    @property
    def verdict(self) -> Verdict:
        """Whether the one is above the other, as far as the interval tells."""
        return verdict(self.interval, 0.0)

    def to_json(self) -> dict[str, Any]:
        """The fields and the verdict as JSON values."""
        ends = [json_number(end) for end in self.interval]
        return self._asdict() | {"interval": ends, "verdict": str(self.verdict)}


@dataclass(frozen=True)
class Measurement:
    """All that one call of `from_simulator` gave.

    Attributes:
        agent: who was measured, as on the command line.
        horizon: decisions that were measured.
        budget: steps that were allowed.
        seed: of everything that was drawn.
        results: by utility.
        tightening: what was told on the way, in order.
    """

    agent: str
    horizon: int
    budget: int
    seed: int
    results: Mapping[str, SimulatorResult]
    tightening: Sequence[SimulatorProgress] = ()

    @property
    def first(self) -> SimulatorResult:
        """The result towards the utility that was named first."""
        return next(iter(self.results.values()))

    @property
    def differences(self) -> list[Difference]:
        """Every two utilities, in order; the best combination, which is above all, left out."""
        plain = [result for name, result in self.results.items() if name != COMBINATION]
        return [
            Difference(one.utility, other.utility, *one.less(other))
            for one, other in combinations(plain, 2)
        ]

    def to_json(self) -> dict[str, Any]:
        """The first result as JSON values, with all of them and their differences beside."""
        return self.first.to_json() | {
            "agent": self.agent,
            "horizon": self.horizon,
            "budget": self.budget,
            "seed": self.seed,
            "utilities": [result.to_json() for result in self.results.values()],
            "differences": [difference.to_json() for difference in self.differences],
            "tightening": [asdict(progress) for progress in self.tightening],
        }

    @classmethod
    def from_json(cls, values: Any, where: str) -> Measurement:
        """What `to_json` made; `where` names the file in errors."""
        try:
            # Results of one file are of one call, and of no other file's.
            measurement = uuid4().hex
            results = [_result(each, measurement) for each in values["utilities"]]
            return cls(
                agent=_text(values["agent"]),
                horizon=int(values["horizon"]),
                budget=int(values["budget"]),
                seed=int(values["seed"]),
                results={result.utility: result for result in results},
                tightening=[_progress(each) for each in values["tightening"]],
            )._checked()
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as cause:
            raise InvalidFileError(
                f"{where} holds no measurement in a simulator "
                f"({type(cause).__name__}: {cause}); measure again into another folder"
            ) from cause

    def _checked(self) -> Measurement:
        # A file that somebody changed is refused here and not while a page is made of it.
        if not self.results:
            raise ValueError("it has no result")
        self.to_json()
        return self


def _result(values: Mapping[str, Any], measurement: str) -> SimulatorResult:
    low, high = map(_number, values["interval"])
    weights = values["weights"]
    return SimulatorResult(
        value=_number(values["meg"]),
        interval=(low, high),
        level=_number(values["level"]),
        maximum=None if values["maximum"] is None else _number(values["maximum"]),
        rationality=_number(values["rationality"]),
        steps={str(name): int(count) for name, count in values["steps"].items()},
        binding={end: str(values["binding"][end]) for end in ("lower", "upper")},
        episodes=int(values["episodes"]),
        notes=tuple(map(str, values["notes"])),
        weights=None if weights is None else {str(k): _number(w) for k, w in weights.items()},
        utility=_text(values["utility"]),
        world=_text(values["world"]),
        method=_text(values["method"]),
        stopped=_text(values["stopped"]),
        reference=_text(values["reference"]),
        exceeds={str(name): _number(more) for name, more in values["exceeds"].items()},
        measurement=measurement,
        fitted_episodes=int(values["fitted_episodes"]),
        rests_on_assumption=bool(values["rests_on_assumption"]),
        estimated=bool(values["estimated"]),
        chance=_text(values["chance"]),
    )


def _progress(values: Mapping[str, Any]) -> SimulatorProgress:
    names = [each.name for each in fields(SimulatorProgress)]
    utility, steps, value, lower = (values[name] for name in names)
    return SimulatorProgress(_text(utility), int(steps), _number(value), _number(lower))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is no text")
    return value


def _number(value: Any) -> float:
    """A number, or an infinity as JSON spells it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"{shown(value)} is no number")
    return float(value)
