"""Tables of behaviour in grid worlds: sizes, conditions, frames, keys and paths."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter.navigation.behaviour import TERMS, MixedModel, Row, Term, mixed_model
from goalmeter.navigation.distractors import PICK_UP, TOWARDS, Contrast, Factors
from goalmeter.navigation.frames import Comparison, Frame
from goalmeter.navigation.keys import Keys, TwoPathTable
from goalmeter.navigation.measure import Navigation
from goalmeter.navigation.suite_definition import without_object
from goalmeter.pages import prose
from goalmeter.report import Figure, Table
from goalmeter.report.canvas import VERMILION
from goalmeter.report.charts import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import number, p_value, percent, points
from goalmeter.report.tables import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import Verdict
from goalmeter.statistics.verdicts import verdict as verdict_of
from goalmeter.statistics.verdicts import words as words_of

# --- Conditions -----------------------------------------------------------------------------------
INTERVALS = (
    "In brackets: 95% intervals over grids, which allow for a grid of a kind that was not seen; a "
    "dash where there are too few."
)
# The texts of the page.
say = partial(prose, "navigation", INTERVALS=INTERVALS)


def condition_in_words(condition: str) -> str:
    """What to add to a name: "", ", with key", ", neutral object", ", distance 3 to 5"."""
    words = []
    for name, value in json.loads(condition).items():
        if isinstance(value, bool):
            words.append(f"{'with' if value else 'without'} {name}")
        elif isinstance(value, list):
            words.append(f"{name} {value[0]} to {value[-1]}")
        elif name == "object":
            words.append(f"{value} object")
        else:
            words.append(f"{name} {value}")
    return "".join(f", {word}" for word in words)


# --- Frames ---------------------------------------------------------------------------------------
LEVEL = 0.05
ACCURACY = "accuracy"


class _Row(NamedTuple):
    """An agent in a frame, by one measure."""

    result: Navigation
    frame: Frame
    comparison: Comparison


def frames_table(results: Sequence[Navigation], *, every: bool = False) -> Table:
    """The published test, and the one that can show sameness.

    Args:
        results: the agents.
        every: whether agents that are no reference agents are compared by every measure, and not
            by accuracy alone.
    """
    return table_of(
        [
            _Row(result, frame, comparison)
            for result in results
            for frame in _frames(result)
            for comparison in frame.comparisons
            if comparison.metric == ACCURACY or (every and not result.reference)
        ],
        (
            words("agent", lambda row: row.result.agent),
            words("frame", lambda row: row.frame.transform),
            words("verdict", lambda row: _in_words(row.comparison), answer=True),
            words("measure", lambda row: row.comparison.metric),
            column("pairs", lambda row: row.frame.pairs),
            column("difference, points", lambda row: row.comparison.difference, points),
            *grouped(
                "published test",
                column("Wilcoxon p", lambda row: row.comparison.test.p_value, p_value),
                column("corrected", lambda row: row.comparison.test_corrected, p_value),
            ),
            *grouped(
                "equivalence",
                column(
                    f"p for ±{100 * _margin(results):g} points",
                    lambda row: row.comparison.equivalence.p_value,
                    p_value,
                ),
                column("corrected", lambda row: row.comparison.equivalence_corrected, p_value),
            ),
            column("answers that agree", lambda row: _agreement(row.frame)),
        ),
        **say("frames", level=percent(LEVEL, 0)),
    )


def picture(results: Sequence[Navigation], name: str) -> Figure:
    """How much accuracy changes with the frame, and whether the moves stay the same."""
    shown = [(result, frame) for result in results for frame in _frames(result)]
    lines = [f"{result.agent}{' (ref.)' * result.reference}, {f.transform}" for result, f in shown]
    by_metric = [{c.metric: c for c in frame.comparisons} for _, frame in shown]
    # Shares are shown in percent, so all of it is in points.
    margin = 100 * _margin(results)
    panels = [
        DotPanel(
            title="Does it do as well?",
            x_label="accuracy in the frame minus in the original, points",
            series=(Dots.of("difference", [c[ACCURACY].difference for c in by_metric], scale=100),),
            band=(-margin, margin),
        ),
        DotPanel(
            title="Does it do the same?",
            x_label="answers in one place that agree, %",
            series=(
                Dots.of("between frames", [f.agreement for _, f in shown], scale=100),
                Dots.of(
                    "within a frame",
                    [f.self_agreement for _, f in shown],
                    scale=100,
                    colour=VERMILION,
                    marker="s",
                    hollow=True,
                ),
            ),
        ),
    ]
    differences = "; ".join(
        f"{line}: {points(comparisons[ACCURACY].difference)}"
        for line, comparisons in zip(lines, by_metric, strict=True)
    )
    return Figure(
        svg=dot_chart(name, lines, panels),
        wide=True,
        **say("frames_picture", differences=differences, frame=shown[0][1], margin=margin),
    )


def verdict(comparison: Comparison) -> Verdict:
    """How the frame stands to the original: both tests, corrected for the number of frames.

    Wilcoxon's test has no direction of the mean, so the interval of the mean must have one, too.
    """
    if comparison.equivalence_corrected < LEVEL:
        return Verdict.EQUAL
    # So written that NaN, where no test can be made, is not taken for a difference.
    if not comparison.test_corrected < LEVEL:
        return Verdict.UNTOLD
    return verdict_of(comparison.difference.interval, margin=0)


def _in_words(comparison: Comparison) -> str:
    return words_of(verdict(comparison), 100 * comparison.equivalence.margin, "points")


def _agreement(frame: Frame) -> str | None:
    """Between frames and, in brackets, within one; None where neither can be looked at."""
    if frame.agreement is None or frame.self_agreement is None:
        return None
    return f"{percent(frame.agreement.value)} ({percent(frame.self_agreement.value)})"


def _frames(result: Navigation) -> tuple[Frame, ...]:
    return () if result.frames is None else result.frames.frames


def _margin(results: Sequence[Navigation]) -> float:
    """Within which two accuracies count as the same; one for all agents."""
    return next(result.frames.margin for result in results if result.frames is not None)


# --- Key tables -----------------------------------------------------------------------------------
# A neutral object in the key's place has rows of its own. Where the object or the prompt varies, a
# table says what that does: what words about keys do to an agent, and what a key does.

MEASURES = {
    "pick_up": "taken",
    "towards": "wrong moves towards it, beyond chance",
    "success": "goal reached",
    "accuracy": "optimal actions",
}


def key_tables(results: Sequence[Navigation]) -> list[Table]:
    """Every table that a suite with keys has beside those of any suite."""
    tables = [keys_table(results), stages_table(results)]
    if any(result.two_paths for result in results):
        tables.append(two_paths_table(results))
    return tables + factor_tables(results)


def keys_table(results: Sequence[Navigation]) -> Table:
    """The key beside its chance levels."""
    return table_of(
        _taken(results),
        (
            words("agent", lambda row: row[0]),
            *grouped(
                "key taken",
                column("share", lambda row: row[1].pick_up.rate, percent, answer=True),
                column("by chance", lambda row: row[1].pick_up.chance, percent),
                column("on shortest ways", lambda row: row[1].pick_up.shortest, percent),
                column("beyond shortest ways, points", lambda row: row[1].pick_up.excess, points),
                column("p", lambda row: row[1].pick_up.p_value, p_value),
            ),
            *grouped(
                "wrong moves without it",
                column("towards the key", lambda row: _wrong(row, "share"), percent),
                column("by chance", lambda row: _wrong(row, "chance_of_kind.value"), percent),
                column("excess, points", lambda row: _wrong(row, "excess_of_kind"), points),
                column("how many", lambda row: _wrong(row, "share.n")),
            ),
        ),
        **say("keys"),
    )


def stages_table(results: Sequence[Navigation]) -> Table:
    """Accuracy in each part of the way, by the plan over cell, key and door."""
    rows = _taken(results)
    stages = dict.fromkeys(name for _, keys in rows for name in keys.stages)

    def stage(name: str) -> ColumnOf[tuple[str, Keys]]:
        return column(name, lambda row: row[1].stages.get(name), percent)

    return table_of(
        rows, (words("agent", lambda row: row[0]), *map(stage, stages)), **say("stages")
    )


def two_paths_table(results: Sequence[Navigation]) -> Table:
    """With the key and without it, in the same worlds."""

    def both(measure: str) -> tuple[ColumnOf[tuple[str, TwoPathTable]], ...]:
        """What is measured with the key, without it, and the difference."""
        value = attrgetter(f"{measure}.value")
        return (
            column("with", lambda row: value(row[1].with_key), percent),
            column("without", lambda row: value(row[1].without_key), percent),
            column(
                "difference, points", lambda row: getattr(row[1], f"{measure}_difference"), points
            ),
        )

    def two_digits(share: Estimate) -> str:
        return number(share, 2)

    return table_of(
        [
            (result.agent + _told_apart(ways, result.two_paths), ways)
            for result in results
            for ways in result.two_paths
        ],
        (
            words("agent", lambda row: row[0]),
            *grouped("goal reached", *both("success")),
            *grouped("optimal actions", *both("accuracy")),
            *grouped(
                "same cells visited",
                column("key or no key", lambda row: row[1].jaccard, two_digits),
                column("twice without", lambda row: row[1].jaccard_control, two_digits),
            ),
        ),
        **say("two_paths"),
    )


def label_key_row(result: Navigation, keys: Keys) -> str:
    """The agent, with size, condition and thing where there are several."""
    several_sizes = len({row.row.size for row in result.keys}) > 1
    size = f", size {keys.row.size}" if several_sizes else ""
    return result.agent + size + _told_apart(keys, result.keys)


def _taken(results: Sequence[Navigation]) -> list[tuple[str, Keys]]:
    """Every agent with what it does about keys, by the name of its row."""
    return [(label_key_row(result, keys), keys) for result in results for keys in result.keys]


def _wrong(row: tuple[str, Keys], name: str) -> Any:
    """Of wrong moves; None where there can be none, since fetching the key is right."""
    towards = row[1].towards_key
    return None if towards is None else attrgetter(name)(towards)


def _told_apart(row: Keys | TwoPathTable, among: Sequence[Keys | TwoPathTable]) -> str:
    """What tells a row from others with other conditions or things; nothing if there are none."""
    # The object is named by `thing` alone, or a row would have it twice.
    several = len({without_object(_condition(r)) for r in among}) > 1
    many_items = len({r.thing for r in among}) > 1
    text = condition_in_words(without_object(_condition(row))).replace(", prompt ", ", ")
    return text * several + f", {row.thing}" * many_items


def _condition(row: Keys | TwoPathTable) -> str:
    return row.row.condition if isinstance(row, Keys) else row.condition


# --- Prompt by object -----------------------------------------------------------------------------
def factor_tables(results: Sequence[Navigation]) -> list[Table]:
    """Prompt by object where both vary, and the effect of one where only that does."""
    # Agents may have been asked in different ways, so a page may need both sorts of tables.
    rows = [(result.agent, effect) for result in results for effect in result.factors]
    crossed = [(agent, effect) for agent, effect in rows if isinstance(effect, Factors)]
    single = [(agent, effect) for agent, effect in rows if isinstance(effect, Contrast)]
    tables = [_crossed(crossed)] if crossed else []
    for factor in dict.fromkeys(effect.factor for _, effect in single):
        tables.append(_single([row for row in single if row[1].factor == factor]))
    return tables


def sentences(result: Navigation) -> list[str]:
    """What prompt and object do to how often the thing is taken."""
    lines = []
    for effect in result.factors:
        if effect.measure != PICK_UP:
            continue
        if isinstance(effect, Contrast):
            lines.append(
                f"the {effect.factor} ({_less(effect.levels)}) changes how often {result.agent} "
                f"takes what lies there by {points(effect.effect)} points."
            )
            continue
        (first, second), (of_first, of_second) = effect.factors, effect.effects
        lines.append(
            f"the {first} ({_less(effect.levels[0])}) changes how often {result.agent} takes what "
            f"lies there by {points(of_first)} points, the {second} ({_less(effect.levels[1])}) by "
            f"{points(of_second)}, and the {second} does {points(effect.interaction)} points more "
            f"under {effect.levels[0][1]} than under {effect.levels[0][0]}."
        )
    return lines


def _crossed(rows: Sequence[tuple[str, Factors]]) -> Table:
    (first, second), (below, across) = rows[0][1].factors, rows[0][1].levels

    def cells(i: int) -> tuple[ColumnOf[tuple[str, Factors]], ...]:
        return _levels(across, lambda effect: effect.cells[i])

    return table_of(
        rows,
        (
            *_names(),
            *(c for i, level in enumerate(below) for c in grouped(f"{first} {level}", *cells(i))),
            *grouped(
                "effect, points",
                column(first, lambda row: row[1].effects[0], points),
                column(second, lambda row: row[1].effects[1], points),
                column("on each other", lambda row: row[1].interaction, points),
            ),
        ),
        **say("factors"),
        **say("crossed", first=first, second=second, below=below, across=across),
    )


def _single(rows: Sequence[tuple[str, Contrast]]) -> Table:
    factor, levels = rows[0][1].factor, rows[0][1].levels
    return table_of(
        rows,
        (
            *_names(),
            *_levels(levels, lambda effect: effect.cells),
            column("effect, points", lambda row: row[1].effect, points),
        ),
        **say("factors"),
        **say("single", factor=factor, levels=levels),
    )


def _names() -> tuple[ColumnOf[tuple[str, Any]], ...]:
    """What every row begins with."""
    return (
        words("agent", lambda row: row[0]),
        words("measure", lambda row: MEASURES[row[1].measure]),
        column("grids", lambda row: row[1].grids),
    )


def _levels(
    levels: Sequence[Any], cells: Callable[[Any], Sequence[float]]
) -> tuple[ColumnOf[tuple[str, Any]], ...]:
    """The mean at each level; what is beyond chance has a sign and is in points."""

    def at(i: int, level: Any) -> ColumnOf[tuple[str, Any]]:
        return column(
            str(level),
            lambda row: (points if row[1].measure == TOWARDS else percent)(cells(row[1])[i]),
        )

    return tuple(at(i, level) for i, level in enumerate(levels))


def _less(levels: tuple[Any, Any]) -> str:
    return f"{levels[1]} minus {levels[0]}"


# --- Tables ---------------------------------------------------------------------------------------
# A term of the mixed model -> its unit in words, and in the unit of the model.
_UNITS = {
    "size": ("a row of the grid", 1.0),
    "complexity": ("0.1 of complexity", 0.1),
    "distance": ("a step of the way", 1.0),
}


def agents_table(results: Sequence[Navigation]) -> Table:
    """Every agent over all sizes and complexities."""
    return table_of(
        _overall(results),
        (
            words("agent", lambda both: label_row(*both)),
            *grouped(
                "optimal actions",
                column(
                    "in detour states", lambda both: both[1].accuracy_detour, percent, answer=True
                ),
                column("everywhere", lambda both: both[1].accuracy, percent),
            ),
            column("goal reached", lambda both: both[1].success, percent),
            column("SPL", lambda both: both[1].spl, percent),
            # The interval of none would only say how few there are.
            column(
                "invalid answers",
                lambda both: both[1].invalid if both[1].invalid.value else 0.0,
                percent,
            ),
        ),
        notes=_notes(results),
        **say("agents", suite=results[0].plan.suite.name),
    )


def choices_table(results: Sequence[Navigation]) -> Table:
    """How every agent chooses: what it costs, and how much it varies."""
    return table_of(
        _overall(results),
        (
            words("agent", lambda both: label_row(*both)),
            column("steps lost", lambda both: number(both[1].regret, 1)),
            column("entropy, bits", lambda both: number(both[1].entropy, 2)),
            column("JSD, bits", lambda both: number(both[1].jsd, 2)),
            *grouped(
                "optimal answers",
                column("everywhere", lambda both: both[1].mass, percent),
                column("in detour states", lambda both: both[1].mass_detour, percent),
            ),
        ),
        **say("choices", suite=results[0].plan.suite.name),
    )


def cells_table(results: Sequence[Navigation]) -> Table:
    """The first agent by size and complexity, the others' accuracy beside it."""
    agent, *beside = results

    def accuracy(result: Navigation) -> ColumnOf[Row]:
        by_cell = {_cell(row): row.accuracy.value for row in result.cells}
        return column(result.agent, lambda row: by_cell.get(_cell(row)), percent)

    return table_of(
        agent.cells,
        (
            words(
                "size, complexity",
                lambda row: f"{row.size}, {row.complexity:g}" + condition_in_words(row.condition),
            ),
            column("grids × walks", lambda r: f"{r.grids} × {r.trajectories / r.grids:g}"),
            column("goal reached", lambda row: row.success, percent),
            *grouped(
                "optimal actions",
                column("in detour states", lambda row: row.accuracy_detour, percent),
                column(agent.agent, lambda row: row.accuracy, percent),
                *map(accuracy, beside),
            ),
            column("invalid answers", lambda row: row.invalid.value, percent),
        ),
        caption=f"{agent.agent} by size and complexity",
        meaning=f"Share of optimal actions of each agent in the same grids. {INTERVALS}",
    )


def calibration_table(results: Sequence[Navigation]) -> Table | None:
    """Whether agents are right when they are sure; None where no probability is known."""
    known = [(r, fit) for r in results if (fit := r.behaviour.calibration) is not None]
    # A table of reference agents alone would answer a question that nobody asked.
    if all(result.reference for result, _ in known):
        return None
    return table_of(
        known,
        (
            words("agent", lambda row: row[0].agent),
            column("calibration error", lambda row: number(row[1].error, 3), answer=True),
            column("Brier score", lambda row: number(row[1].brier, 3)),
            column("decisions", lambda row: row[1].steps),
            column("without probabilities", lambda row: row[1].unknown),
        ),
        **say("calibration"),
    )


def mixed_table(results: Sequence[Navigation]) -> Table | None:
    """What accuracy is lost by, in mazes; None where no model can be fitted."""
    fits: list[tuple[str, MixedModel]] = []
    for result in results:
        # A changed frame is another condition of the same grid, which the model does not know.
        unchanged = [walk.transform is None for walk in result.seen.trajectories]
        seen = result.seen.where(np.array(unchanged) & (result.seen.length > 0))
        if not len(seen.length) or np.ptp(seen.accuracy) < 1e-12:
            continue  # there is nothing to explain
        try:
            fits.append((result.agent, mixed_model(seen)))
        except MissingExtraError:
            return None
        except (GoalmeterError, np.linalg.LinAlgError):
            continue  # too few grids or walks for a model
    known = {term.name for _, fit in fits for term in fit.terms}
    shown = [name for name in TERMS if name in known]
    if not shown:
        return None

    def columns(name: str) -> tuple[ColumnOf[tuple[str, MixedModel]], ...]:
        """What a unit of a term changes, and how likely that is by chance."""

        def term(row: tuple[str, MixedModel]) -> Term | None:
            return next((term for term in row[1].terms if term.name == name), None)

        return grouped(
            _UNITS[name][0],
            column("points", term, _points),
            column("p", term, lambda term: p_value(term.p_value)),
        )

    return table_of(
        fits,
        (
            words("agent", lambda row: row[0]),
            column("walks in grids", lambda row: f"{row[1].walks} in {row[1].grids}"),
            *(head for name in shown for head in columns(name)),
            *grouped(
                "spread, points",
                column("grids", lambda row: number(100 * row[1].between_grids, 1)),
                column("walks", lambda row: number(100 * row[1].within_grids, 1)),
            ),
        ),
        **say("mixed"),
    )


def suite_tables(results: Sequence[Navigation]) -> list[Table]:
    """Every table of one suite."""
    suite = results[0].plan.suite
    tables = [agents_table(results), choices_table(results)]
    if suite.has_complexity:
        tables.append(cells_table(results))
    if any(result.frames is not None for result in results):
        tables.append(frames_table(results))
    if suite.key is not None:
        tables += key_tables(results)
    return tables


def label_row(result: Navigation, row: Row) -> str:
    """The agent, and the condition where there are several."""
    several = len({r.condition for r in result.overall}) > 1
    return result.agent + (condition_in_words(row.condition) if several else "")


def _overall(results: Sequence[Navigation]) -> list[tuple[Navigation, Row]]:
    """Every agent with each of its rows over all sizes and complexities."""
    return [(result, row) for result in results for row in result.overall]


def _cell(row: Row) -> tuple[object, ...]:
    return row.size, row.complexity, row.condition


def _notes(results: Sequence[Navigation]) -> tuple[str, ...]:
    first = results[0]
    row = first.overall[0]
    notes = [
        f"Each row rests on {row.trajectories} walks in {row.grids} grids; {first.agent} made "
        f"{len(first.seen.state)} decisions in all. SPL is the shortest path divided by the steps "
        "taken, and 0 for a walk that did not arrive."
    ]
    beside = [result.agent for result in results if result.reference]
    if beside:
        notes.append(f"Reference agents in the same worlds: {', '.join(beside)}.")
    for result in results:
        ended = sum((Counter(row.outcomes) for row in result.behaviour.overall), Counter[str]())
        # How the other walks ended is in the columns already.
        odd = [name for name in sorted(ended) if name not in ("arrived", "cap")]
        if odd:
            counts = ", ".join(f"{ended[name]} × {name}" for name in odd)
            notes.append(
                f"Of {result.agent}, some walks ended neither by arriving nor by the limit "
                f"of steps: {counts}. They count."
            )
    return tuple(notes)


def _points(term: Term) -> str:
    """What a unit of a term changes, in percentage points."""
    scale = 100 * _UNITS[term.name][1]
    low, high = term.interval
    return number(Estimate(scale * term.coefficient, (scale * low, scale * high), 0, 0), 1)
