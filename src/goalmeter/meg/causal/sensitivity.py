"""Sensitivity of goal-directedness to the choice of targets.

Two facts of the graph save work and make the table readable: if the decisions are d-separated from
T given S, then MEG_T <= MEG_S (Theorem 4.1); if S is a part of T, then MEG_S <= MEG_T.

Source: MEG paper (NeurIPS 2024), Definition 4.4, Theorem 4.1, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, whole
from goalmeter._files import JsonFields
from goalmeter._names import listed
from goalmeter.causal.contexts import neutral_network
from goalmeter.meg.causal.result import DecisionQuery, Do, Goal, Model, Names, ask
from goalmeter.meg.causal.utilities import measure
from goalmeter.meg.linear import TOLERANCE
from goalmeter.meg.result import json_number
from goalmeter.report.numbers import general, nats, nats_of_search, number, percent, rationality
from goalmeter.report.tables import data_frame, html_table

MAX_SETS = 20_000  # more sets take too long to be what was meant
_SETS_IN_A_CELL = 2  # sets that are written out in a cell
# Fields of a row that are those of its result.
_MEASURED = (
    *("targets", "value", "upper_bound", "maximum", "fraction", "rationality", "goal", "recall"),
)


def set_text(names: Sequence[str]) -> str:
    """Return a set of variables as it is written: {S, M}."""
    return f"{{{', '.join(names)}}}"


@dataclass(frozen=True)
class SensitivityRow(JsonFields):
    """MEG towards one set of targets."""

    targets: Names  # the set, in the model's order
    value: float  # nats
    upper_bound: float  # proven, nats
    maximum: float  # what a fully predictable agent would score, nats
    fraction: float  # value / maximum
    rationality: float  # of the best utility
    goal: Goal | None  # the best utility
    recall: str  # "single", "sufficient" or "insufficient" (a search)
    # Smallest sets S of the table that separate the decisions from these targets: MEG towards them
    # is at least as high (Theorem 4.1, pseudo-terminal goals).
    at_most: tuple[Names, ...] = ()
    # The part of the targets that separates the decisions from the rest, so that both have the same
    # MEG; None where the value was worked out for this set itself.
    equal_to: Names | None = None
    note: str = ""  # what a reader of the number needs

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        values = super().to_json() | {"rationality": json_number(self.rationality)}
        return {"meg" if name == "value" else name: value for name, value in values.items()}

    def theorem_text(self) -> str:
        """Return what Theorem 4.1 says about the set: "= {A}", "≤ {A}", "" for nothing."""
        if self.equal_to is not None:
            return f"= {set_text(self.equal_to)}"
        shown = ", ".join(map(set_text, self.at_most[:_SETS_IN_A_CELL]))
        more = len(self.at_most) - _SETS_IN_A_CELL
        return f"≤ {shown}{f' and {more} more' if more > 0 else ''}" if shown else ""


@dataclass(frozen=True)
class Sensitivity(JsonFields):
    """MEG of the same decisions towards every candidate set, the highest first."""

    decisions: Names
    do: dict[str, object]  # the intervention under which the policy was measured
    rows: tuple[SensitivityRow, ...]

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame, one row a set of targets; sets are texts."""
        records = []
        for row in self.rows:
            texts = {
                "targets": ", ".join(row.targets),
                "rationality": row.rationality,
                "at_most": ", ".join(map(set_text, row.at_most)),
                "equal_to": "" if row.equal_to is None else set_text(row.equal_to),
            }
            records.append({key: v for key, v in (row.to_json() | texts).items() if key != "goal"})
        return data_frame(records)

    def _repr_html_(self) -> str:
        heads = ("MEG, nats", "upper bound", "share of maximum", "rationality β", "Theorem 4.1")
        return html_table(
            f"MEG of {listed(self.decisions)} towards sets of targets",
            ("targets", *heads),
            [
                (
                    *(", ".join(row.targets), nats_of_search(row.value), nats(row.upper_bound)),
                    *(percent(row.fraction), rationality(row.rationality), row.theorem_text()),
                )
                for row in self.rows
            ],
        )

    def __str__(self) -> str:
        lines = [f"MEG of {listed(self.decisions)} towards ..."]
        width = max((len(listed(row.targets)) for row in self.rows), default=0)
        for row in self.rows:
            marks = [f"≤ {{{listed(names)}}}" for names in row.at_most]
            marks += [] if row.equal_to is None else [f"= {{{listed(row.equal_to)}}}"]
            mark = f"  {' '.join(marks)}" if marks else ""
            lines.append(
                f"  {listed(row.targets):<{width}}  {number(row.value, 6)} nats, "
                f"{percent(row.fraction)} of {general(row.maximum)}{mark}"
            )
        return "\n".join(lines)


def sensitivity(
    model: Model,
    decisions: Sequence[str] | None = None,
    *,
    up_to: int = 2,
    among: Sequence[str] | None = None,
    do: Do | None = None,
    tolerance: float = TOLERANCE,
    restarts: int = 8,
    rng: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sensitivity:
    """MEG of the decisions towards every set of up to `up_to` targets that they can influence.

    A set counts if the decisions influence some variable in it; the others may be what the
    decisions see, such as an instruction. Candidates are `among`, by default every variable that is
    not a decision; progress(sets done, sets in all) is called before each set. Other arguments are
    those of `goalmeter.meg.targets`.

    Source: MEG paper (NeurIPS 2024), section 7 ("Choice of variables"), Theorem 4.1.
    """
    query = ask(model, decisions, do)
    network = query.network
    up_to = whole(up_to, "up_to, the size of the largest sets,", least=1, most=MAX_SETS)
    if among is None:
        among = [x for x in network.variables if x not in query.decisions]
    candidates = sorted(query.towards(among).targets, key=network.variables.index)
    sets = _sets(query, candidates, up_to)
    part_of, above = _separations(query, sets)
    neutral = neutral_network(network, query.decisions)
    neutral.elimination.prepare({x for names in sets for x in (*names, *query.decisions)})
    seed = int((np.random.default_rng(0) if rng is None else rng).integers(2**32))
    rows: dict[Names, SensitivityRow] = {}
    for done, names in enumerate(sets):
        if progress is not None:
            progress(done, len(sets))
        if names in part_of:
            same = rows[part_of[names]]
            part = same.equal_to or same.targets
            note = (
                f"equal to MEG towards {listed(part)}, which separates the decisions from the rest"
            )
            rows[names] = replace(
                same, targets=names, at_most=above[names], equal_to=part, note=note
            )
            continue
        # Every row gets a generator of its own, so that its number does not depend on the others.
        result = measure(
            replace(query, goal=names, neutral=neutral),
            tolerance=tolerance,
            restarts=restarts,
            rng=np.random.default_rng(seed),
        )
        measured = {name: getattr(result, name) for name in _MEASURED}
        note = "; ".join(result.notes)
        rows[names] = SensitivityRow(**measured, at_most=above[names], note=note)
    # Values that differ by less than they are certified to are equal: small sets come first.
    ordered = sorted(rows.values(), key=lambda row: -round(row.value / tolerance))
    return Sensitivity(query.decisions, query.do, tuple(ordered))


def _sets(query: DecisionQuery, candidates: Sequence[str], up_to: int) -> list[Names]:
    """Sets with some influenced variable, the small ones first."""
    influenced = query.network.descendants(*query.decisions)
    sizes = range(1, min(up_to, len(candidates)) + 1)
    every = (names for size in sizes for names in combinations(candidates, size))
    sets = list(islice(filter(influenced.intersection, every), MAX_SETS + 1))
    if len(sets) > MAX_SETS:
        raise InvalidParameterError(
            f"there are more than {MAX_SETS} sets of up to {up_to} of {len(candidates)} variables, "
            f"expected fewer; lower up_to or name candidates with among"
        )
    if not sets:
        raise InvalidParameterError(
            f"{listed(query.decisions)} influence none of {listed(candidates) or 'nothing'}, "
            f"expected at least one candidate target downstream of a decision"
        )
    return sets


def _separations(
    query: DecisionQuery, sets: Sequence[Names]
) -> tuple[dict[Names, Names], dict[Names, tuple[Names, ...]]]:
    """What d-separation says about sets, the smallest first, D being the decisions."""
    # The smaller set within a set that separates D from the rest of it, where there is one; and the
    # smallest other sets that separate D from a set and do not contain it.
    network = query.network
    # Sets of variables are whole numbers, a bit a variable: there may be many pairs of sets.
    bit = {x: 1 << i for i, x in enumerate(network.variables)}
    mask = {names: sum(bit[x] for x in names) for names in sets}
    # The variables that the decisions are connected with, given each set.
    balls = {names: network.ball(query.decisions, names) for names in sets}
    connected = {names: sum(bit[x] for x in ball.connected) for names, ball in balls.items()}
    part_of: dict[Names, Names] = {}
    above: dict[Names, tuple[Names, ...]] = {}
    for names, target in mask.items():
        smaller = (part for size in range(1, len(names)) for part in combinations(names, size))
        part = next((p for p in smaller if p in mask and not connected[p] & target), None)
        if part is not None:
            part_of[names] = part
        found: dict[Names, int] = {}
        for separating, own in mask.items():
            # A set that is only a part of the names is equal to them; one that contains them, or
            # contains a set that was found before (sets come smallest first), is no news.
            news = not connected[separating] & target and target & own not in (own, target)
            if news and not any(own & other == other for other in found.values()):
                found[separating] = own
        above[names] = tuple(found)
    return part_of, above
