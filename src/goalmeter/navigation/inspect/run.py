"""Produce the walks of a language model through Inspect, and store them in a run as they end."""

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
# Seconds before the walks that failed are made again, times the number of the round.
WAIT = 5.0
# After so many failures in a row the other walks of a round are not begun: each would wait for its
# retries in vain.
ENOUGH = 20
NOTHING: Mapping[str, Any] = {"input_tokens": 0, "output_tokens": 0, "tokens": 0, "usd": None}


class Keeper:
    """Store each walk in a run as it ends, and stop at the budget or when the server fails."""

    def __init__(self, results: Results[Trajectory]) -> None:
        self.why = "no reason known"  # the last error of the server
        self.reached = False  # whether a limit of the budget ended a walk
        # The error that ends the run, which Inspect would take for the end of a walk.
        self.broken: GoalmeterError | None = None
        self._results = results
        self._under_way: list[str] = []  # in the order in which they began
        results.progress.working = {f"process {os.getpid()}": (time.monotonic(), self._under_way)}
        self.next_round()

    def next_round(self) -> None:
        """Give the server another chance with the walks that failed."""
        self.heard: set[str] = set()  # names of the walks that have ended in this round
        self._under_way.clear()
        self._failed: list[str] = []  # outcomes of the last walks, which failed in a row

    def begins(self, name: str) -> None:
        """End a walk at once if the budget is reached or the server given up."""
        self._under_way.append(name)
        if self.reached:
            raise models.GivenUpError(models.BUDGET)
        if len(self._failed) >= ENOUGH:
            raise models.GivenUpError(self._failed[-1])

    def step(self) -> None:
        """Report progress; end a walk that could not be stored."""
        if self.broken is not None:
            # Not the error itself, whose traceback would grow with each walk.
            raise models.GivenUpError(models.ERROR)
        self._results.progress.step()

    def failed(self, error: Exception) -> None:
        """Remember why a query failed."""
        if not isinstance(error, models.GivenUpError):
            self.why = models.reason_of(error)
        if models.is_ours_to_mend(error):
            self.broken = InvalidParameterError(f"the model cannot be asked: {self.why}")

    def ended(self, trajectory: Trajectory) -> None:
        """Store a walk, unless the budget ended it."""
        if self.broken is not None:
            return
        name = made_of(trajectory).name
        if name in self._under_way:
            self._under_way.remove(name)
        if trajectory.outcome in (models.BUDGET, *models.BUDGET_LIMITS):
            self.reached = True
            return
        try:
            self._results.keep(name, trajectory)
        except GoalmeterError as error:
            self.broken = error
            return
        self.heard.add(name)
        failed = [*self._failed, trajectory.outcome][-ENOUGH:]
        self._failed = failed if has_failed(trajectory) else []


def ask(model: Any, suite: str, folder: str | Path, **options: Any) -> list[Trajectory]:
    """Return every walk of a model (of Inspect, or its name) through a suite, however it ended."""
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
    """Return every walk of a plan; `imported` ones, by key, are stored first."""
    assert plan.asking is not None
    wanted, out, server = plan.keys(), options.out, options.server
    tell = options.progress or (lambda line: None)
    # Before a folder is made: whether the model can be queried. A complete run does not need it.
    kept = set(imported or ()) | set(keys_in(out) if out is not None else ())
    asked = model
    if model is None and not kept >= wanted.keys():
        asked = models.opened(plan.agent, plan.asking, server)
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
                tell(f"{plan.agent}: {len(left)} walks are made again ({keeper.why})")
                time.sleep(WAIT * number)
                if model is None and not plan.agent.startswith(_LOCAL):
                    # Its connections belong to an evaluation that is over.
                    asked = models.opened(plan.agent, plan.asking, server)
            keeper.next_round()
            options.budget.set_prices(str(asked))
            token = models.listener.set(keeper)
            try:
                with options.budget.limits(spent):
                    log = _make_walks(plan, left, asked, server, logs)
            finally:
                models.listener.reset(token)
            spent = _added(spent, log)
            if keeper.broken is not None:
                raise keeper.broken
            for name in left if not keeper.reached else ():
                if name not in keeper.heard:  # ended by Inspect
                    task, index = wanted[name]
                    results.keep(name, Episode(task).trajectory(index, models.ERROR))
        if keeper.reached and (left := results.left):
            ended = len(wanted) - len(left)
            raise BudgetReachedError(spent, options.budget, ended=ended, walks=len(wanted))
        walks = tuple(results.by_key().values())
    if overflows := sum(walk.outcome == models.CONTEXT for walk in walks):
        tell(
            f"{plan.agent}: {overflows} walks ended with a {models.CONTEXT}: the prompt and "
            f"--max-tokens together are more than the model's context"
        )
    if failures(walks):
        tell(f"{plan.agent}: the last failure: {keeper.why}")
    return Walked(plan, walks, spent)


def spent_in(logs: Path) -> Mapping[str, Any]:
    """Return the usage of all commands whose logs are in a folder; see `Walked.spent`."""
    spent = NOTHING
    if logs.is_dir():
        from inspect_ai.log import list_eval_logs, read_eval_log

        for log in list_eval_logs(str(logs)):
            with suppress(Exception):  # a log that was not finished has no usage
                spent = _added(spent, read_eval_log(log, header_only=True))
    return spent


def _added(spent: Mapping[str, Any], log: Any) -> Mapping[str, Any]:
    """Add the usage that a log of Inspect records."""
    out = dict(spent)
    for usage in log.stats.model_usage.values():
        read = models.input_tokens(usage)
        out["input_tokens"] += read
        out["output_tokens"] += usage.output_tokens
        out["tokens"] += read + usage.output_tokens
        if usage.total_cost is not None:
            out["usd"] = (out["usd"] or 0.0) + usage.total_cost
    return out


def _make_walks(
    plan: WalkPlan, keys: Collection[str], model: Any, server: Server, logs: Path
) -> Any:
    """Evaluate the walks of a plan that have these keys, and return Inspect's log."""
    from inspect_ai import eval as evaluate

    from goalmeter.agents.inspect_providers import BATCH
    from goalmeter.navigation.inspect.task import task_of

    assert plan.asking is not None
    connections = server.max_connections
    if connections is None and plan.agent.startswith(_LOCAL):
        # Two batches: one is answered while the walks of the other ask again.
        connections = 2 * int(plan.asking.options.get("batch", BATCH))
    # A long walk that begins last would leave all connections but one idle.
    walks = plan.keys()
    longest_first = sorted(keys, key=lambda name: walks[name].task.distance, reverse=True)
    task = task_of(plan.tasks, plan.asking, only=longest_first)
    try:
        made = evaluate(
            task,
            model=model,
            display="none",
            log_dir=str(logs),
            # Following a log live takes several times as long as the walks of a small model.
            log_realtime=False,
            # Means of the walks so far, which nobody sees here, take up to a tenth of the time.
            score_display=False,
            max_connections=connections,
            # While one walk is stored or begun here, another one has its connection.
            max_samples=None if connections is None else connections + connections // 4 + 1,
            max_retries=server.max_retries,
            attempt_timeout=server.timeout,
        )
    except Exception as error:
        if not models.is_ours_to_mend(error):
            raise
        raise GoalmeterError(
            f"the model cannot be asked: {models.reason_of(error)}. Mend that, and the same "
            f"command goes on; the folder {logs} has to take Inspect's logs"
        ) from error
    # Inspect handles an interrupt itself and returns what it has.
    if not made or made[0].status == "cancelled":
        raise KeyboardInterrupt
    return made[0]
