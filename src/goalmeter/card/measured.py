"""What one measure contributes to a card, and the settings with which measures are run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.card.records import CardRow, Disagreement, Gauge
from goalmeter.card.subject import Subject
from goalmeter.report import Figure, Section
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast
from goalmeter.runs.progress import Tell

QUICK, STANDARD, FULL = SCALES = ("quick", "standard", "full")
# Slots of the gauges on the first screen.
GOAL, STRENGTH, BELIEF, REFLECTION = SLOTS = ("goal", "strength", "belief", "reflection")
QUESTIONS = {
    GOAL: "Which goal?",
    STRENGTH: "How strongly?",
    BELIEF: "Does it act on the true map?",
    REFLECTION: "Self-reflection",
}


@dataclass(frozen=True, kw_only=True)
class CardSettings:
    """CardSettings of a card; those of `goalmeter.measure`."""

    # `TabularMDP`, path of an MDP.npz, Gymnasium environment or its id; None for the grid worlds
    # and extended environments of goalmeter.
    world: Any = None
    scale: str = STANDARD  # "quick", "standard" or "full"
    without: Collection[str] = ()  # names of measures that are left out
    claim: str | Path | None = None  # path of a claim, which is hashed before the first trial
    seed: int = 0  # random seed
    on: str = HERE  # execution backend, such as "processes:2"
    # Directory of the card; an existing one is resumed. By default a temporary directory.
    out: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="goalmeter-card-")))
    progress: Tell | None = None  # callback for messages

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise InvalidParameterError(
                f"scale is {self.scale!r}, expected one of {', '.join(SCALES)}"
            )
        object.__setattr__(self, "out", Path(self.out))

    def tell(self, message: str) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(message)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one measure contributes to a card."""

    rows: Sequence[CardRow] = ()
    gauges: Mapping[str, Gauge] = field(default_factory=dict)  # by slot
    verdict: str = ""  # what the agent pursues, in words; "" if this measure does not tell
    certainty: str = ""  # how sure that is, in one sentence
    facts: Mapping[str, Any] = field(default_factory=dict)  # for the verdict of all measures
    disagreements: Sequence[Disagreement] = ()
    figure: Figure | None = None
    sections: Sequence[Section] = ()
    # Numerator and denominator of rows by world, for paired comparisons: row id -> world -> both.
    items: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    trials: int = 0
    citations: Sequence[str] = ()
    elicitation: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Measure:
    """A measure of a card."""

    name: str
    # Why the measure does not apply to a subject at these settings; "" if it does.
    reason: Callable[[Subject, CardSettings], str]
    forecast: Callable[[Subject, CardSettings], Forecast]
    run: Callable[[Subject, CardSettings], Measured]
