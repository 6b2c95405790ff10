"""Run the walks of a language model through Inspect and store each as it ends."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.agents.local_models import model_agent
from goalmeter.navigation.inspect import models
from goalmeter.navigation.inspect.models import BudgetReachedError, Server
from goalmeter.navigation.plan import NavigationOptions, WalkPlan
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import Walked, failures, has_failed, study_of
from goalmeter.navigation.trajectories import Episode, Trajectory, made_of
from goalmeter.runs import Results, keys_in

LOGS = "inspect"
_LOCAL = "goalmeter-local/"
# Seconds to wait before failed walks are repeated, times the number of the round.
WAIT = 5.0
# After this many consecutive failures the other walks of a round are not started, since each would
# wait for all its retries.
ENOUGH = 20
NOTHING: Mapping[str, Any] = {"input_tokens": 0, "output_tokens": 0, "tokens": 0, "usd": None}


class Keeper:
    """Listener that stores each walk as it ends, and stops at the budget or if the server fails."""

    def __init__(self, results: Results[Trajectory]) -> None:
        self.last_error = "unknown error"  # last error of the server
        self.reached = False  # whether a limit of the budget ended a walk
        # Error that ends the run; Inspect would treat it as the end of one walk.
        self.broken: GoalmeterError | None = None
        self._results = results
        self._running: list[str] = []  # names of running walks, in the order of their start
        results.progress.working = {f"process {os.getpid()}": (time.monotonic(), self._running)}
        self.next_round()

    def next_round(self) -> None:
        """Reset the state of a round, before failed walks are repeated."""
        self.finished: set[str] = set()  # names of the walks that have ended in this round
        self._running.clear()
        self._failures: list[str] = []  # outcomes of the last consecutive failures

    def begins(self, name: str) -> None:
        """Register a walk; end it at once if the budget is reached or the server has failed."""
        self._running.append(name)
        if self.reached:
            raise models.GivenUpError(models.BUDGET)
        if len(self._failures) >= ENOUGH:
            raise models.GivenUpError(self._failures[-1])

    def step(self) -> None:
        """Report progress; end the walk if the run has failed."""
        if self.broken is not None:
            # A new error, since the traceback of `broken` would grow with each walk.
            raise models.GivenUpError(models.ERROR)
        self._results.progress.step()

    def failed(self, error: Exception) -> None:
        """Record the error of a query."""
        if not isinstance(error, models.GivenUpError):
            self.last_error = models.reason_of(error)
        if models.is_ours_to_mend(error):
            self.broken = InvalidParameterError(f"cannot query the model: {self.last_error}")

    def ended(self, trajectory: Trajectory) -> None:
        """Store a walk, unless the budget ended it."""
        if self.broken is not None:
            return
        name = made_of(trajectory).name
        if name in self._running:
            self._running.remove(name)
        if trajectory.outcome in (models.BUDGET, *models.BUDGET_LIMITS):
            self.reached = True
            return
        try:
            self._results.keep(name, trajectory)
        except GoalmeterError as error:
            self.broken = error
            return
        self.finished.add(name)
        failures = [*self._failures, trajectory.outcome]
        self._failures = failures if has_failed(trajectory) else []


def ask(model: Any, suite: str, folder: str | Path, **options: Any) -> list[Trajectory]:
    """Run every walk of a model (an Inspect model or its name) through a suite."""
    chosen = NavigationOptions(**({"asking": Asking()} | options), out=folder)
    plan = chosen.plan(model_agent(str(model)).name, suite)
    walked = ask_all(plan, chosen, model=None if isinstance(model, str) else model)
    return list(walked.trajectories)


def ask_all(
    plan: WalkPlan,
    options: NavigationOptions = NavigationOptions(),  # noqa: B008 (frozen)
    *,
    imported: Mapping[str, Trajectory] | None = None,
    model: Any = None,
) -> Walked:
    """Run every walk of a plan; `imported` walks, by key, are stored first."""
    assert plan.asking is not None
    planned, out, server = plan.keys(), options.out, options.server
    report = options.progress or (lambda line: None)
    # The model is opened before a directory is created. A complete run does not need the model.
    stored = set(imported or ()) | set(keys_in(out) if out is not None else ())
    opened = model
    if model is None and not stored >= planned.keys():
        opened = models.opened(plan.agent, plan.asking, server)
    with ExitStack() as stack:
        folder = out or stack.enter_context(tempfile.TemporaryDirectory(prefix="goalmeter-"))
        results = stack.enter_context(
            Results(study_of(plan), folder, tell=options.progress, taken_over=imported)
        )
        keeper, logs = Keeper(results), Path(folder) / LOGS
        spent = spent_in(logs)
        for number in range(options.rounds + 1):
            if not (left := results.left) or keeper.reached:
                break
            if number:
                report(f"{plan.agent}: repeating {len(left)} walks ({keeper.last_error})")
                time.sleep(WAIT * number)
                if model is None and not plan.agent.startswith(_LOCAL):
                    # The previous connections belong to an evaluation that has ended.
                    opened = models.opened(plan.agent, plan.asking, server)
            keeper.next_round()
            options.budget.set_prices(str(opened))
            token = models.listener.set(keeper)
            try:
                with options.budget.limits(spent):
                    log = _evaluate(plan, left, opened, server, logs)
            finally:
                models.listener.reset(token)
            spent = _add_usage(spent, log)
            if keeper.broken is not None:
                raise keeper.broken
            for name in left if not keeper.reached else ():
                if name not in keeper.finished:  # ended by Inspect
                    task, index = planned[name]
                    results.keep(name, Episode(task).trajectory(index, models.ERROR))
        if keeper.reached and (left := results.left):
            ended = len(planned) - len(left)
            raise BudgetReachedError(spent, options.budget, ended=ended, walks=len(planned))
        walks = tuple(results.by_key().values())
    if overflows := sum(walk.outcome == models.CONTEXT for walk in walks):
        report(
            f"{plan.agent}: {overflows} walks ended with a {models.CONTEXT}: the prompt and "
            f"--max-tokens together exceed the model's context"
        )
    if failures(walks):
        report(f"{plan.agent}: last failure: {keeper.last_error}")
    return Walked(plan, walks, spent)


def spent_in(logs: Path) -> Mapping[str, Any]:
    """Return the usage recorded by all logs in a directory; see `Walked.spent`."""
    spent = NOTHING
    if logs.is_dir():
        from inspect_ai.log import list_eval_logs, read_eval_log

        for log in list_eval_logs(str(logs)):
            with suppress(Exception):  # an unfinished log has no usage
                spent = _add_usage(spent, read_eval_log(log, header_only=True))
    return spent


def _add_usage(spent: Mapping[str, Any], log: Any) -> Mapping[str, Any]:
    """Add the usage recorded by an Inspect log."""
    out = dict(spent)
    for usage in log.stats.model_usage.values():
        inputs = models.input_tokens(usage)
        out["input_tokens"] += inputs
        out["output_tokens"] += usage.output_tokens
        out["tokens"] += inputs + usage.output_tokens
        if usage.total_cost is not None:
            out["usd"] = (out["usd"] or 0.0) + usage.total_cost
    return out


def _evaluate(plan: WalkPlan, keys: Collection[str], model: Any, server: Server, logs: Path) -> Any:
    """Run the walks of a plan with these keys in Inspect, and return its log."""
    from inspect_ai import eval as evaluate

    from goalmeter.agents.inspect_providers import BATCH
    from goalmeter.navigation.inspect.task import task_of

    assert plan.asking is not None
    connections = server.max_connections
    if connections is None and plan.agent.startswith(_LOCAL):
        # Two batches: one is answered while the walks of the other send their next queries.
        connections = 2 * int(plan.asking.options.get("batch", BATCH))
    # Long walks start first, since a long walk at the end would leave other connections idle.
    walks = plan.keys()
    longest_first = sorted(keys, key=lambda name: walks[name].task.distance, reverse=True)
    task = task_of(plan.tasks, plan.asking, only=longest_first)
    try:
        results = evaluate(
            task,
            model=model,
            display="none",
            log_dir=str(logs),
            # Realtime logs take several times as long as the walks of a small model.
            log_realtime=False,
            # Interim means are not displayed, and take up to a tenth of the time.
            score_display=False,
            max_connections=connections,
            # Extra samples use the connections while other walks are stored or started.
            max_samples=None if connections is None else connections + connections // 4 + 1,
            max_retries=server.max_retries,
            attempt_timeout=server.timeout,
        )
    except Exception as error:
        if not models.is_ours_to_mend(error):
            raise
        raise GoalmeterError(
            f"cannot query the model: {models.reason_of(error)}. Fix this and repeat the command "
            f"to resume; Inspect's logs must be writable to {logs}"
        ) from error
    # Inspect handles interrupts itself and returns a partial log.
    if not results or results[0].status == "cancelled":
        raise KeyboardInterrupt
    return results[0]
