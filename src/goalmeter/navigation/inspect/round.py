"""Some walks of a plan, made by a language model: one evaluation of Inspect's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError, MissingExtraError, require
from goalmeter.navigation.asking.settings import Asking
from goalmeter.navigation.inspect.failures import reason_of
from goalmeter.navigation.inspect.listening import Listener, listener
from goalmeter.navigation.plan import WalkPlan

# Nobody closes the models that Inspect makes; one that is dropped warns of its open connections.
_opened: list[Any] = []


@dataclass(frozen=True)
class Server:
    """How a model is reached; another server of the same model goes on with the same run.

    Attributes:
        base_url: where it is; None for what the provider's variable of the environment says.
        max_connections: questions on their way at once; None leaves it to Inspect, which looks for
            as many as the server can take.
        max_retries: how often a question that the server failed is put again.
        timeout: seconds for one answer.
    """

    base_url: str | None = None
    max_connections: int | None = None
    max_retries: int = 5
    timeout: int = 600


def opened(name: str, asking: Asking, server: Server) -> Any:
    """The model of a name, ready to be asked.

    Raises:
        InvalidParameterError: there is no such model, or something is missing for it.
        MissingExtraError: inspect_ai is not installed.
    """
    inspect = require("inspect_ai.model", extra="lm", feature="Asking language models")
    # Their names, goalmeter/... and goalmeter-local/..., have to be known to Inspect.
    from goalmeter.agents.language_models import providers as providers

    try:
        options = dict(asking.options)
        made = inspect.get_model(name, base_url=server.base_url, memoize=False, **options)
    except (GoalmeterError, MissingExtraError):
        raise
    except Exception as cause:  # each provider has errors of its own
        raise InvalidParameterError(
            f"the model {name!r} cannot be asked: {reason_of(cause)}; models are spelled as "
            f"Inspect spells them, PROVIDER/NAME"
        ) from cause
    if not name.startswith(f"{providers.LOCAL}/"):
        _opened.append(made)
    return made


def make_walks(
    plan: WalkPlan, keys: Collection[str], model: Any, server: Server, logs: Path, heard: Listener
) -> None:
    """Make some walks of a plan, and tell of each as it ends.

    Args:
        plan: of which walks.
        keys: those that are wanted.
        model: as `opened` gives it.
        server: how it is reached.
        logs: folder for Inspect's log.
        heard: is told of each walk.

    Raises:
        KeyboardInterrupt: somebody ended it.
    """
    from inspect_ai import eval as evaluate

    from goalmeter.agents.language_models.providers import BATCH, LOCAL
    from goalmeter.navigation.inspect.task import task_of

    assert plan.asking is not None
    connections = server.max_connections
    if connections is None and plan.agent.startswith(f"{LOCAL}/"):
        # Inspect would begin with fewer questions at once than are answered in a batch. With two
        # batches of them, one is answered while those of the other are told and ask again.
        connections = 2 * int(plan.asking.options.get("batch", BATCH))
    task = task_of(plan.tasks, plan.asking, only=keys, seed=plan.options.seed)
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
            max_retries=server.max_retries,
            attempt_timeout=server.timeout,
        )
    finally:
        listener.reset(token)
    # Inspect answers an interrupt itself, with what it has by then.
    if not made or made[0].status == "cancelled":
        raise KeyboardInterrupt
