"""Measure a sweep chunk by chunk, store or resume it, and show its rows and means."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain, islice, product
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidFileError, MissingExtraError, json_text, shown
from goalmeter._files import digest, json_value
from goalmeter._types import FloatArray
from goalmeter.meg.known import known_utility_many
from goalmeter.meg.result import MegResult, json_number
from goalmeter.meg.sweeps import plan as plans
from goalmeter.meg.sweeps.plan import POLICY, UNKNOWN, UTILITY, WORLD, SweepChoice, SweepPlan
from goalmeter.meg.unknown import unknown_utility, unknown_utility_many
from goalmeter.report.numbers import general, nats, percent
from goalmeter.report.tables import data_frame, html_table, text_table
from goalmeter.runs import HERE, JobResult, Study, carry_out, read_run, stored_results
from goalmeter.runs.forecast import Forecast, Span, left_of, unmeasured
from goalmeter.runs.jobs import REFUSED
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import RUN, another_kind
from goalmeter.statistics.clusters import Estimate, estimate
from goalmeter.tabular import TabularMDP, load_features, load_policy, load_utility
from goalmeter.tabular.arrays import as_floats, naming
from goalmeter.tabular.planning import optimal_policies
from goalmeter.tabular.policies import check_policy

CERTIFIED, OPEN, FAILED = "certified", "open", "failed"
_STATUSES = {name[0]: name for name in (CERTIFIED, OPEN, FAILED)}
NUMBERS = ("value", "upper_bound", "maximum", "rationality", "bound_size")
_TEXTS = ("method", "note")


# --- Rows as columns ------------------------------------------------------------------------------
class WorldFacts(NamedTuple):
    """Size of a world, and the digest of its arrays."""

    states: int
    actions: int
    horizon: int | None  # decisions; None for the infinite problem
    discount: float
    world_digest: str


class SweepValues(NamedTuple):
    """The measured numbers of one row; NaN where it failed."""

    status: str
    value: float = math.nan
    upper_bound: float = math.nan
    maximum: float = math.nan
    rationality: float = math.nan
    bound_size: float = math.nan
    method: str = ""
    note: str = ""

    @property
    def fraction(self) -> float:
        """Value / maximum, in [0, 1]; 0 where no decision can matter, NaN of a row that failed."""
        return 0.0 if self.maximum <= 0 else min(self.value / self.maximum, 1.0)


# A chunk keeps its rows column by column, each of them one text with a cell for each row:
#   worlds           the `WorldFacts` of each world as a list; None for one that could not be made
#   value, ...       the `NUMBERS`, NaN in rows that failed
#   status           the first letters
#   method, note     places in `words`, which has each sentence once
Columns = Mapping[str, Any]


def columns_of(worlds: Sequence[WorldFacts | None], rows: Sequence[SweepValues]) -> Columns:
    """Return the columns of some rows, which are JSON."""
    cells = dict(zip(SweepValues._fields, zip(*rows, strict=True), strict=True))
    words: dict[str, int] = {}
    out: dict[str, Any] = {"worlds": [None if world is None else list(world) for world in worlds]}
    out |= {name: " ".join(repr(float(number)) for number in cells[name]) for name in NUMBERS}
    for name in _TEXTS:
        out[name] = " ".join(str(words.setdefault(text, len(words))) for text in cells[name])
    return out | {"status": "".join(status[0] for status in cells["status"]), "words": list(words)}


def rows_of(columns: Columns) -> Iterator[tuple[WorldFacts | None, SweepValues]]:
    """Yield every row, and its world."""
    facts = [None if entry is None else WorldFacts(*entry) for entry in columns["worlds"]]
    each = len(columns["status"]) // len(facts)
    numbers = (map(float, columns[name].split()) for name in NUMBERS)
    texts = ([columns["words"][int(place)] for place in columns[name].split()] for name in _TEXTS)
    rows = zip(columns["status"], *numbers, *texts, strict=True)
    for row, (letter, *values) in enumerate(rows):
        yield facts[row // each], SweepValues(_STATUSES[letter], *values)


# --- Result ---------------------------------------------------------------------------------------
# Intervals generalise to worlds that were not drawn: Student's t over worlds, none for a single
# world. Rows that failed are counted and enter no mean; values without a certificate are lower
# bounds and enter as such.

# From this number of worlds on, an interval needs no random draws: one more world at an end of the
# range would not move the mean, and Student's t says nearly the same.
_CROWD = 1000
JSON_ROWS = 10_000  # longer tables are left out of JSON
_NOTES_IN_TEXT, _NOTES_IN_JSON = 3, 100
FACTS = ("states", "actions", "horizon", "discount")
RESULTS = ("value", "upper_bound", "maximum", "fraction", "rationality", "bound_size")


@dataclass(frozen=True)
class SweepGroup:
    """Means over worlds, for one policy and one utility."""

    policy: str
    utility: str
    value: Estimate  # MEG in nats
    fraction: Estimate  # share of the maximum
    measured: int  # number of rows with a value
    not_certified: int  # number of these
    failed: int  # number of rows without a value
    policy_arguments: Mapping[str, Any]
    at: Any  # the value of an argument that these worlds share; None for all worlds

    def value_in_words(self) -> str:
        """Return the mean in nats, with its interval in brackets if it has one."""
        ends = self.value.interval and ", ".join(map(nats, self.value.interval))
        return nats(self.value.value) + (f" [{ends}]" if ends else "")


@dataclass(frozen=True)
class SweepRow:
    """MEG of one policy towards one utility in one world."""

    world: str  # name, unique among worlds with arguments
    policy: str
    utility: str  # "unknown state" for the best of all utilities over states
    world_arguments: Mapping[str, Any]
    policy_arguments: Mapping[str, Any]
    utility_arguments: Mapping[str, Any]
    measured: SweepValues  # the numbers and the method; NaN where the row failed
    facts: WorldFacts | None  # of the world; None where it could not be made


@dataclass(frozen=True, eq=False)
class Sweep:
    """MEG of policies × utilities × worlds."""

    plan: SweepPlan
    chunks: Sequence[Columns] = field(repr=False)  # results, in the order of the rows

    def __len__(self) -> int:
        return math.prod(self.plan.shape)

    @property
    def rows(self) -> Iterator[SweepRow]:
        """Every row in order: all of the first world, policy by policy and utility by utility."""
        pairs = list(product(self.plan.policies, self.plan.utilities))
        cases = ((world, *pair) for world in self.plan.worlds() for pair in pairs)
        for case, (facts, values) in zip(cases, self._all_rows(), strict=True):
            cells: list[Any] = [choice.label for choice in case]
            cells += [*(choice.arguments for choice in case), values, facts]
            yield SweepRow(*cells)

    def _all_rows(self) -> Iterator[tuple[WorldFacts | None, SweepValues]]:
        return chain.from_iterable(map(rows_of, self.chunks))

    @cached_property
    def arguments(self) -> dict[str, list[Any]]:
        """All values of each argument, by its column: `world.NAME`, `policy.NAME`, ..."""
        out: dict[str, list[Any]] = {}
        for source in self.plan.sources:
            if source.role == plans.GENERATOR:
                for name, values in source.axes.items():
                    out.setdefault(f"{WORLD}.{name}", []).extend(values)
        for prefix, choices in ((POLICY, self.plan.policies), (UTILITY, self.plan.utilities)):
            for choice in choices:
                for name, value in choice.arguments.items():
                    out.setdefault(f"{prefix}.{name}", []).append(value)
        return out

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the table."""
        names = ("row", WORLD, POLICY, UTILITY, *self.arguments, *FACTS, *RESULTS)
        return (*names, "status", "method", "notes", "world_digest")

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every row by the names of `columns`; None if missing, lists and such as text."""
        blank: dict[str, Any] = dict.fromkeys(self.columns)
        for number, row in enumerate(self.rows):
            out = blank | {"row": number}
            for prefix in (WORLD, POLICY, UTILITY):
                out[prefix] = getattr(row, prefix)
                for name, value in getattr(row, f"{prefix}_arguments").items():
                    is_plain = isinstance(value, (int, float, str)) or value is None
                    out[f"{prefix}.{name}"] = value if is_plain else json_text(value)
            out |= {} if row.facts is None else row.facts._asdict()
            out |= {"status": row.measured.status, "notes": row.measured.note or None}
            if row.measured.status != FAILED:
                out |= {name: getattr(row.measured, name) for name in (*RESULTS, "method")}
            yield out

    @cached_property
    def summary(self) -> list[SweepGroup]:
        """Means over worlds, for each policy and utility."""
        return self.means()

    def means(self, argument: str | None = None) -> list[SweepGroup]:
        """Return means over all worlds, or over those that share a value of an argument."""
        pairs = list(product(self.plan.policies, self.plan.utilities))
        measured = (values for _, values in self._all_rows())
        groups: dict[Any, list[tuple[SweepValues, ...]]] = {}  # rows of each world, by argument
        for world in self.plan.worlds():
            given: Mapping[Any, Any] = world.arguments
            of_world = tuple(islice(measured, len(pairs)))
            if argument is None or argument in given:
                groups.setdefault(given.get(argument), []).append(of_world)
        out = []
        for (number, (policy, utility)), at in product(enumerate(pairs), sorted(groups)):
            rows = [of_world[number] for of_world in groups[at]]
            rows = [row for row in rows if row.status != FAILED]
            mean = estimate([row.value for row in rows])
            if mean.interval is not None:  # Student's t may go below 0, MEG does not
                mean = replace(mean, interval=(max(mean.interval[0], 0.0), mean.interval[1]))
            shares = [row.fraction for row in rows]
            fraction = estimate(shares, bounds=(0.0, 1.0), paired=len(shares) > _CROWD)
            not_certified = sum(row.status == OPEN for row in rows)
            counts = len(rows), not_certified, len(groups[at]) - len(rows)
            names = policy.label, utility.label
            out.append(SweepGroup(*names, mean, fraction, *counts, policy.arguments, at))
        return out

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of rows of each status: certified, open and failed."""
        letters = "".join(chunk["status"] for chunk in self.chunks)
        return {name: letters.count(letter) for letter, name in _STATUSES.items()}

    def sentences(self, status: str) -> dict[str, int]:
        """Return the notes of rows with a status and their counts, the most frequent first."""
        notes = (row.note for _, row in self._all_rows() if row.status == status)
        return dict(Counter(notes).most_common())

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; `rows` is None where there are more than 10,000."""
        records = self.records() if len(self) <= JSON_ROWS else ()
        rows = [
            {name: json_number(v) if isinstance(v, float) else v for name, v in record.items()}
            for record in records
        ]
        of_group = ("policy", "utility", "value", "fraction", "measured", "not_certified", "failed")
        means = [{name: getattr(each, name) for name in of_group} for each in self.summary]
        return {
            "worlds": self.plan.shape[0],
            "policies": [choice.label for choice in self.plan.policies],
            "utilities": [choice.label for choice in self.plan.utilities],
            "counts": {"rows": len(self), **self.counts},
            "failures": dict(islice(self.sentences(FAILED).items(), _NOTES_IN_JSON)),
            "summary": json_value(means),
            "rows": rows or None,
        }

    def to_pandas(self) -> Any:
        """Return `records` as a pandas data frame."""
        return data_frame(list(self.records()))

    @property
    def heading(self) -> str:
        """Caption of the table of the sweep."""
        one, several = ("world", "policy", "utility"), ("worlds", "policies", "utilities")
        nouns = zip(self.plan.shape, one, several, strict=True)
        worlds, policies, utilities = (f"{n} {x if n == 1 else xs}" for n, x, xs in nouns)
        return f"MEG of {policies} towards {utilities} in {worlds}"

    def notes(self) -> list[str]:
        """Return notes on the means: negative, uncertified and failed rows."""
        negative = sum(v.rationality < 0 and v.value > 1e-9 for _, v in self._all_rows())
        failures = [f"{times}: {text}" for text, times in self.sentences(FAILED).items()]
        if (left := len(failures) - _NOTES_IN_TEXT) > 0:
            failures[_NOTES_IN_TEXT:] = [f"and {left} other sentence{'s' * (left > 1)}"]
        _, uncertified, failed = self.counts.values()
        counted = {
            "have a negative rationality: the policy does worse than the reference, and the means "
            "count the absolute value.": negative,
            "are not certified: their value is a lower bound, and counts as such.": uncertified,
            f"failed ({'; '.join(failures)}).": failed,
        }
        return [f"{n} of {len(self)} rows {text}" for text, n in counted.items() if n]

    def _cells(self) -> Sequence[Sequence[str]]:
        rows = [("policy", "utility", "worlds", "MEG, mean", "share of maximum", "failed")]
        for group in self.summary:
            numbers = str(group.measured), group.value_in_words(), percent(group.fraction.value)
            rows.append((group.policy, group.utility, *numbers, str(group.failed)))
        return rows

    def _repr_html_(self) -> str:
        heads, *rows = self._cells()
        return html_table(self.heading, heads, rows, self.notes())

    def __str__(self) -> str:
        return "\n".join([text_table(self.heading, self._cells()), *self.notes()])


# --- Measurement ----------------------------------------------------------------------------------
# Arguments and result are JSON, so any process can do it. What is wrong with a world, a policy or a
# utility is a sentence in its place, which becomes the note of its rows and stops no other row.
def _attempt(function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """Return the value of a function, or the sentence of why there is none."""
    try:
        return function(*arguments, **more)
    except (GoalmeterError, MissingExtraError) as error:
        return str(error)


def measure(what: Mapping[str, Any], key: str) -> Columns:
    """Return the columns of a chunk of a stored plan."""
    plan = plans.plan_of(what)
    source, numbers, policies = plan.part(plan.chunks[key])
    code = (path for path in plan.contents if path.endswith(".py"))
    for path in {*code, *plan.data_paths(source, numbers)}:
        if (expected := plan.contents.get(path)) is not None and digest(path) != expected:
            raise InvalidFileError(
                f"{path} has changed since the sweep began; restore it, or begin again in another "
                f"folder"
            )
    made = {number: _attempt(source.make, number) for number in numbers}
    good = {n: world for n, world in made.items() if not isinstance(world, str)}
    best = cache(lambda: optimal_policies(list(good.values())))
    played = [_arrays(plan.policies[p], source, good, best) for p in policies]
    found: dict[tuple[int, int, int], SweepValues] = {}  # by world, policy and utility
    for u, utility in enumerate(plan.utilities):
        aims = _arrays(utility, source, good, best)
        cases: dict[tuple[int, int, int], Any] = {}
        for (p, policy), n in product(enumerate(played), numbers):
            case = (made[n], policy.get(n), aims.get(n))
            if sentences := [value for value in case if isinstance(value, str)]:
                found[n, p, u] = SweepValues(FAILED, note=sentences[0])
            else:
                cases[n, p, u] = case
        rows = _measured(list(cases.values()), utility, plan.timeout)
        found |= zip(cases, rows, strict=True)
    size_of = attrgetter("n_states", "n_actions", "horizon", "discount")
    facts = {n: WorldFacts(*size_of(world), world.digest()) for n, world in good.items()}
    return columns_of(list(map(facts.get, numbers)), [found[place] for place in sorted(found)])


_READERS = {POLICY: load_policy, UTILITY: load_utility, UNKNOWN: load_features}


def _arrays(
    choice: SweepChoice, source: plans.SweepEntry, worlds: Mapping[int, TabularMDP], best: Any
) -> Mapping[int, FloatArray | str]:
    """Return the array of each world, or what is wrong; none for its reward or a named class."""
    if choice.is_word and choice.role != POLICY:
        return {}
    if choice.is_word:
        build = plans.POLICIES[choice.name]
        made = _attempt(build, list(worlds.values()), best, **choice.arguments)
        every = [made] * len(worlds) if isinstance(made, str) else made
        return dict(zip(worlds, every, strict=True))
    read, function = cache(_READERS[choice.role]), cache(lambda: plans.function_of(choice))

    def load(number: int, world: TabularMDP) -> FloatArray:
        name = choice.path_in(source.choice(number))
        value = read(name) if name.endswith(".npz") else plans.call(function(), choice, world)
        with naming(name):
            if choice.role != POLICY:  # its shape is checked later
                return as_floats(value, "the array", InvalidFileError)
            check_policy(world, value)
            return np.asarray(value, dtype=np.float64)

    return {number: _attempt(load, number, world) for number, world in worlds.items()}


def _measured(cases: Sequence[Any], utility: SweepChoice, limit: float | None) -> list[SweepValues]:
    """Return the row of each case: a world, a policy, and a utility or features, or None."""
    results = _attempt(_results, cases, utility, limit) if cases else []
    if not isinstance(results, str):
        return list(map(_row_of, results))
    if len(cases) == 1:
        return [SweepValues(FAILED, note=results)]
    half = len(cases) // 2  # as a batch names no row, the rows that fail are looked for
    parts = (cases[:half], cases[half:])
    return [row for part in parts for row in _measured(part, utility, limit)]


def _results(cases: Sequence[Any], utility: SweepChoice, limit: float | None) -> list[MegResult]:
    if utility.role == UNKNOWN and not utility.is_word:
        options: dict[str, Any] = {"progress": False, "timeout": limit}
        return [unknown_utility(mdp, played, features=aim, **options) for mdp, played, aim in cases]
    worlds, policies, aims = zip(*cases, strict=True)
    if utility.role != UNKNOWN:
        return known_utility_many(worlds, policies, utilities=aims)
    over: Any = utility.name
    # The time of a joint search is the sum over its rows.
    total = None if limit is None else limit * len(cases)
    return unknown_utility_many(worlds, policies, over=over, timeout=total)


def _row_of(result: MegResult) -> SweepValues:
    notes, status = list(result.notes), CERTIFIED
    if not result.certified:
        status = OPEN
        ended = f" when the {result.stopped} ended the search" if result.stopped else ""
        bound = f"the bound was {general(result.gap, 2)} nats above the value{ended}"
        notes.insert(0, f"the optimum is not certified: {bound}")
    numbers = {name: getattr(result, name) for name in NUMBERS}
    return SweepValues(status, **numbers, method=result.method, note="; ".join(notes))


# --- Runs -----------------------------------------------------------------------------------------
def study_of(plan: SweepPlan) -> Study[Columns]:
    """Return the study of a plan, whose trials are chunks."""
    what = plan.to_json()
    sizes = {key: (len(rows), len(plan.part(rows)[1])) for key, rows in plan.chunks.items()}

    def read(key: str, columns: Columns) -> Columns:
        rows, worlds = sizes[key]
        try:
            found = len(list(rows_of(columns))), len(columns["worlds"])
            if found != (rows, worlds):
                raise ValueError(f"there are {found[0]} rows in {found[1]} worlds")
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as cause:
            raise InvalidFileError(
                f"its columns are not of {rows} rows in {worlds} worlds, as its key has it: "
                f"{shown(str(cause))}"
            ) from cause
        return columns

    def lost(key: str, result: JobResult) -> Columns:
        if result.outcome == REFUSED:
            raise result.refusal()  # a file has changed: stored and new chunks do not fit together
        sentence = f"the process that measured it ended with {result.outcome}: {result.detail}"
        rows, worlds = sizes[key]
        return columns_of([None] * worlds, [SweepValues(FAILED, note=sentence)] * rows)

    return Study(
        plans.KIND,
        "goalmeter.meg.sweeps.sweep:measure",
        {key: {"key": key} for key in plan.chunks},
        common={"what": what},
        noun="chunk",
        what=what,
        from_json=read,
        is_failure=lambda columns: FAILED[0] in columns["status"],
        instead=lost,
    )


def forecast_of(plan: SweepPlan, *, on: str = HERE, out: str | Path | None = None) -> Forecast:
    """Return the chunks that are left of a sweep, with a rough estimate of their cost."""
    study = study_of(plan)
    left = [plan.chunks[key] for key in left_of(study.trials, out)]
    rows, worlds = sum(map(len, left)), sum(len(plan.part(chunk)[1]) for chunk in left)
    size = 100 * rows + 50 * worlds + 400 * len(left)  # bytes in a run directory
    rough = "the time is a rough estimate from the numbers of states; nothing was measured for it"
    forecast = unmeasured(study, rough, on=on, out=out)
    parallel = min(forecast.slots, max(len(left), 1))
    every = math.prod(plan.shape)
    counted = zip(("worlds", "policies", "utilities", "rows"), (*plan.shape, every), strict=True)
    return replace(
        forecast,
        counted=dict(counted),
        hours=Span.of(plan.seconds * rows / every / parallel / 3600),
        disk=Span.of(size + (len(json_text(study.what)) if left else 0)),
    )


def play(plan: SweepPlan, *, on: str, out: str | Path | None, progress: Tell | None) -> Sweep:
    """Measure every chunk; see `runs.carry_out`."""
    results = carry_out(study_of(plan), on=on, out=out, progress=progress)
    return Sweep(plan, list(results.values()))


def load(folder: str | Path) -> Sweep:
    """Return the sweep of a finished run; files of the sweep itself may be gone."""
    run = read_run(folder)
    if run.what.get("kind") != plans.KIND:
        raise another_kind(folder, run.what.get("kind"), plans.KIND)
    try:
        plan = plans.plan_of(run.what)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as cause:
        raise InvalidFileError(
            f"{Path(folder) / RUN} is of no sweep: {cause}; restore it, or begin again in another "
            f"folder"
        ) from cause
    return Sweep(plan, list(stored_results(run, study_of(plan)).values()))


def sweep(
    worlds: plans.Worlds,
    *,
    policies: Sequence[plans.Entry | str] = (),
    utilities: Sequence[plans.Entry | str] = (),
    arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    on: str = "here",
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Sweep:
    """Measure MEG of every policy towards every utility in every world, one row each.

    Worlds of equal shape are measured together, in chunks that follow from the arguments alone:
    place, order and interruptions change no number. What is wrong with a world, a policy or a
    utility becomes the note of its rows, which count as failed.

    Args:
        worlds: the path of a TOML file, which may hold all other options; the path of a folder of
            MDP files; a function of worlds as FILE.py:NAME; or a list of tables such as
            {"generator": "cliff_world", "goal_length": [1, 2]} and {"files": "mdps/*.npz"}.
        policies: built-in names ("optimal", "uniform", "epsilon_greedy(0, 0.1)",
            "soft_optimal(1, 10)"), .npz files, whose path may contain {world} and arguments of the
            world in braces, functions (world, arguments) as FILE.py:NAME, or tables such as
            {"policy": "epsilon_greedy", "epsilon": [0, 0.1]}.
        utilities: "reward" (the default), .npz files or functions in the same way; or, for the best
            utility of a class, {"unknown": "state"}, "state-action", "time-state", or features from
            a file or a function.
        arguments: of a function of worlds, by name: a list stands for each of its values,
            {"from": 0, "count": 100} for each of these numbers.
        seed: default of functions that have an argument `seed`.
        timeout: seconds that the search of a row may take, on average over rows that are searched
            together; the row then has the best value and bound so far.
        on: where chunks are measured: "here", "processes:8", or another place.
        out: run directory; an existing run is resumed.
        progress: callback for the number of finished chunks and the remaining time.

    Example: two CliffWorlds, and an agent that errs in one decision of ten.
        >>> result = sweep(
        ...     [{"generator": "cliff_world", "goal_length": [1, 4]}],
        ...     policies=["epsilon_greedy(0.1)"],
        ... )
        >>> [round(row.measured.value, 2) for row in result.rows]
        [23.79, 9.57]
    """
    options: dict[str, Any] = {"policies": policies, "utilities": utilities}
    plan = plans.plan_sweep(worlds, arguments=arguments, seed=seed, timeout=timeout, **options)
    return play(plan, on=on, out=out, progress=progress)
