"""Sensitivity of goal-directedness to the choice of targets.

MEG depends on the variables that it is measured with respect to. The table answers by trying them
all. Two facts of the graph save work and make the table readable:

* if the decisions are d-separated from T given S, then MEG_T <= MEG_S (Theorem 4.1);
* if S is a part of T, then MEG_S <= MEG_T, so with the first both are equal.

Source: MEG paper (NeurIPS 2024), Definition 4.4, Theorem 4.1, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields
from goalmeter._names import listed
from goalmeter.causal.contexts import neutral_network
from goalmeter.causal.graph import bayes_ball
from goalmeter.meg.causal.result import DecisionQuery, Do, Goal, Model, Names, ask
from goalmeter.meg.causal.utilities import measure
from goalmeter.meg.linear import TOLERANCE
from goalmeter.meg.result import json_number
from goalmeter.report.numbers import general, nats, nats_of_search, number, percent, rationality
from goalmeter.report.tables import data_frame, html_table

# More sets than this take too long to be what was meant.
MAX_SETS = 20_000
# More sets than these are not written out in a cell.
_SETS_IN_A_CELL = 2
# Fields of a row that are those of its result.
_MEASURED = (
    *("targets", "value", "upper_bound", "maximum", "fraction", "rationality", "goal", "recall"),
)


def set_text(names: Sequence[str]) -> str:
    """Return a set of variables as it is written: {S, M}."""
    return f"{{{', '.join(names)}}}"


@dataclass(frozen=True)
class SensitivityRow(JsonFields):
    """MEG towards one set of targets.

    Attributes:
        targets: the set, in the model's order.
        value: nats.
        upper_bound: proven bound, nats.
        maximum: what a fully predictable agent would score, nats.
        fraction: value / maximum.
        rationality: of the best utility.
        goal: the best utility.
        recall: "single", "sufficient" or "insufficient" (a search).
        at_most: smallest sets S of the table that separate the decisions from these targets:
            MEG towards them is at least as high (Theorem 4.1, pseudo-terminal goals).
        equal_to: the part of the targets that separates the decisions from the rest, so that
            both have the same MEG; None where the value was worked out for this set itself.
        note: what a reader of the number needs.
    """

    targets: Names
    value: float
    upper_bound: float
    maximum: float
    fraction: float
    rationality: float
    goal: Goal | None
    recall: str
    at_most: tuple[Names, ...]
    equal_to: Names | None
    note: str

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
class Sensitivity:
    """MEG of the same decisions towards every candidate set, the highest first.

    Attributes:
        decisions: the candidate decisions.
        do: the intervention under which the policy was measured.
        rows: one for each set.
    """

    decisions: Names
    do: dict[str, object]
    rows: tuple[SensitivityRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        return {
            "decisions": list(self.decisions),
            "do": dict(self.do),
            "rows": [row.to_json() for row in self.rows],
        }

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame, one row a set of targets.

        Columns: `targets` (text), `meg`, `upper_bound`, `maximum` in nats, `fraction`,
        `rationality`, `recall`, `at_most` and `equal_to` (texts, Theorem 4.1), and `note`.
        """
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
                    ", ".join(row.targets),
                    nats_of_search(row.value),
                    nats(row.upper_bound),
                    percent(row.fraction),
                    rationality(row.rationality),
                    row.theorem_text(),
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
    decisions see, such as an instruction.

    Args:
        model: a `CausalBayesianNetwork` or an `InfluenceDiagram`.
        decisions: the candidate decisions; a diagram has its own.
        up_to: size of the largest sets, at least 1.
        among: the candidate targets; default every variable that is not a decision.
        do: an intervention, {variable: state}, under which the policy is measured.
        tolerance: nats at which an optimum counts as certified.
        restarts: of a search, where one is needed.
        rng: of the searches; default seed 0.
        progress: called as progress(sets done, sets in all).

    Source: MEG paper (NeurIPS 2024), section 7 ("Choice of variables"), Theorem 4.1.

    Example: the mouse's own position does not matter to it, the cheese does.
        >>> from goalmeter.demo.mouse import example_1
        >>> print(sensitivity(example_1(0.8), ["D"]))
        MEG of D towards ...
          T     0.192745 nats, 27.8% of 0.693147  ≤ {S, M}
          S, M  0.192745 nats, 27.8% of 0.693147
          S, T  0.192745 nats, 27.8% of 0.693147  ≤ {S, M}
          M, T  0.192745 nats, 27.8% of 0.693147  ≤ {S, M}
          M     0.000000 nats, 0.0% of 0.693147
    """
    query = ask(model, decisions, do)
    network = query.network
    if not isinstance(up_to, (int, np.integer)) or isinstance(up_to, bool) or up_to < 1:
        raise InvalidParameterError(
            f"up_to is {up_to!r}, expected a whole number of at least 1: the size of the largest "
            f"sets of targets"
        )
    if among is None:
        among = [x for x in network.variables if x not in query.decisions]
    candidates = sorted(query.towards(among).targets, key=network.variables.index)
    sets = _sets(query, candidates, up_to)
    separation = _Separation(query, sets)
    neutral = neutral_network(network, query.decisions)
    neutral.elimination.prepare({x for names in sets for x in (*names, *query.decisions)})
    seed = int((np.random.default_rng(0) if rng is None else rng).integers(2**32))
    rows: dict[Names, SensitivityRow] = {}
    for done, names in enumerate(sets):
        if progress is not None:
            progress(done, len(sets))
        whole = separation.part_that_says_all(names)
        above = separation.pseudo_terminal(names)
        if whole is not None:
            part = rows[whole].equal_to or whole
            note = (
                f"equal to MEG towards {listed(part)}, which separates the decisions from the rest"
            )
            changes: dict[str, Any] = {"targets": names, "at_most": above, "equal_to": part}
            rows[names] = replace(rows[whole], note=note, **changes)
            continue
        # Every row gets a generator of its own, so that its number does not depend on the others.
        result = measure(
            replace(query, goal=names, neutral=neutral),
            tolerance=tolerance,
            restarts=restarts,
            rng=np.random.default_rng(seed),
        )
        measured: dict[str, Any] = {name: getattr(result, name) for name in _MEASURED}
        note = "; ".join(result.notes)
        rows[names] = SensitivityRow(**measured, at_most=above, equal_to=None, note=note)
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


# Sets of variables are whole numbers, a bit a variable: there may be many pairs of sets.
class _Separation:
    """What d-separation says about the sets of the table."""

    def __init__(self, query: DecisionQuery, sets: Sequence[Names]) -> None:
        network = query.network
        self._bit = {x: 1 << i for i, x in enumerate(network.variables)}
        parents = {x: network.parents(x) for x in network.variables}
        children = {x: network.children(x) for x in network.variables}
        self._mask = {names: self._bits(names) for names in sets}
        # Variables that the decisions are connected with, given each set.
        self._connected = {
            names: self._bits(bayes_ball(parents, children, query.decisions, names).connected)
            for names in sets
        }

    def _bits(self, names: Iterable[str]) -> int:
        return sum(self._bit[x] for x in names)

    def part_that_says_all(self, names: Names) -> Names | None:
        """Return a smaller set within `names` that separates the decisions from the rest of it."""
        for size in range(1, len(names)):
            for part in combinations(names, size):
                connected = self._connected.get(part)
                if connected is not None and not connected & self._mask[names]:
                    return part
        return None

    def pseudo_terminal(self, names: Names) -> tuple[Names, ...]:
        """Return the smallest other sets S with D _|_ names | S that do not contain `names`."""
        target = self._mask[names]
        sets: list[Names] = []
        covered: list[int] = []
        for separating, connected in self._connected.items():
            if connected & target:
                continue
            mask = self._mask[separating]
            # A set that is only a part of the names is equal to them; one that contains them, or
            # contains a set that was found before (sets come smallest first), is no news.
            news = target & mask != target and target & mask != mask
            if news and not any(mask & smaller == smaller for smaller in covered):
                sets.append(separating)
                covered.append(mask)
        return tuple(sets)
