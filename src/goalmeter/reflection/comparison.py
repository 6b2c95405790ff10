"""Two agents on the same trials: the difference, paired by environment and seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.reflection.environments.registry import opposite as opposite_name
from goalmeter.reflection.result import (
    Reflection,
    interval_json,
    interval_of,
    json_number,
    spread_in_words,
)
from goalmeter.report.notebook import data_frame, html_table
from goalmeter.report.numbers import between, number, percent, plus


@dataclass(frozen=True)
class Comparison:
    """Two agents on the same environments and seeds.

    Attributes:
        agents: their names.
        difference: the second's measure less the first's, reward per step.
        stderr: of the difference, over seeds, paired.
        interval: t interval of the difference over seeds; NaN for fewer than 5.
        by_environment: (name, opposite) -> difference in average reward per step.
        confidence: nominal coverage of `interval`.
    """

    agents: tuple[str, str]
    difference: float
    stderr: float
    interval: tuple[float, float]
    by_environment: dict[tuple[str, bool], float]
    confidence: float = 0.95

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "agents": list(self.agents),
            "difference": self.difference,
            "stderr": json_number(self.stderr),
            "interval": interval_json(self.interval),
            "confidence": self.confidence,
            "environments": [
                {"name": name, "opposite": opposite, "difference": difference}
                for (name, opposite), difference in self.by_environment.items()
            ],
        }

    def to_pandas(self) -> Any:
        """One row an environment and one its opposite, with the difference in reward per step.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return data_frame(
            [
                {"environment": name, "opposite": opposite, "difference": difference}
                for (name, opposite), difference in self.by_environment.items()
            ]
        )

    def summary(self) -> list[tuple[str, str]]:
        """The difference and what defends it, as names and texts: for tables and notebooks."""
        return [
            (
                f"less {self.agents[0]}, paired",
                f"{plus(self.difference, 6)} ± {number(self.stderr, 6)}",
            ),
            (f"its {percent(self.confidence, 0)} interval", between(self.interval, 6, sign=True)),
        ]

    def _repr_html_(self) -> str:
        """The summary as a notebook shows it; `to_pandas` has the environments."""
        return html_table(f"Self-reflection of {self.agents[1]}", ("", ""), self.summary())

    def __str__(self) -> str:
        first, second = self.agents
        up = sum(difference > 0 for difference in self.by_environment.values())
        down = sum(difference < 0 for difference in self.by_environment.values())
        lines = [
            f"{second} less {first}: {plus(self.difference, 6)} "
            + spread_in_words(self.stderr, self.interval, self.confidence),
            f"  of {len(self.by_environment)} environments, opposites counted, it gains in {up} "
            f"and loses in {down}",
        ]
        largest = sorted(self.by_environment.items(), key=lambda item: -abs(item[1]))[:3]
        if moved := [(key, value) for key, value in largest if value]:
            names = [
                f"{opposite_name(name) if is_opposite else name} {plus(value, 3)}"
                for (name, is_opposite), value in moved
            ]
            lines.append(f"  most in {', '.join(names)}")
        return "\n".join(lines)


def compare(first: Reflection, second: Reflection) -> Comparison:
    """The difference between two agents, paired by environment and seed.

    Its interval has the coverage of the first's.

    Raises:
        InvalidParameterError: they were not measured on the same trials.
    """
    plan, other_plan = (
        [(t.environment, t.opposite, t.seed, t.steps) for t in result.trials]
        for result in (first, second)
    )
    if plan != other_plan or first.readings != second.readings:
        raise InvalidParameterError(
            f"{first.agent} and {second.agent} were measured on different trials, expected the "
            f"same environments, seeds, steps and readings for a paired comparison"
        )
    # Paired: both met the same rooms, so what differs between seeds drops out of the difference.
    difference = second.by_seed - first.by_seed
    n = len(difference)
    before, after = first.by_environment(), second.by_environment()
    return Comparison(
        agents=(first.agent, second.agent),
        difference=float(difference.mean()),
        stderr=float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"),
        interval=interval_of(difference, first.confidence, most=2.0),
        by_environment={key: after[key] - before[key] for key in before},
        confidence=first.confidence,
    )
