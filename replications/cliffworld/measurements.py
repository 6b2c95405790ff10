"""Measure the policies of the MEG paper's two CliffWorld experiments; their tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter import InvalidParameterError
from goalmeter.pages.meg import PolicyRow, policy_table
from goalmeter.report import Figure, Table, column, grouped, table_of, words
from goalmeter.report.canvas import GREEN, VERMILION
from goalmeter.report.charts import Curve, curve_chart
from goalmeter.report.maps import Marks, grid_map
from goalmeter.report.numbers import gap, nats
from goalmeter.runs import Study, carry_out
from goalmeter.tabular import cliff_world
from goalmeter.tabular.mdp import HEIGHT, WIDTH
from replications.kinds import FloatArray, ProgressCallback
from replications.ledger import Number
from replications.prose import prose

say = partial(prose, "cliffworld")

# --- Compute --------------------------------------------------------------------------------------
GOAL_LENGTHS = (1, 2, 3, 4)
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Not in the paper: where the two ends of the scale lie. An epsilon of 0.75 is the uniform policy.
BASELINES = {0.0: "optimal", 0.75: "uniform"}


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
        return f"k = {self.goal_length}" if self.epsilon is None else f"ε = {self.epsilon:g}"

    def world(self) -> gm.TabularMDP:
        """The CliffWorld of this goal length."""
        return gm.cliff_world(goal_length=self.goal_length)

    def policy(self, mdp: gm.TabularMDP) -> FloatArray:
        """The policy, [H, S, A]."""
        return gm.epsilon_greedy(gm.optimal_policy(mdp), self.epsilon or 0.0)


@dataclass(frozen=True, eq=False)
class Measured:
    """A setting with everything measured of it.

    `mean_return` in reward units; `visits` [S], expected decisions in each state; `neural`
    [seeds], nats, if the neural measure was run.
    """

    setting: Setting
    known: gm.MegResult
    unknown: gm.MegResult
    mean_return: float
    visits: FloatArray
    neural: FloatArray | None = None


def difficulty() -> list[Setting]:
    """The settings of Figure 3c: optimal policies for goal regions of length 1 to 4."""
    return [Setting(k) for k in GOAL_LENGTHS]


def noise(*, baselines: bool = False) -> list[Setting]:
    """The settings of Figure 3b: epsilon-greedy policies; with the ends of the scale if asked."""
    epsilons = sorted({*EPSILONS, *BASELINES} if baselines else EPSILONS)
    return [Setting(1, epsilon) for epsilon in epsilons]


def measure(
    settings: Iterable[Setting], progress: ProgressCallback | None = None
) -> list[Measured]:
    """Known and certified unknown utility of each setting."""
    return [*carry_out(_study(settings), progress=progress).values()]


def _study(settings: Iterable[Setting]) -> Study[Measured]:
    trials = {setting.name: {"setting": setting} for setting in settings}
    return Study("CliffWorld", _measured, trials, noun="setting")


def _measured(setting: Setting) -> Measured:
    mdp = setting.world()
    policy = setting.policy(mdp)
    return Measured(
        setting,
        gm.meg.known_utility(mdp, policy),
        gm.meg.unknown_utility(mdp, policy),
        gm.tabular.expected_return(mdp, policy).mean,
        np.asarray(gm.tabular.occupancy(mdp, policy).sum(axis=0)),
    )


def with_neural(
    measured: Sequence[Measured], seeds: Sequence[int], progress: ProgressCallback | None = None
) -> list[Measured]:
    """The same with the paper's Algorithm 2: an MLP utility fitted from each seed."""
    by_name = {m.setting.name: m for m in measured}

    def fitted(setting: Setting) -> Measured:
        mdp = setting.world()
        values = gm.meg.neural_values(mdp, setting.policy(mdp), seeds=seeds)
        return replace(by_name[setting.name], neural=values)

    study = _neural(fitted, [m.setting for m in measured], seeds)
    return [*carry_out(study, progress=progress).values()]


def _neural(
    fitted: str | Callable[[Setting], Measured], settings: Sequence[Setting], seeds: Sequence[int]
) -> Study[Measured]:
    trials = {setting.name: {"setting": setting} for setting in settings}
    return Study(f"CliffWorld, network, {len(seeds)} seeds", fitted, trials, noun="setting")


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Values of ledger rows meg-cliffworld/{known,unknown}/SETTING, nats."""
    # Settings of the paper only: the ledger has no rows of the ends of the scale.
    settings = {s.key: s for s in [*difficulty(), *noise()]}
    measures: dict[str, Callable[..., gm.MegResult]] = {
        "known": gm.meg.known_utility,
        "unknown": gm.meg.unknown_utility,
    }
    out = {}
    for row in ids:
        _, kind, key = (*row.split("/", 2), "", "")[:3]
        if kind not in measures or key not in settings:
            raise InvalidParameterError(
                f"ledger row {row!r} cannot be recomputed, expected meg-cliffworld/KIND/SETTING "
                f"with KIND known or unknown and SETTING one of {', '.join(settings)}"
            )
        mdp = settings[key].world()
        out[row] = measures[kind](mdp, settings[key].policy(mdp)).value
    return out


# --- Tables ---------------------------------------------------------------------------------------
def measured_table(
    caption: str, measured: Sequence[Measured], meaning: str, *, anchor: str = ""
) -> Table:
    """Known and unknown utility of each policy with bounds, shares and rationalities."""
    table = policy_table(
        caption,
        [policy_row(m) for m in measured],
        meaning,
        notes=(
            f"The maximum is {nats(measured[0].known.maximum)} nats: 29 decisions that can matter, "
            "each worth log 4. Nothing is collected after the 30th.",
        ),
    )
    return replace(table, anchor=anchor)


def policy_row(m: Measured) -> PolicyRow:
    """A setting as a row, with its role if it is an end of the scale."""
    # The ends of the scale are not in the paper, and say so by their name.
    role = BASELINES.get(m.setting.epsilon) if m.setting.epsilon is not None else None
    name = f"{m.setting.name} ({role})" if role else m.setting.name
    return PolicyRow(name, m.mean_return, m.known, m.unknown)


def comparison_table(
    caption: str, measured: Sequence[Measured], published: Sequence[Number]
) -> Table:
    """One table of Appendix D.1: published values and ours."""
    printed = {row.id.removeprefix("meg-cliffworld/"): row.published for row in published}
    runs = {len(m.neural) for m in measured if m.neural is not None}
    return table_of(
        measured,
        (
            words("policy", lambda m: m.setting.name),
            *grouped(
                "known utility",
                column("published", lambda m: printed[f"known/{m.setting.key}"]),
                column("exact", lambda m: m.known.value, nats),
            ),
            *grouped(
                "unknown utility",
                column("published MLP", lambda m: printed[f"unknown/{m.setting.key}"]),
                column("our MLP", lambda m: "not run" if m.neural is None else spread(m.neural)),
                column("certified", lambda m: m.unknown.value, nats),
                column("proven gap", lambda m: m.unknown.gap, gap),
            ),
        ),
        caption=caption,
        **say("comparison_table"),
        notes=(
            f"Our MLP: mean ± 2 standard deviations over {runs.pop()} seeds of the paper's "
            "Algorithm 2, a lower bound."
            if runs
            else "Our MLP was not run (--seeds 0); the certified value bounds whatever it finds.",
            "Certified: the optimum over all utilities over states, with the distance to a "
            "proven upper bound.",
        ),
    )


def remarks_table(caption: str, rows: Sequence[Number]) -> Table:
    """Every published number, ours, and the difference in words."""
    return table_of(
        rows,
        (
            # "ε = 0.1" of a row with the id .../eps=0.1
            words("policy", lambda row: row.id.rpartition("/")[2], _policy_of),
            column("published", lambda row: row.published),
            column("ours", lambda row: f"{row.ours:g}"),
            words("verdict", lambda row: row.verdict),
            words("remark", lambda row: row.remark),
        ),
        caption=caption,
        **say("remarks_table"),
    )


def _policy_of(key: str) -> str:
    return key.replace("eps", "ε").replace("=", " = ")


def spread(values: FloatArray) -> str:
    """Mean ± 2 standard deviations of runs."""
    if len(values) == 1:
        return f"{values[0]:.4f} (1 seed)"
    return f"{values.mean():.4f} ± {2 * values.std(ddof=1):.2g}"


# --- Pictures -------------------------------------------------------------------------------------
SHAPE = (HEIGHT, WIDTH)
# Fewer expected visits than this, and what a map says of a square rests on next to nothing.


def measure_chart(
    name: str,
    caption: str,
    measured: Sequence[Measured],
    published: Sequence[Number],
    *,
    log: bool = False,
) -> Figure:
    """MEG against epsilon (Figure 3b) or goal length (Figure 3c), with the published points."""
    by_noise = measured[0].setting.epsilon is not None
    x = [m.setting.epsilon or m.setting.goal_length for m in measured]
    keys = [m.setting.key for m in measured]
    rows = {row.id.removeprefix("meg-cliffworld/"): row for row in published}
    known, unknown = ([rows[f"{kind}/{key}"] for key in keys] for kind in ("known", "unknown"))
    unknown_look: dict[str, Any] = {"x": x, "colour": VERMILION, "marker": "s"}
    series = [
        Curve(
            label="unknown utility, certified",
            y=[m.unknown.value for m in measured],
            **unknown_look,
        ),
        Curve(
            label="unknown utility, published MLP",
            y=[r.published_value for r in unknown],
            error=[r.published_spread for r in unknown],
            stroke="none",
            hollow=True,
            **unknown_look,
        ),
        Curve(label="known utility, exact", x=x, y=[m.known.value for m in measured], marker="o"),
        Curve(
            label="known utility, published",
            x=x,
            y=[r.published_value for r in known],
            stroke="none",
            marker="o",
            hollow=True,
        ),
    ]
    # The series has a point for every setting, or is left out.
    neural = [m.neural for m in measured if m.neural is not None]
    if len(neural) == len(measured):
        spread = [2 * v.std(ddof=1) if len(v) > 1 else 0.0 for v in neural]
        means = [float(v.mean()) for v in neural]
        series.append(
            Curve(
                label="unknown utility, our MLP",
                x=x,
                y=means,
                error=spread,
                colour=GREEN,
                stroke="none",
                marker="^",
                hollow=True,
            )
        )
        caption += " Triangles: our network, mean ± 2 standard deviations."
    svg = curve_chart(
        name,
        series,
        x_label="ε, the probability of another action" if by_noise else "goal length k",
        y_label="MEG, nats (log scale)" if log else "MEG, nats",
        levels=[] if log else [(measured[0].known.maximum, "maximum")],
        limits=None if log else (0.0, None),
        log=log,
        ticks=x,
        size=(4.6, 3.6),
    )
    values = "; ".join(
        f"{m.setting.name}: known {nats(m.known.value)}, unknown {nats(m.unknown.value)}"
        for m in measured
    )
    return Figure(svg=svg, alt=f"Line chart of MEG in nats. {values}.", caption=caption)


def world_map(goal_length: int) -> Figure:
    """Figure 3a: the reward of each square."""
    return _map(
        f"world-{goal_length}",
        cliff_world(goal_length).reward,
        goal_length,
        palette="signed",
        label="reward at each decision",
        alt=f"Map of CliffWorld, 4 rows by 10 columns, with a goal region of length {goal_length}: "
        "start top left, goal top right, cliff along the top row between them.",
        caption=f"CliffWorld with a goal region of length {goal_length} (Figure 3a).",
    )


def visits_map(m: Measured, label: str) -> Figure:
    """Figure 5: where the policy spends its decisions."""
    inside = float(m.visits[cliff_world(m.setting.goal_length).reward > 0].sum())
    return _map(
        f"visits-{_slug(m)}",
        m.visits,
        m.setting.goal_length,
        palette="visits",
        log=True,
        label="expected decisions in the square, of 30",
        alt=f"Map of expected visits, {m.setting.name}: {inside:.1f} of 30 decisions are taken in "
        f"the goal region, most in {_squares(m, 2)}.",
        caption=f"{label} Visits, {m.setting.name}: {inside:.1f} of 30 decisions fall in the "
        "goal region.",
    )


def _map(
    name: str,
    values: FloatArray,
    goal_length: int,
    *,
    alt: str,
    caption: str,
    faint: frozenset[int] = frozenset(),
    **look: Any,
) -> Figure:
    """A value of each square, [S], with start, goals and cliff marked."""
    # Goals pay more than nothing, the cliff costs more than the -1 of every other square.
    reward = cliff_world(goal_length).reward
    goals = {int(s): "G" for s in np.flatnonzero(reward > 0)}
    cliff = frozenset(np.flatnonzero(reward < -1).tolist())
    marks = Marks({0: "S", **goals}, cliff, faint)
    return Figure(
        svg=grid_map(name, values.reshape(SHAPE), marks=marks, **look),
        alt=alt,
        caption=f"{caption} S: start. G: goal. Hatched: cliff.",
    )


def _squares(m: Measured, n: int) -> str:
    most = np.argsort(-m.visits, kind="stable")[:n]
    return " and ".join(f"row {s // WIDTH + 1}, column {s % WIDTH + 1}" for s in most)


def _slug(m: Measured) -> str:
    return m.setting.key.replace("=", "-").replace(".", "-")
