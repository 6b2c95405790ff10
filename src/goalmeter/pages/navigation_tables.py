"""Tables of behaviour in grid worlds: sizes, conditions, frames, keys and paths."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.behaviour import mixed_model
from goalmeter.navigation.distractors import PICK_UP, TOWARDS, Contrast, Factors
from goalmeter.navigation.frames import Frame, FrameComparison
from goalmeter.navigation.measure import Navigation
from goalmeter.navigation.suite_definition import without_object
from goalmeter.pages import Texts
from goalmeter.report import Figure, Table
from goalmeter.report.numbers import percent, points
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import Verdict
from goalmeter.statistics.verdicts import verdict as verdict_of
from goalmeter.statistics.verdicts import words as words_of


def condition_in_words(condition: str) -> str:
    """Return a condition as a suffix, such as "", ", with key" or ", distance 3 to 5"."""
    words = []
    for name, value in json.loads(condition).items():
        if isinstance(value, bool):
            words.append(f"{'with' if value else 'without'} {name}")
        elif isinstance(value, list):
            words.append(f"{name} {value[0]} to {value[-1]}")
        else:
            words.append(f"{value} object" if name == "object" else f"{name} {value}")
    return "".join(f", {word}" for word in words)


def cut(text: str | None) -> str:
    """Return a text in one line of 160 characters; the middle of a long one is left out."""
    line = " ".join((text or "").split())
    return line if len(line) <= 160 else f"{line[:80]} … {line[-80:]}"


say = Texts(
    "navigation",
    {
        "condition": condition_in_words,
        # The object has a part of its own, or a row would have it twice.
        "under": lambda c: condition_in_words(without_object(c)).replace(", prompt ", ", "),
        "cut": cut,
        "moves": lambda actions: " or ".join(ACTIONS[action] for action in actions),
        "action": lambda s: f"none: {s.invalid}" if s.action is None else ACTIONS[s.action],
    },
)


# --- Behaviour ------------------------------------------------------------------------------------
def suite_tables(results: Sequence[Navigation]) -> list[Table]:
    """Return all tables of one suite."""
    suite = results[0].plan.suite
    choices = say.table("choices", named(results, "overall"), suite=suite.name)
    tables = [agents_table(results), choices]
    if suite.has_complexity:
        tables.append(cells_table(results))
    if any(result.frames is not None for result in results):
        tables.append(frames_table(results))
    return tables + (key_tables(results) if suite.key is not None else [])


def named(results: Sequence[Navigation], field: str) -> list[tuple[str, Any]]:
    """Each row of a field by its agent, and by the parts that tell it from the agent's others."""
    out: list[tuple[str, Any]] = []
    for result in results:
        rows = getattr(result, field)
        texts = [say.filled(say.declared("row_names")[field], {"row": row}) for row in rows]
        varies = [len(set(part)) > 1 for part in zip(*texts, strict=True)]
        for row, text in zip(rows, texts, strict=True):
            out.append((result.agent + "".join(compress(text, varies)), row))
    return out


def agents_table(results: Sequence[Navigation], anchor: str = "") -> Table:
    """Return the table of agents over all sizes and complexities."""
    first = results[0]
    basis = {"row": first.overall[0], "agent": first.agent, "decisions": len(first.seen.state)}
    notes = [say.sentence("agents_notes", "basis", **basis)]
    if beside := [result.agent for result in results if result.reference]:
        notes.append(f"Reference agents in the same worlds: {', '.join(beside)}.")
    for result in results:
        ended = sum((Counter(row.outcomes) for row in result.behaviour.overall), Counter[str]())
        # How the other walks ended is in the columns already.
        if odd := [name for name in sorted(ended) if name not in ("arrived", "cap")]:
            counts = ", ".join(f"{ended[name]} × {name}" for name in odd)
            notes.append(say.sentence("agents_notes", "odd", agent=result.agent, counts=counts))
    # The interval of no invalid answers would only say how few answers there are.
    rows = [
        (name, row, row.invalid if row.invalid.value else 0.0)
        for name, row in named(results, "overall")
    ]
    return say.table("agents", rows, anchor=anchor, notes=notes, suite=first.plan.suite.name)


def cells_table(results: Sequence[Navigation]) -> Table:
    """Return the table of the first agent by cell, with the accuracy of the others."""
    agent, *others = results
    by_cell: dict[tuple[Any, ...], dict[str, float]] = {}
    for other in others:
        for row in other.cells:
            place = row.size, row.complexity, row.condition
            by_cell.setdefault(place, {})[other.agent] = row.accuracy.value
    rows = [
        (row, row.trajectories / row.grids, by_cell.get((row.size, row.complexity, row.condition)))
        for row in agent.cells
    ]
    return say.table("cells", rows, agent=agent.agent)


def calibration_table(results: Sequence[Navigation]) -> Table | None:
    """Return the table of calibration; None without probabilities."""
    known = [(r, fit) for r in results if (fit := r.behaviour.calibration) is not None]
    # A table of reference agents alone would answer a question that nobody asked.
    if all(result.reference for result, _ in known):
        return None
    return say.table("calibration", known)


def mixed_table(results: Sequence[Navigation]) -> Table | None:
    """Return the table of the mixed model in mazes; None if no model can be fitted."""
    # A term of the model -> its unit in words, and percentage points of it in the model's unit.
    units = say("mixed_units")
    rows = []
    for result in results:
        # A changed frame is another condition of the same grid, which the model does not know.
        unchanged = [walk.transform is None for walk in result.seen.trajectories]
        seen = result.seen.where(np.array(unchanged) & (result.seen.length > 0))
        if not len(seen.length) or np.ptp(seen.accuracy) < 1e-12:
            continue  # there is nothing to explain
        try:
            fit = mixed_model(seen)
        except MissingExtraError:
            return None
        except (GoalmeterError, np.linalg.LinAlgError):
            continue  # too few grids or walks for a model
        effects = {}
        for term in (term for term in fit.terms if term.name in units):
            unit, scale = units[term.name]
            low, high = (scale * end for end in term.interval)
            change = Estimate(scale * term.coefficient, (low, high), 0, 0)
            effects[unit] = {"points": change, "p": term.p_value}
        spread = 100 * fit.between_grids, 100 * fit.within_grids
        rows.append((result.agent, fit, effects, *spread))
    return say.table("mixed", rows) if any(effects for _, _, effects, *_ in rows) else None


# --- Frames ---------------------------------------------------------------------------------------
LEVEL, ACCURACY = 0.05, "accuracy"


def _framed(
    results: Sequence[Navigation], *, every: bool = False
) -> Iterator[tuple[Navigation, Frame, FrameComparison]]:
    """Each agent in each frame, compared by accuracy, or by every measure."""
    for result in results:
        for frame in () if result.frames is None else result.frames.frames:
            for test in frame.comparisons:
                if test.metric == ACCURACY or (every and not result.reference):
                    yield result, frame, test


def _margin(results: Sequence[Navigation]) -> float:
    """Points within which two accuracies count as the same; one for all agents."""
    return 100 * next(result.frames.margin for result in results if result.frames is not None)


def frames_table(results: Sequence[Navigation], *, every: bool = False, anchor: str = "") -> Table:
    """Return the table of both tests, by accuracy or by `every` measure of agents asked about."""
    rows = []
    for result, frame, test in _framed(results, every=every):
        row = {"agent": result.agent, "frame": frame, "test": test}
        row["verdict"] = words_of(verdict(test), 100 * test.equivalence.margin, "points")
        # Between frames and, in brackets, within one.
        if frame.agreement is not None and frame.self_agreement is not None:
            within = percent(frame.self_agreement.value)
            row["agreement"] = f"{percent(frame.agreement.value)} ({within})"
        rows.append(row)
    margin, level = _margin(results), percent(LEVEL, 0)
    return say.table("frames", rows, anchor=anchor, margin=margin, level=level)


def frames_picture(results: Sequence[Navigation], name: str) -> Figure:
    """Draw the change of accuracy with the frame, and the agreement of moves."""
    lines, rows = [], []
    for result, frame, test in _framed(results):
        lines.append(f"{result.agent}{' (ref.)' * result.reference}, {frame.transform}")
        rows.append((frame, test.difference))
    texts = {"frame": rows[0][0], "margin": _margin(results)}
    return say.dots("frames_picture", name, lines, rows, **texts)


def verdict(comparison: FrameComparison) -> Verdict:
    """Return the verdict of both tests, corrected for the number of frames."""
    if comparison.equivalence_corrected < LEVEL:
        return Verdict.EQUAL
    # So written that NaN, where no test can be made, is not taken for a difference.
    if not comparison.test_corrected < LEVEL:
        return Verdict.UNTOLD
    # Wilcoxon's test has no direction of the mean, so the interval of the mean must have one, too.
    return verdict_of(comparison.difference.interval, margin=0)


# --- Keys -----------------------------------------------------------------------------------------
# A neutral object in the key's place has rows of its own. Where the object or the prompt varies, a
# table says what that does: what words about keys do to an agent, and what a key does.


def key_tables(results: Sequence[Navigation], anchor: str = "") -> list[Table]:
    """Return the additional tables of a suite with keys."""
    tables = [keys_table(results, anchor), say.table("stages", named(results, "keys"))]
    if ways := named(results, "two_paths"):
        tables.append(say.table("two_paths", ways))
    return tables + factor_tables(results)


def keys_table(results: Sequence[Navigation], anchor: str = "") -> Table:
    """Return the table of how often the key is taken, with chance levels."""
    return say.table("keys", named(results, "keys"), anchor=anchor)


def factor_tables(results: Sequence[Navigation]) -> list[Table]:
    """Return the tables of the effects of prompt and object."""
    by_factor: dict[str, list[tuple[Any, ...]]] = {"": []}
    for result in results:
        for effect in result.factors:
            factor = effect.factor if isinstance(effect, Contrast) else ""
            # What is beyond chance has a sign and is in points.
            shown = points if effect.measure == TOWARDS else percent
            cells = np.vectorize(shown)(np.array(effect.cells)).tolist()
            row = result.agent, say("measures")[effect.measure], effect, cells
            by_factor.setdefault(factor, []).append(row)
    tables = []
    for factor, rows in by_factor.items():
        if factor:
            levels = rows[0][2].levels
            tables.append(say.table("single", rows, factor=factor, levels=levels))
        elif rows:
            tables.append(say.table("crossed", rows, of=rows[0][2]))
    return tables


def sentences(result: Navigation) -> list[str]:
    """Return sentences on the effects of prompt and object on taking the object."""
    out = []
    for effect in result.factors:
        if effect.measure == PICK_UP:
            name = "factors_found" if isinstance(effect, Factors) else "factor_found"
            out.append(say.sentence(name, agent=result.agent, of=effect))
    return out
