"""`goalmeter demo`: measure the embedded agents and write one page.

The organisms come first. Then what else can be measured, where the answers are exact: CliffWorld,
FrozenLake, logged trajectories, causal models and self-reflection.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import goalmeter as gm
from goalmeter._errors import MissingExtraError, require
from goalmeter.commands.navigate import of_reference
from goalmeter.commands.outcome import Outcome, shown, write_outcome
from goalmeter.commands.walks import run_folder
from goalmeter.demo import mouse, organisms
from goalmeter.meg import TrajectoryMeg, from_trajectories
from goalmeter.navigation.plan import forecast as model_forecast
from goalmeter.pages import Texts
from goalmeter.pages.meg import GLOSSARY, PolicyRow, policy_table
from goalmeter.pages.part import Part, all_findings, all_sections, all_terms
from goalmeter.pages.reflection import part_of as reflection_part
from goalmeter.reflection import Reflection
from goalmeter.reflection import measure as self_reflection
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.measure import forecast as reflection_forecast
from goalmeter.report import Finding, Link, Section, require_report_extra
from goalmeter.report.numbers import between, nats, number, p_value, percent
from goalmeter.report.tables import column, table_of, words
from goalmeter.runs import HERE
from goalmeter.runs.forecast import together, unmeasured
from goalmeter.runs.progress import Tell
from goalmeter.tabular.trajectories import sample_trajectories

say = Texts("demo")
LAKE_NAME, LAKE_EPSILON = "FrozenLake-v1", 0.2
LOG_EPSILON, LOG_EPISODES = 0.1, 100
# Agents whose self-reflection is measured, each beside its reality check; few steps and seeds, so
# that it takes seconds.
REFLECTING = tuple(
    name
    for agent in ("random", "constant", "naive", "q-learner")
    for name in (agent, f"rc({agent})")
)
REFLECTION_STEPS, REFLECTION_SEEDS = 150, 5
_NOISE = "cliff-noise"  # id of the table that the finding leads to


# --- Policies in known worlds ---------------------------------------------------------------------
def _measured(mdp: gm.TabularMDP, noisy: Mapping[str, float]) -> list[PolicyRow]:
    """Measure the optimal policy, epsilon-greedy ones (epsilon by name), and the uniform one."""
    optimal = gm.optimal_policy(mdp)
    policies = {"optimal": optimal}
    policies |= {name: gm.epsilon_greedy(optimal, epsilon) for name, epsilon in noisy.items()}
    return [
        PolicyRow(
            name,
            gm.tabular.expected_return(mdp, policy).mean,
            gm.meg.known_utility(mdp, policy),
            gm.meg.unknown_utility(mdp, policy),
        )
        for name, policy in (policies | {"uniform": gm.uniform_policy(mdp)}).items()
    ]


def _cliff_part(rows: list[PolicyRow]) -> Part:
    """Return the table of CliffWorld, with its finding."""
    best, noisy = rows[0].known, rows[1].known
    table = policy_table(rows=rows, **say("cliff_policies", maximum=nats(best.maximum)))
    finding = Finding(
        text=f"An optimal agent with one goal square scores {nats(best.value)} of "
        f"{nats(best.maximum)} nats ({percent(best.fraction)}) towards its reward, one that errs "
        f"at every tenth decision {nats(noisy.value)} ({percent(noisy.fraction)}).",
        links=(Link("numbers", _NOISE),),
    )
    section = Section(tables=(replace(table, anchor=_NOISE),), **say("cliff"))
    return Part(sections=(section,), findings=[finding], glossary=GLOSSARY)


def _frozen_lake() -> tuple[list[PolicyRow] | None, Section]:
    """Measure policies in FrozenLake; None if Gymnasium is not installed."""
    try:
        gymnasium = require("gymnasium", extra="rl", feature="Measuring a Gymnasium environment")
    except MissingExtraError as error:
        title = "A Gymnasium environment: not measured"
        return None, Section(title=title, text=(f"{error}.",))
    env = gymnasium.make(LAKE_NAME)
    try:
        mdp = gm.TabularMDP.from_gymnasium(env)
    finally:
        env.close()
    rows = _measured(mdp, {f"ε-greedy, ε = {LAKE_EPSILON:g}": LAKE_EPSILON})
    table = policy_table(rows=rows, digits=3, **say("lake_policies", world=LAKE_NAME))
    return rows, Section(tables=(table,), **say("lake", world=LAKE_NAME, horizon=mdp.steps))


# --- Logged trajectories --------------------------------------------------------------------------
class LoggedRow(NamedTuple):
    """An estimate from logs and the exact value of the policy that wrote them."""

    agent: str
    goal: str
    estimate: TrajectoryMeg
    exact: gm.MegResult

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        row = {"agent": self.agent, "goal": self.goal, "exact": self.exact.value}
        return row | self.estimate.to_json()


def _logged(seed: int) -> list[LoggedRow]:
    """Estimate MEG from sampled episodes of an epsilon-greedy and of the uniform policy."""
    mdp = gm.cliff_world()
    policies = {
        f"ε-greedy, ε = {LOG_EPSILON:g}": gm.epsilon_greedy(gm.optimal_policy(mdp), LOG_EPSILON),
        "uniform": gm.uniform_policy(mdp),
    }
    rng = np.random.default_rng(seed)
    out = []
    for name, policy in policies.items():
        log = sample_trajectories(mdp, policy, LOG_EPISODES, rng=rng)
        known = from_trajectories(mdp, log, rng=rng)
        out.append(LoggedRow(name, "the reward", known, gm.meg.known_utility(mdp, policy)))
        unknown = from_trajectories(mdp, log, unknown="state", rng=rng)
        exact = gm.meg.unknown_utility(mdp, policy)
        out.append(LoggedRow(name, "some utility over states", unknown, exact))
    return out


def _logged_section(rows: list[LoggedRow]) -> Section:
    """Return the table of estimates from logs."""
    table = table_of(
        rows,
        (
            words("agent", lambda row: row.agent),
            words("towards", lambda row: row.goal),
            column("episodes", lambda row: row.estimate.n),
            column("estimate (nats)", lambda row: row.estimate.corrected, nats, answer=True),
            column(
                f"{percent(rows[0].estimate.confidence, 0)} interval",
                lambda row: between(row.estimate.interval, 3),
            ),
            column("held out", lambda row: number(row.estimate.held_out, 3)),
            column("p", lambda row: row.estimate.p_value, p_value),
            column("exact", lambda row: row.exact.value, nats),
        ),
        **say("logged_estimates", episodes=LOG_EPISODES),
    )
    return Section(tables=(table,), **say("logged", episodes=LOG_EPISODES))


# --- Run ------------------------------------------------------------------------------------------
def demo(
    out: str | Path, *, seed: int = 0, on: str = HERE, progress: Tell | None = None
) -> Outcome:
    """Measure the embedded agents and write report.html and results.json.

    Walks are stored in the folder and reused. Without Gymnasium, or the packages of language
    models, the page says how to install them.
    """
    tell = progress or (lambda line: None)
    require_report_extra()
    # Walks and answers with another seed are other runs.
    walks, used = (Path(out) / name / f"seed-{seed}" for name in ("organisms", "use"))
    results = organisms.measure(walks, seed=seed, on=on, progress=progress)
    cells = organisms.measure_use(used, seed=seed, on=on, progress=progress)
    tell("CliffWorld")
    cliff = _measured(gm.cliff_world(), {f"ε = {e:g}": e for e in (0.1, 0.3, 0.5)})
    tell(LAKE_NAME)
    lake, lake_section = _frozen_lake()
    tell("logged trajectories")
    logs = _logged(seed)
    tell("causal models")
    mice = mouse.measure()
    reflections = []
    for name in REFLECTING:
        tell(f"self-reflection, {name}")
        seeds = range(seed, seed + REFLECTION_SEEDS)
        reflections.append(self_reflection(name, REFLECTION_STEPS, seeds))
    tell("report")
    parts = [
        organisms.part(results),
        organisms.part_of_use(cells),
        _cliff_part(cliff),
        Part(sections=(lake_section, _logged_section(logs))),
        mouse.part(mice),
        reflection_part(reflections),
    ]
    findings = all_findings(parts)
    # The terminal shows the findings; every table is in the report.
    title, lede = say("page").values()
    summary = [title, *(f"- {finding.plain}" for finding in findings), "All of it, with tables:"]
    wrapped = [
        textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False) for line in summary
    ]
    return write_outcome(
        out,
        title,
        all_sections(parts),
        {
            "organisms": results.to_json(),
            "use": None if isinstance(cells, str) else cells,
            "cliff_world": [row.to_json() for row in cliff],
            "frozen_lake": lake and [row.to_json() for row in lake],
            "logged": [row.to_json() for row in logs],
            "mouse": mice.to_json(),
            "reflection": [_reflection(measured) for measured in reflections],
        },
        command=f"goalmeter demo --seed {seed}",
        lede=lede,
        findings=findings,
        glossary=all_terms(parts),
        tables=(),
        text="\n".join(wrapped),
        figures=False,
    )


def dry_run(out: str | Path, *, seed: int = 0, on: str = HERE) -> Outcome:
    """Estimate the cost of `demo`, without what takes seconds."""
    require_report_extra()
    # Walks and answers with another seed are other runs.
    walks, used = (Path(out) / name / f"seed-{seed}" for name in ("organisms", "use"))
    options: dict[str, Any] = {
        "steps": REFLECTION_STEPS,
        "seeds": range(seed, seed + REFLECTION_SEEDS),
    }
    played = [reflection_forecast(name, environments=BATTERY, **options) for name in REFLECTING]
    _, plans = organisms.plans_of(seed)
    folders = [(plan, run_folder(plan, walks)) for plan in plans]
    cost = [
        of_reference(plan, out=folder)
        if plan.asking is None
        else replace(model_forecast(plan, out=folder, connections=1), place="")
        for plan, folder in folders
    ]
    return shown(
        [
            together("organisms", cost),
            unmeasured(
                organisms.use_study(seed),
                "the number of answers per question is not known in advance",
                on=on,
                out=used,
            ),
            together(
                "self-reflection",
                played,
                disk=None,
                assumed=("trials run in this process and are not stored",),
            ),
        ]
    )


def _reflection(measured: Reflection) -> dict[str, Any]:
    """The measurement without its trials, of which there are hundreds."""
    environments = [
        {"name": name, "opposite": opposite, "reward_per_step": reward}
        for (name, opposite), reward in measured.by_environment().items()
    ]
    return measured.to_json() | {"environments": environments}
