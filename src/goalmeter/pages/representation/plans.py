"""What is read of plans: by the number of actions, and along the reasoning."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from goalmeter.pages.representation import estimates
from goalmeter.pages.representation.estimates import (
    Shown,
    place_in_words,
    position_rank,
    say,
    time_of,
)
from goalmeter.pages.representation.use import banded
from goalmeter.report import Figure, Table
from goalmeter.report.canvas import GREEN, INK, MUTED, VERMILION
from goalmeter.report.charts import Curve, curve_chart
from goalmeter.report.numbers import percent
from goalmeter.report.tables import column, grouped, table_of, words
from goalmeter.representation.result_rows import DecidedRow, PlanRow
from goalmeter.statistics.clusters import Estimate

PREFIX, CONDITIONAL, _BEYOND = "prefix", "conditional", "beyond"
# Baselines as results name them. Simple ones know neither the map nor what the model says or did
# elsewhere; of the first action, repeating what was read first is reading it.
_INFORMED, _REPEAT = ("optimal plan", "stated plan", "asked again"), "repeat the first"
_SIZE = (4.0, 3.7)  # inches: two beside each other on a page, one on a telephone
_TICKS = {"prompt": -0.2, "0": 0.0, "0.5": 0.5, "1": 1.0, "answer": 1.2}
_STEPS = 4  # actions whose curves are drawn; all are in the table
# Baselines differ in stroke and marker too, since colours may not be seen.
_STYLES = (
    (VERMILION, "--", "s"),
    (GREEN, "-.", "^"),
    (INK, ":", "D"),
    (MUTED, "--", "v"),
    (VERMILION, ":", "x"),
    (GREEN, "--", "P"),
    (INK, "-.", "*"),
)


@dataclass(frozen=True)
class Reader:
    """One decoder at one place, with its rows by the number of actions."""

    layer: int
    position: str
    decoder: str
    rows: tuple[PlanRow, ...]

    @property
    def place(self) -> str:
        """In words."""
        return f"{self.decoder}, {place_in_words(self.layer, self.position)}"


def best_readers(shown: Shown) -> list[Reader]:
    """Of each position, the layer and decoder that read most of the first action."""
    by_place: dict[tuple[int, str, str], list[PlanRow]] = {}
    for row in shown.result.plan:
        by_place.setdefault((row.layer, row.position, row.decoder), []).append(row)
    best: dict[str, Reader] = {}
    for (layer, position, decoder), rows in by_place.items():
        reader = Reader(layer, position, decoder, tuple(sorted(rows, key=lambda row: row.n)))
        if position not in best or _merit(reader) > _merit(best[position]):
            best[position] = reader
    return [best[position] for position in sorted(best, key=position_rank)]


def simple(row: PlanRow) -> dict[str, Mapping[str, Estimate]]:
    """The simple baselines of a row that the run has."""
    return {
        name: values
        for name, values in row.baselines.items()
        if values is not None and name not in _INFORMED and not (name == _REPEAT and row.n == 1)
    }


def beside_simple(row: PlanRow) -> str:
    """Where the prefix stands beside every simple baseline, by paired differences if known."""
    baselines = simple(row)
    beyond = {name: values[_BEYOND] for name, values in baselines.items() if _BEYOND in values}
    if len(beyond) == len(baselines):
        return estimates.signs(beyond)
    return estimates.beside(row.prefix, [values.get(PREFIX) for values in baselines.values()])


def horizon(reader: Reader) -> int:
    """Up to how many actions the prefix is read above every simple baseline; 0 for none."""
    actions = 0
    for row in reader.rows:
        if row.n != actions + 1 or beside_simple(row) != estimates.ABOVE:
            break
        actions = row.n
    return actions


def plan_figures(shown: Shown) -> list[Figure]:
    """Accuracy of the first n actions and of action n alone, a pair of charts for each position."""
    out = []
    for count, reader in enumerate(best_readers(shown), start=1):
        counts = [float(row.n) for row in reader.rows]
        for kind in (PREFIX, CONDITIONAL):
            values = [getattr(row, kind) for row in reader.rows]
            curves = _curves(counts, values, _baselines(reader.rows, kind))
            if not curves:
                continue
            svg = curve_chart(
                f"{shown.prefix}-plan-{count}-{kind}",
                curves,
                x_label="n, actions" if kind == PREFIX else "n, number of the action",
                y_label="share of walks",
                limits=(-0.02, 1.02),
                ticks=counts,
                size=_SIZE,
            )
            about = {
                "model": shown.name,
                "place": reader.place,
                "values": _values(counts, values),
            }
            texts = say("prefix", **about) if kind == PREFIX else say("conditional", **about)
            out.append(Figure(svg=svg, **texts))
    return out


def plan_table(shown: Shown) -> Table | None:
    """All that was read of plans; None where nothing was."""
    rows = sorted(
        shown.result.plan,
        key=lambda row: (position_rank(row.position), row.layer, row.decoder, row.n),
    )
    if not rows:
        return None
    names = list(dict.fromkeys(name for row in rows for name in row.baselines))
    return table_of(
        rows,
        (
            words("actions", _plan_name),
            *grouped(
                "first n right",
                column("read", lambda row: percent(row.prefix), answer=True),
                *(column(name, _of_baseline(name, PREFIX), percent) for name in names),
            ),
            *grouped(
                "action n right, if those before are",
                column("read", lambda row: percent(row.conditional)),
                *(column(name, _of_baseline(name, CONDITIONAL), percent) for name in names),
            ),
        ),
        anchor=f"{shown.prefix}-plan",
        **say("plan", model=shown.name),
    )


def decided_figures(shown: Shown) -> list[Figure]:
    """Accuracy along the reasoning, a chart for each of the first actions."""
    out = []
    for step in sorted({row.step for row in shown.result.decided})[:_STEPS]:
        rows = along(shown, step)
        times = [time for row in rows if (time := time_of(row.position)) is not None]
        values = [row.accuracy for row in rows]
        curves = _curves(times, values, _columns([row.baselines for row in rows]))
        if not curves:
            continue
        svg = curve_chart(
            f"{shown.prefix}-decided-{step}",
            curves,
            x_label="share of the reasoning that is written",
            y_label="share of walks",
            limits=(-0.02, 1.02),
            ticks=list(_TICKS.values()),
            tick_names=list(_TICKS),
            size=_SIZE,
        )
        texts = say(
            "decided_figure",
            model=shown.name,
            step=step,
            layer=rows[0].layer,
            values=", ".join(f"{row.position}: {percent(row.accuracy.value)}" for row in rows),
        )
        out.append(Figure(svg=svg, **texts))
    return out


def along(shown: Shown, step: int) -> list[DecidedRow]:
    """One action along the reasoning, from its beginning, at the layer that reads most of it."""
    by_layer: dict[int, list[DecidedRow]] = {}
    for row in shown.result.decided:
        if row.step == step and time_of(row.position) is not None:
            by_layer.setdefault(row.layer, []).append(row)
    if not by_layer:
        return []
    layer = max(by_layer, key=lambda layer: _mean([row.accuracy for row in by_layer[layer]]))
    return sorted(by_layer[layer], key=lambda row: position_rank(row.position))


def decided_from(shown: Shown, step: int) -> DecidedRow | None:
    """The first row from which on the action is read above position alone, to the end; or None."""
    first = None
    for row in reversed(along(shown, step)):
        if estimates.sign(row.beyond) != estimates.ABOVE:
            break
        first = row
    return first


def settled_table(shown: Shown) -> Table | None:
    """From where on each action can be read; None where nobody asked."""
    rows = sorted(shown.result.settled, key=lambda row: (row.step, row.layer))
    if not rows:
        return None
    return table_of(
        rows,
        (
            words("action", lambda row: f"{row.step}, layer {row.layer}"),
            column("read above position alone from", lambda row: _from(row.share), answer=True),
            column("adds to position from", lambda row: _from(row.added)),
        ),
        anchor=f"{shown.prefix}-settled",
        **say("settled", model=shown.name),
    )


def decided_table(shown: Shown) -> Table | None:
    """All that was read along the reasoning; None where nothing was."""
    rows = sorted(
        shown.result.decided, key=lambda row: (row.step, position_rank(row.position), row.layer)
    )
    if not rows:
        return None
    names = list(dict.fromkeys(name for row in rows for name in row.baselines))
    return table_of(
        rows,
        (
            words("action", lambda row: f"{row.step}, {place_in_words(row.layer, row.position)}"),
            column("read", lambda row: percent(row.accuracy), answer=True),
            *(column(name, partial(_baseline, name), percent) for name in names),
        ),
        anchor=f"{shown.prefix}-decided",
        **say("decided", model=shown.name),
    )


def _baseline(name: str, row: DecidedRow) -> Estimate | None:
    return row.baselines.get(name)


def _from(share: float | None) -> str:
    """A share of the reasoning from which on something holds."""
    return "nowhere" if share is None else f"{share:g}"


def _merit(reader: Reader) -> float:
    return _mean([reader.rows[0].prefix])


def _mean(values: Sequence[Estimate]) -> float:
    """The mean of what is known; less than any share where nothing is."""
    known = [each.value for each in values if not math.isnan(each.value)]
    return sum(known) / len(known) if known else -1.0


def _baselines(rows: Sequence[PlanRow], kind: str) -> dict[str, list[Estimate | None]]:
    return _columns(
        [
            {name: values.get(kind) for name, values in row.baselines.items() if values is not None}
            for row in rows
        ]
    )


def _columns(
    rows: Sequence[Mapping[str, Estimate | None]],
) -> dict[str, list[Estimate | None]]:
    """Baselines by name, one entry a row."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _curves(
    x: Sequence[float],
    values: Sequence[Estimate],
    baselines: Mapping[str, Sequence[Estimate | None]],
) -> list[Curve]:
    """What was read with its band, and each baseline; none where nothing is known."""
    if all(math.isnan(each.value) for each in values):
        return []
    curves = [banded("read of activations", x, values, marker="o")]
    for number, (name, numbers) in enumerate(baselines.items()):
        colour, stroke, marker = _STYLES[number % len(_STYLES)]
        y = [math.nan if each is None else each.value for each in numbers]
        style = {"colour": colour, "stroke": stroke, "marker": marker, "hollow": True}
        curves.append(Curve(label=name, x=x, y=y, **style))  # type: ignore[arg-type]
    return curves


def _values(x: Sequence[float], values: Sequence[Estimate]) -> str:
    pairs = zip(x, values, strict=True)
    return ", ".join(f"{place:g}: {percent(each.value)}" for place, each in pairs)


def _of_baseline(name: str, kind: str) -> Callable[[PlanRow], Estimate | None]:
    return lambda row: (row.baselines.get(name) or {}).get(kind)


def _plan_name(row: PlanRow) -> str:
    return f"{row.n}, {row.decoder}, {place_in_words(row.layer, row.position)}"
