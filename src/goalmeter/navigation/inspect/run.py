"""Produce the walks of a language model through Inspect, and store them in a run as they end.

The run is of the same kind as those of other agents; Inspect's logs are in its folder `inspect`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError
from goalmeter.agents.local_models import model_agent
from goalmeter.navigation.inspect.budget import BudgetReachedError
from goalmeter.navigation.inspect.models import (
    CONTEXT,
    ERROR,
    Server,
    is_ours_to_mend,
    opened,
    reason_of,
)
from goalmeter.navigation.plan import NavigationOptions, WalkPlan
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import Keeper, Walked, failures, listener, study_of
from goalmeter.navigation.trajectories import Episode, Trajectory
from goalmeter.runs import Results, keys_in

LOGS = "inspect"
_LOCAL = "goalmeter-local/"
# Seconds before the walks that failed are made again, times the number of the round.
WAIT = 5.0
NOTHING: Mapping[str, Any] = {"input_tokens": 0, "output_tokens": 0, "tokens": 0, "usd": None}


def ask(model: Any, suite: str, folder: str | Path, **options: Any) -> list[Trajectory]:
    """Return every walk of a model through a suite, whatever its outcome.

    Called again with the same arguments and folder it resumes the run: walks that ended are kept,
    those that the server failed are repeated.

    Args:
        model: name as Inspect spells it, such as "vllm/openai/gpt-oss-20b", or a model of Inspect.
        suite: name.
        folder: run directory.
        options: fields of `NavigationOptions`.
    """
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
    """Return every walk of a plan for a language model; see `ask`.

    `imported` are walks from logs by their keys, which are stored first. `model` is a model of
    Inspect to query instead of the one that the plan names.
    """
    assert plan.asking is not None
    wanted, out, server, progress = plan.keys(), options.out, options.server, options.progress
    # Before a folder is made: whether the model can be queried. A complete run does not need it.
    kept = set(imported or ()) | set(keys_in(out) if out is not None else ())
    asked = model
    if model is None and not kept >= wanted.keys():
        asked = opened(plan.agent, plan.asking, server)
    with ExitStack() as stack:
        folder = out or stack.enter_context(tempfile.TemporaryDirectory(prefix="goalmeter-"))
        results = stack.enter_context(
            Results(study_of(plan), folder, tell=progress, taken_over=imported)
        )
        keeper = Keeper(results)
        spent = spent_in(Path(folder) / LOGS)
        for number in range(options.rounds + 1):
            if not (left := results.left) or keeper.reached:
                break
            if number:
                if progress is not None:
                    progress(f"{plan.agent}: {len(left)} walks are made again ({keeper.why})")
                time.sleep(WAIT * number)
                if model is None and not plan.agent.startswith(_LOCAL):
                    # Its connections belong to an evaluation that is over.
                    asked = opened(plan.agent, plan.asking, server)
            keeper.next_round()
            options.budget.set_prices(str(asked))
            token = listener.set(keeper)
            try:
                with options.budget.limits(spent):
                    log = make_walks(plan, left, asked, server, Path(folder) / LOGS)
            finally:
                listener.reset(token)
            spent = _added(spent, log)
            keeper.raise_broken()
            for name in left if not keeper.reached else ():
                if name not in keeper.heard:  # ended by Inspect
                    task, index = wanted[name]
                    results.keep(name, Episode(task).trajectory(index, ERROR))
        if keeper.reached and (left := results.left):
            ended = len(wanted) - len(left)
            raise BudgetReachedError(spent, options.budget, ended=ended, walks=len(wanted))
        walks = results.by_key()
    overflows = sum(walk.outcome == CONTEXT for walk in walks.values())
    if progress is not None and overflows:
        progress(
            f"{plan.agent}: {overflows} walks ended with a {CONTEXT}: the prompt and --max-tokens "
            f"together are more than the model's context"
        )
    if progress is not None and failures(walks.values()):
        progress(f"{plan.agent}: the last failure: {keeper.why}")
    return Walked(plan, tuple(walks.values()), spent)


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
    for usage in log.stats.model_usage.values():
        cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
        read, written = usage.input_tokens + cached, usage.output_tokens
        usd = spent["usd"]
        if usage.total_cost is not None:
            usd = (usd or 0.0) + usage.total_cost
        spent = {
            "input_tokens": spent["input_tokens"] + read,
            "output_tokens": spent["output_tokens"] + written,
            "tokens": spent["tokens"] + read + written,
            "usd": usd,
        }
    return spent


def make_walks(
    plan: WalkPlan, keys: Collection[str], model: Any, server: Server, logs: Path
) -> Any:
    """Evaluate the walks of a plan that have these keys, and return Inspect's log."""
    from inspect_ai import eval as evaluate

    from goalmeter.agents.inspect_providers import BATCH, LOCAL
    from goalmeter.navigation.inspect.task import task_of

    assert plan.asking is not None
    connections = server.max_connections
    if connections is None and plan.agent.startswith(f"{LOCAL}/"):
        # Two batches: one is answered while the walks of the other ask again.
        connections = 2 * int(plan.asking.options.get("batch", BATCH))
    # A long walk that begins last would leave all connections but one idle.
    walks = plan.keys()
    longest_first = sorted(keys, key=lambda name: walks[name][0].distance, reverse=True)
    task = task_of(plan.tasks, plan.asking, only=longest_first, seed=plan.options.seed)
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
        if not is_ours_to_mend(error):
            raise
        raise GoalmeterError(
            f"the model cannot be asked: {reason_of(error)}. Mend that, and the same command goes "
            f"on; the folder {logs} has to take Inspect's logs"
        ) from error
    # Inspect handles an interrupt itself and returns what it has.
    if not made or made[0].status == "cancelled":
        raise KeyboardInterrupt
    return made[0]
