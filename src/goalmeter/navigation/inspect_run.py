"""Walk a language model through a suite from Python, in a folder that the run can go on from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, require
from goalmeter.navigation.eval_log import trajectories
from goalmeter.navigation.record import Trajectory

_FEATURE = "Asking language models"
# After so many walks the log is written. A process that is killed loses those since then, and they
# are made again.
LOG_EVERY = 4


def ask(
    model: Any,
    suite: str,
    folder: str | Path,
    *,
    model_options: Mapping[str, Any] | None = None,
    rounds: int = 2,
    display: str = "none",
    inspect_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Trajectory]:
    """Every walk of a model through a suite, one record each, whatever became of it.

    Called again with the same arguments and folder it goes on: walks that ended are kept, those
    that the server failed are made again.

    Args:
        model: its name as Inspect spells it, such as "vllm/openai/gpt-oss-20b", or one of Inspect's
            model objects.
        suite: its name.
        folder: for Inspect's logs; what else it holds is refused by Inspect.
        model_options: for the provider, such as {"dtype": "bfloat16"}.
        rounds: how often walks that the server failed are made again before this returns.
        display: of Inspect: "none", "plain", "rich".
        inspect_options: of Inspect's `eval_set`: max_connections, temperature, max_tokens, ...
        options: of the task and the suite, see `goalmeter.navigation.inspect_task.navigation`.

    Raises:
        MissingExtraError: inspect_ai is not installed.
        InvalidParameterError: an option is unknown or out of range.
    """
    inspect = require("inspect_ai", extra="lm", feature=_FEATURE)
    from goalmeter.agents.language_models.providers import BATCH, LOCAL
    from goalmeter.navigation import inspect_task

    settings: dict[str, Any] = {
        "retry_attempts": rounds,
        "retry_wait": 1,
        "log_buffer": LOG_EVERY,
        # Following a log live takes several times as long as the walks of a small model.
        "log_realtime": False,
    }
    if str(model).startswith(f"{LOCAL}/"):
        # Inspect would begin with fewer questions at once than are answered in a batch. With two
        # batches of them, one is answered while those of the other are told and ask again.
        settings["max_connections"] = 2 * (model_options or {}).get("batch", BATCH)
    if suite not in inspect_task.TASKS:
        raise InvalidParameterError(
            f"there is no suite {suite!r}; known are {', '.join(inspect_task.TASKS)}"
        )
    inspect.eval_set(
        tasks=[inspect_task.TASKS[suite](**options)],
        log_dir=str(folder),
        model=model,
        model_args=dict(model_options or {}),
        display=display,
        **(settings | dict(inspect_options or {})),
    )
    return trajectories(folder)
