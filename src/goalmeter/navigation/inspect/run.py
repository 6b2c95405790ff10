"""Every walk of a language model through a suite, kept in a run that can go on.

The run is of the same kind as those of reference agents: a walk is in it as soon as it has ended,
whatever Inspect has written by then. Inspect's own logs lie in its folder `inspect`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError
from goalmeter.agents.local_models import model_agent
from goalmeter.navigation.inspect.budget import Budget, BudgetReachedError, Ledger
from goalmeter.navigation.inspect.models import (
    CONTEXT,
    ERROR,
    Account,
    Server,
    is_ours_to_mend,
    opened,
    reason_of,
)
from goalmeter.navigation.plan import WalkPlan, plan_of
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import Keeper, Listener, Walked, failures, listener, study_of
from goalmeter.navigation.trajectories import Episode, Trajectory
from goalmeter.runs import Results, keys_in
from goalmeter.runs.progress import Tell

LOGS = "inspect"
_LOCAL = "goalmeter-local/"
# Seconds before the walks that failed are made again, times the number of the round.
WAIT = 5.0
# How often a question is put again is decided by `questions`; Inspect itself never gives up.
_EVER = 1_000_000


def ask(
    model: Any,
    suite: str,
    folder: str | Path,
    *,
    asking: Asking = Asking(),  # noqa: B008 (frozen)
    server: Server = Server(),  # noqa: B008 (frozen)
    rounds: int = 2,
    budget: Budget = Budget(),  # noqa: B008 (frozen)
    progress: Tell | None = None,
    **options: Any,
) -> list[Trajectory]:
    """Every walk of a model through a suite, one record each, whatever became of it.

    Called again with the same arguments and folder it goes on: walks that ended are kept, those
    that the server failed are made again. A report can be made of the folder.

    Args:
        model: its name as Inspect spells it, such as "vllm/openai/gpt-oss-20b", or one of Inspect's
            model objects.
        suite: its name.
        folder: of the run.
        asking: how it is asked.
        server: how it is reached.
        rounds: how often walks that the server failed are made again before this returns.
        budget: the most that may be spent, over all calls with this folder.
        progress: told how many walks have ended.
        options: of `goalmeter.navigation.plan.plan_of`: sizes, grids, prompts, history, seed, ...
    """
    plan = plan_of(model_agent(str(model)).name, suite, asking=asking, **options)
    model_object = None if isinstance(model, str) else model
    walked = ask_all(
        plan,
        out=folder,
        server=server,
        rounds=rounds,
        budget=budget,
        progress=progress,
        model=model_object,
    )
    return list(walked.trajectories)


def ask_all(
    plan: WalkPlan,
    *,
    out: str | Path | None = None,
    server: Server = Server(),  # noqa: B008 (frozen)
    rounds: int = 2,
    budget: Budget = Budget(),  # noqa: B008 (frozen)
    imported: Mapping[str, Trajectory] | None = None,
    progress: Tell | None = None,
    model: Any = None,
) -> Walked:
    """Every walk of a plan for a language model; see `ask`.

    A walk that its server failed for good is there with the failure as its outcome. Walks from
    logs, `imported` by their keys, are kept in the run before others are made. `model`, one of
    Inspect's model objects, is asked instead of the one of the plan's name.
    """
    assert plan.asking is not None
    wanted = plan.keys()
    # Before a folder is made: whether the model can be asked at all. A run that is complete does
    # without it.
    kept = set(imported or ()) | set(keys_in(out) if out is not None else ())
    asked = model
    if model is None and not kept >= wanted.keys():
        asked = opened(plan.agent, plan.asking, server)
    with ExitStack() as stack:
        folder = out or stack.enter_context(tempfile.TemporaryDirectory(prefix="goalmeter-"))
        results = stack.enter_context(
            Results(study_of(plan), folder, tell=progress, taken_over=imported)
        )
        ledger = stack.enter_context(closing(Ledger(folder)))
        account = Account(
            ledger,
            budget,
            answer_tokens=plan.asking.max_tokens,
            max_retries=server.max_retries,
        )
        # A walk is in the run when it ends, whatever Inspect has written of its log by then.
        keeper = Keeper(results, account)
        for number in range(rounds + 1):
            if not (left := results.left):
                break
            if number:
                if progress is not None:
                    progress(f"{plan.agent}: {len(left)} walks are made again ({keeper.why})")
                time.sleep(WAIT * number)
                if model is None and not plan.agent.startswith(_LOCAL):
                    # Its connections belong to an evaluation that is over.
                    asked = opened(plan.agent, plan.asking, server)
            keeper.next_round()
            make_walks(plan, left, asked, server, Path(folder) / LOGS, keeper)
            keeper.raise_broken()
            if account.reached:
                break
            # What Inspect ended without telling anybody is on record too.
            for name in left:
                if name not in keeper.heard:
                    task, index = wanted[name]
                    results.keep(name, Episode(task).trajectory(index, ERROR))
        if account.reached and (left := results.left):
            half = sum(name in ledger.half for name in left)
            ended, total = len(wanted) - len(left), len(wanted)
            raise BudgetReachedError(ledger.spent, budget, ended=ended, half=half, walks=total)
        walks = results.by_key()
    overflows = sum(walk.outcome == CONTEXT for walk in walks.values())
    if progress is not None and overflows:
        progress(
            f"{plan.agent}: {overflows} walks ended with a {CONTEXT}: the prompt and --max-tokens "
            f"together are more than the model's context"
        )
    if progress is not None and failures(walks.values()):
        progress(f"{plan.agent}: the last failure: {keeper.why}")
    return Walked(plan, tuple(walks.values()), budget.to_json(ledger.spent))


def make_walks(
    plan: WalkPlan, keys: Collection[str], model: Any, server: Server, logs: Path, heard: Listener
) -> None:
    """Make the walks of a plan that have these keys, and tell of each as it ends."""
    from inspect_ai import eval as evaluate

    from goalmeter.agents.inspect_providers import BATCH, LOCAL
    from goalmeter.navigation.inspect.task import task_of

    assert plan.asking is not None
    connections = server.max_connections
    if connections is None and plan.agent.startswith(f"{LOCAL}/"):
        # Inspect would begin with fewer questions at once than are answered in a batch. With two
        # batches of them, one is answered while those of the other are told and ask again.
        connections = 2 * int(plan.asking.options.get("batch", BATCH))
    # A walk is asked step by step, so a long one that begins last leaves all connections but one
    # idle. Walks are the same in any order.
    walks = plan.keys()
    longest_first = sorted(keys, key=lambda name: walks[name][0].distance, reverse=True)
    task = task_of(plan.tasks, plan.asking, only=longest_first, seed=plan.options.seed)
    token = listener.set(heard)
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
            # While one walk is told, kept or begun here, another one has its connection.
            max_samples=None if connections is None else connections + connections // 4 + 1,
            max_retries=_EVER if heard.account is not None else server.max_retries,
            attempt_timeout=server.timeout,
        )
    except Exception as error:
        if not is_ours_to_mend(error):
            raise
        raise GoalmeterError(
            f"the model cannot be asked: {reason_of(error)}. Mend that, and the same command goes "
            f"on; the folder {logs} has to take Inspect's logs"
        ) from error
    finally:
        listener.reset(token)
    # Inspect answers an interrupt itself, with what it has by then.
    if not made or made[0].status == "cancelled":
        raise KeyboardInterrupt
