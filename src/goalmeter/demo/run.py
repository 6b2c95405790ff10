"""`goalmeter demo`: measure the embedded agents and write one page.

The organisms come first. Then what else can be measured, where the answers are exact: CliffWorld,
FrozenLake, logged trajectories, causal models and self-reflection.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from contextlib import closing
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
from goalmeter.pages.part import Part, joined
from goalmeter.pages.reflection import part_of as reflection_part
from goalmeter.reflection import measure as self_reflection
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.measure import forecast as reflection_forecast
from goalmeter.report import Finding, Link, Section, require_report_extra
from goalmeter.report.numbers import nats, percent
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
    section = say.section("cliff", replace(table, anchor=_NOISE))
    return Part(sections=(section,), findings=[finding], glossary=GLOSSARY)


def _frozen_lake() -> tuple[list[PolicyRow] | None, Section]:
    """Measure policies in FrozenLake; None if Gymnasium is not installed."""
    try:
        gymnasium = require("gymnasium", extra="rl", feature="Measuring a Gymnasium environment")
    except MissingExtraError as error:
        title = "A Gymnasium environment: not measured"
        return None, Section(title=title, text=(f"{error}.",))
    with closing(gymnasium.make(LAKE_NAME)) as env:
        mdp = gm.TabularMDP.from_gymnasium(env)
    rows = _measured(mdp, {f"ε-greedy, ε = {LAKE_EPSILON:g}": LAKE_EPSILON})
    table = policy_table(rows=rows, digits=3, **say("lake_policies", world=LAKE_NAME))
    return rows, say.section("lake", table, world=LAKE_NAME, horizon=mdp.steps)


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


def _logged(seed: int) -> tuple[list[LoggedRow], Section]:
    """Estimate MEG from sampled episodes of an epsilon-greedy and of the uniform policy."""
    mdp = gm.cliff_world()
    policies = {
        f"ε-greedy, ε = {LOG_EPSILON:g}": gm.epsilon_greedy(gm.optimal_policy(mdp), LOG_EPSILON),
        "uniform": gm.uniform_policy(mdp),
    }
    rng = np.random.default_rng(seed)
    rows = []
    for name, policy in policies.items():
        log = sample_trajectories(mdp, policy, LOG_EPISODES, rng=rng)
        known = from_trajectories(mdp, log, rng=rng)
        rows.append(LoggedRow(name, "the reward", known, gm.meg.known_utility(mdp, policy)))
        unknown = from_trajectories(mdp, log, unknown="state", rng=rng)
        exact = gm.meg.unknown_utility(mdp, policy)
        rows.append(LoggedRow(name, "some utility over states", unknown, exact))
    confidence = percent(rows[0].estimate.confidence, 0)
    table = say.table("logged_estimates", rows, episodes=LOG_EPISODES, confidence=confidence)
    return rows, say.section("logged", table, episodes=LOG_EPISODES)


# --- Run ------------------------------------------------------------------------------------------
def _folders(out: str | Path, seed: int) -> tuple[Path, Path]:
    """Return where walks and answers are stored; those with another seed are other runs."""
    return Path(out) / "organisms" / f"seed-{seed}", Path(out) / "use" / f"seed-{seed}"


def demo(
    out: str | Path, *, seed: int = 0, on: str = HERE, progress: Tell | None = None
) -> Outcome:
    """Measure the embedded agents and write report.html and results.json."""
    tell = progress or (lambda line: None)
    require_report_extra()
    walks, used = _folders(out, seed)
    results = organisms.measure(walks, seed=seed, on=on, progress=progress)
    cells = organisms.measure_use(used, seed=seed, on=on, progress=progress)
    tell("CliffWorld")
    cliff = _measured(gm.cliff_world(), {f"ε = {e:g}": e for e in (0.1, 0.3, 0.5)})
    tell(LAKE_NAME)
    lake, lake_section = _frozen_lake()
    tell("logged trajectories")
    logs, logs_section = _logged(seed)
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
        Part(sections=(lake_section, logs_section)),
        mouse.part(mice),
        reflection_part(reflections),
    ]
    page = joined(parts)
    # The terminal shows the findings; every table is in the report.
    title, lede = say("page").values()
    findings = [f"- {finding.plain}" for finding in page.findings]
    summary = [title, *findings, "All of it, with tables:"]
    wrapped = [
        textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False) for line in summary
    ]
    return write_outcome(
        out,
        title,
        page.sections,
        {
            "organisms": results.to_json(),
            "use": None if isinstance(cells, str) else cells,
            "cliff_world": [row.to_json() for row in cliff],
            "frozen_lake": lake and [row.to_json() for row in lake],
            "logged": [row.to_json() for row in logs],
            "mouse": mice.to_json(),
            # Without trials, of which there are hundreds.
            "reflection": [
                each.to_json()
                | {
                    "environments": [
                        {"name": name, "opposite": opposite, "reward_per_step": reward}
                        for (name, opposite), reward in each.by_environment().items()
                    ]
                }
                for each in reflections
            ],
        },
        command=f"goalmeter demo --seed {seed}",
        lede=lede,
        findings=page.findings,
        glossary=page.glossary,
        tables=(),
        text="\n".join(wrapped),
        figures=False,
    )


def dry_run(out: str | Path, *, seed: int = 0, on: str = HERE) -> Outcome:
    """Estimate the cost of `demo`, without what takes seconds."""
    require_report_extra()
    walks, used = _folders(out, seed)
    cost = []
    for plan in organisms.plans_of(seed)[1]:
        folder = run_folder(plan, walks)
        if plan.asking is None:
            cost.append(of_reference(plan, out=folder))
        else:
            cost.append(replace(model_forecast(plan, out=folder, connections=1), place=""))
    use = unmeasured(
        organisms.use_study(seed),
        "the number of answers per question is not known in advance",
        on=on,
        out=used,
    )
    seeds = range(seed, seed + REFLECTION_SEEDS)
    played = [
        reflection_forecast(name, environments=BATTERY, steps=REFLECTION_STEPS, seeds=seeds)
        for name in REFLECTING
    ]
    assumed = ("trials run in this process and are not stored",)
    reflection = together("self-reflection", played, disk=None, assumed=assumed)
    return shown([together("organisms", cost), use, reflection])
