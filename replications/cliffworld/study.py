"""`goalmeter replicate meg-cliffworld`: "Measuring Goal-Directedness", section 6, appendix D."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "meg-cliffworld")

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter import meg
from goalmeter.pages import meg as meg_page
from goalmeter.report import Curve, Figure, Marks, Section, Table, grid_map, require_report_extra
from goalmeter.runs import Study, carry_out
from replications import ledger
from replications.common import DEFAULTS, GREEN, FloatArray, Outcome, StudyOptions, Texts, optional

say = Texts("cliffworld")
LEDGER_PREFIX = "meg-cliffworld/"
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Not in the paper: where the two ends of the scale lie. An epsilon of 0.75 is the uniform policy.
BASELINES = {0.0: "optimal", 0.75: "uniform"}
SHAPE = (4, 10)  # rows and columns of the world
SEEDS = 5


@dataclass(frozen=True)
class Setting:
    """One policy in one world: the optimal one (`epsilon` None) or an epsilon-greedy one."""

    goal_length: int
    epsilon: float | None = None

    @property
    def key(self) -> str:
        """As in the ids of the ledger: k=1, eps=0.1."""
        return f"k={self.goal_length}" if self.epsilon is None else f"eps={self.epsilon:g}"

    @property
    def name(self) -> str:
        """As in the paper's tables."""
        return self.key.replace("eps", "ε").replace("=", " = ")

    def task(self) -> tuple[gm.TabularMDP, FloatArray]:
        """Return the world and the policy, [H, S, A]."""
        mdp = gm.cliff_world(goal_length=self.goal_length)
        return mdp, gm.epsilon_greedy(gm.optimal_policy(mdp), self.epsilon or 0.0)


DIFFICULTY = tuple(Setting(k) for k in (1, 2, 3, 4))  # Figure 3c
NOISE = tuple(Setting(1, epsilon) for epsilon in EPSILONS)  # Figure 3b
NOISE_AND_ENDS = tuple(Setting(1, epsilon) for epsilon in sorted({*EPSILONS, *BASELINES}))


@dataclass(frozen=True, eq=False)
class Measured:
    """A setting with everything measured of it."""

    setting: Setting
    known: gm.MegResult
    unknown: gm.MegResult
    mean_return: float  # reward units
    visits: FloatArray  # expected decisions in each state, [S]
    neural: FloatArray | None = None  # [seeds], nats, if the neural measure was run


def measure(
    settings: Iterable[Setting], options: StudyOptions = DEFAULTS, seeds: Sequence[int] = ()
) -> list[Measured]:
    """Return known and certified unknown utility of each setting, and the network of each seed."""
    trials = {
        setting.name: {"setting": setting, "seeds": () if setting.epsilon in BASELINES else seeds}
        for setting in settings
    }
    study = Study[Measured]("CliffWorld", _measured, trials, noun="setting")
    return [*carry_out(study, progress=options.progress).values()]


def _measured(setting: Setting, seeds: Sequence[int]) -> Measured:
    mdp, policy = setting.task()
    known, unknown = meg.known_utility(mdp, policy), meg.unknown_utility(mdp, policy)
    visits = np.asarray(gm.tabular.occupancy(mdp, policy).sum(axis=0))
    mean = gm.tabular.expected_return(mdp, policy).mean
    # The paper's Algorithm 2: an MLP utility fitted from each seed.
    neural = meg.neural_values(mdp, policy, seeds=seeds) if seeds else None
    return Measured(setting, known, unknown, mean, visits, neural)


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Return values of ledger rows meg-cliffworld/{known,unknown}/SETTING, nats."""
    settings = {s.key: s for s in [*DIFFICULTY, *NOISE]}
    measures: dict[str, Any] = {"known": meg.known_utility, "unknown": meg.unknown_utility}
    out = {}
    for row in ids:
        kind, _, key = row.removeprefix(LEDGER_PREFIX).partition("/")
        out[row] = measures[kind](*settings[key].task()).value
    return out


def _measured_table(name: str, measured: Sequence[Measured]) -> Table:
    texts = say(name, maximum=measured[0].known.maximum)
    rows = []
    for m in measured:
        # The ends of the scale are not in the paper, and say so by their name.
        role = BASELINES.get(m.setting.epsilon) if m.setting.epsilon is not None else None
        title = f"{m.setting.name} ({role})" if role else m.setting.name
        rows.append(meg_page.PolicyRow(title, m.mean_return, m.known, m.unknown))
    table = meg_page.policy_table(texts["caption"], rows, texts["meaning"], notes=texts["notes"])
    return replace(table, anchor=texts["anchor"])


def _comparison_table(caption: str, measured: Sequence[Measured]) -> Table:
    rows = []
    for m in measured:
        neural = "not run"
        if m.neural is not None:
            spread = f" ± {2 * m.neural.std(ddof=1):.2g}" if len(m.neural) > 1 else " (1 seed)"
            neural = f"{m.neural.mean():.4f}{spread}"
        rows.append({"m": m, "neural": neural} | _beside(m))
    seeds = max(0 if m.neural is None else len(m.neural) for m in measured)
    mlp = say.line("mlp_run" if seeds else "mlp_not_run", seeds=seeds)
    return say.table("comparison_table", rows, caption=caption, mlp=mlp)


def published_numbers() -> dict[str, ledger.Number]:
    """Return the rows of the ledger by their ids, such as known/k=1."""
    return {row.id.removeprefix(LEDGER_PREFIX): row for row in ledger.load(LEDGER_PREFIX)}


def _beside(m: Measured) -> dict[str, ledger.Number]:
    published = published_numbers()
    return {kind: published[f"{kind}/{m.setting.key}"] for kind in ("known", "unknown")}


def measure_chart(name: str, measured: Sequence[Measured], caption: str = "") -> Figure:
    """Plot MEG against epsilon (Figure 3b) or goal length (Figure 3c), with published points."""
    x = [m.setting.epsilon or m.setting.goal_length for m in measured]
    points: dict[str, Any] = {"x": x, "stroke": "none", "hollow": True}
    labels, series = say.declared("series"), []
    for kind, look in say.declared("looks").items():
        values = [getattr(m, kind).value for m in measured]
        series.append(Curve(label=labels[f"{kind}_ours"], x=x, y=values, **look))
        rows = [_beside(m)[kind] for m in measured]
        look = look | {"error": [r.published_spread for r in rows] if kind == "unknown" else None}
        theirs = [row.published_value for row in rows]
        series.append(Curve(label=labels[f"{kind}_published"], y=theirs, **points, **look))
    # The series has a point for every setting, or is left out.
    neural = [m.neural for m in measured if m.neural is not None]
    if len(neural) == len(measured):
        means = [float(v.mean()) for v in neural]
        error = [2 * v.std(ddof=1) if len(v) > 1 else 0.0 for v in neural]
        look = {"colour": GREEN, "marker": "^", "error": error}
        series.append(Curve(label=labels["neural"], y=means, **points, **look))
        caption = say.line("triangles")
    axes: dict[str, Any] = {"ticks": x}
    if not say.declared(name)["chart"].get("log"):
        axes |= {"levels": [(measured[0].known.maximum, "maximum")], "limits": (0.0, None)}
    shown = "; ".join(say.line("measured", m=m) for m in measured)
    return say.curves(name, name.replace("_", "-"), series, axes, values=shown, neural=caption)


def _visits_map(m: Measured, label: str) -> Figure:
    length = m.setting.goal_length
    inside = float(m.visits[gm.cliff_world(length).reward > 0].sum())
    most = np.argsort(-m.visits, kind="stable")[:2]
    squares = " and ".join(f"row {s // SHAPE[1] + 1}, column {s % SHAPE[1] + 1}" for s in most)
    name = f"visits-{m.setting.key.replace('=', '-').replace('.', '-')}"
    texts: dict[str, Any] = {"label": label, "m": m, "inside": inside, "squares": squares}
    return _map("visits_map", name, m.visits, length, **texts)


def _map(entry: str, name: str, values: FloatArray, goal_length: int, **texts: Any) -> Figure:
    # Goals pay more than nothing, the cliff costs more than the -1 of every other square.
    reward = gm.cliff_world(goal_length).reward
    goals = {int(s): "G" for s in np.flatnonzero(reward > 0)}
    marks = Marks({0: "S", **goals}, frozenset(np.flatnonzero(reward < -1).tolist()))
    look = say.declared(entry)["chart"]
    svg = grid_map(name, values.reshape(SHAPE), marks=marks, **look)
    return say.figure(entry, svg, k=goal_length, **texts)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Measure the policies of Figures 3 and 5 and Appendix D.1 and D.2, in this process.

    Seeds are runs of the neural measure for each policy, 5 by default; 0 leaves it out.
    """
    seeds = options.count(SEEDS, least=0)
    require_report_extra()
    if seeds:
        optional("torch", "neural", "The neural measure (--seeds 0 leaves it out)")
    run = range(options.seed, options.seed + seeds)
    by_length = measure(DIFFICULTY, options, run)
    noisy = measure(NOISE_AND_ENDS, options, run)
    by_noise = [m for m in noisy if m.setting.epsilon in EPSILONS]
    by_kind = {kind: ledger.load(f"{LEDGER_PREFIX}{kind}/") for kind in ("known", "unknown")}
    compared = (
        _comparison_table("Appendix D.1, first table: goal length k", by_length),
        _comparison_table("Appendix D.1, second table: ε-greedy", by_noise),
    )
    remarks, names = [], {setting.key: setting.name for setting in (*DIFFICULTY, *NOISE)}
    for kind, rows in by_kind.items():
        lines = [(names[row.id.rpartition("/")[2]], f"{row.ours:g}", row) for row in rows]
        remarks.append(say.table("remarks_table", lines, kind=kind))
    rewards = {k: gm.cliff_world(k).reward for k in (1, 3)}
    worlds = [_map("world_map", f"world-{k}", reward, k) for k, reward in rewards.items()]
    lengths = {m.setting.goal_length: m for m in by_length}
    goes = _visits_map(lengths[1], "Figure 5a."), _visits_map(lengths[4], "Figure 5b.")
    easier = _measured_table("difficulty_table", by_length), measure_chart("figure_3c", by_length)
    noise_table = _measured_table("noise_table", noisy)
    noise = [measure_chart(name, by_noise) for name in ("figure_3b", "figure_3b_log")]
    sections = [
        say.section("appendix_d_1_the_tables", compared),
        Section(title="Every difference, named", tables=tuple(remarks)),
        say.section("the_world", worlds),
        say.section("does_meg_fall_as_the_task_gets_easier", easier),
        say.section("where_the_optimal_agents_go", goes),
        say.section("does_meg_fall_as_the_agent_gets_noisier", noise_table, noise),
    ]
    result = {
        "replication": "meg-cliffworld",
        "goal_length": [_json(m) for m in by_length],
        "epsilon": [_json(m) for m in by_noise],
    }
    findings, tables = _findings(by_kind, [*by_length, *by_noise]), (*compared, *remarks)
    return say.report(out, options, sections, result, findings, meg_page.GLOSSARY, tables)


def _findings(by_kind: Mapping[str, Any], measured: list[Measured]) -> list[str]:
    known = [row for row in by_kind["known"] if row.relation == "equal"]
    bounds = [row for row in by_kind["unknown"] if row.relation == "lower bound"]
    same = sum(row.verdict == ledger.AS_PRINTED for row in known)
    # The authors' values of the ε column are a tenth of the exact ones, cut off or rounded.
    tenth = sum(abs(10 * row.published_value / row.ours - 1) < 0.5 for row in known)
    # How far the worst of the network's seeds stays below the proven bound, nats.
    short = [
        m.unknown.upper_bound - float(m.neural.min()) for m in measured if m.neural is not None
    ]
    # All but the last, ε = 0.9, are within some percent of each other and said together.
    above = sorted(row.ours / row.published_value - 1 for row in bounds)
    other = len(known) - same - tenth
    return [
        say.line("known", same=same, known=len(known), tenth=tenth, other=other),
        say.line(
            "unknown",
            held=sum(row.verdict == ledger.HOLDS for row in bounds),
            bounds=len(bounds),
            least=above[0],
            most=above[-2],
            factor=above[-1] + 1,
            network=say.line("network", short=max(short)) if short else "",
        ),
        say.line("conclusion"),
    ]


def _json(m: Measured) -> dict[str, Any]:
    out = say.record("setting_record", m=m)
    for kind, row in _beside(m).items():
        out[f"{kind}_utility"] |= say.record("published_record", row=row)
    return out


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    settings = len(DIFFICULTY) + len(NOISE)
    networks = settings * options.count(SEEDS, least=0)
    return {"settings": settings + len(BASELINES), "networks": networks}
