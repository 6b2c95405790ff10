"""Trajectories read back: from Inspect's logs, and from the file that a task wrote beside them.

Both hold the same records. A walk that was run again counts as it went the last time. A run can
take over walks of `inspect eval goalmeter/...`, which then need not be made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    InvalidTrajectoryError,
    in_a_line,
    json_text,
    require,
    shortened,
)
from goalmeter._files import check_bytes, check_sizes, listed, reading
from goalmeter.agents.local_models import model_agent
from goalmeter.navigation.inspect.models import ERROR, FAILURES
from goalmeter.navigation.plan import WalkPlan, made_of, walk_of
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.trajectories import Episode, Trajectory

# Where a score keeps the trajectory, and the name of the scorer.
TRAJECTORY, SCORER = "trajectory", "walked"
INTERRUPTED = "interrupted"
_JSON = ".json"
_SAMPLING = ("temperature", "top_p", "max_tokens", "reasoning_effort")

_Walks = dict[tuple[str, Any, int], Trajectory]


def trajectories(logs: str | Path | Iterable[str | Path]) -> list[Trajectory]:
    """Every walk in some of Inspect's logs.

    A walk that has no score, since it failed outside of the questions to the model or was
    interrupted, is there as well: without steps, and with "error" or "interrupted" as its outcome.
    Walks that were not begun are not in the logs.

    Args:
        logs: `.eval` files, or folders that hold them.
    """
    read = read_logs(logs)
    models = {log_file.eval.model for log_file in read}
    if len(models) > 1:
        raise InvalidParameterError(
            f"the logs are of several models, {', '.join(sorted(models))}; read those of one"
        )
    return walks_of(read)


def read_logs(logs: str | Path | Iterable[str | Path]) -> list[Any]:
    """Inspect's logs as its own objects, the oldest first; raises as `trajectories`."""
    log = require("inspect_ai.log", extra="lm", feature="Reading logs of Inspect")
    paths = [logs] if isinstance(logs, str | Path) else list(logs)
    read = [_read(log, path) for each in paths for path in _files(log, Path(each))]
    return sorted(read, key=lambda log_file: str(log_file.eval.created))


def walks_of(read: Iterable[Any]) -> list[Trajectory]:
    """Every walk in logs as `read_logs` gives them; raises as `trajectories`."""
    walks: _Walks = {}
    for log_file in read:
        for sample in log_file.samples or []:
            key = (log_file.eval.task, sample.id, sample.epoch)
            walk = _trajectory(sample, str(log_file.location))
            # What was interrupted in a later attempt does not replace what an earlier one finished.
            if key not in walks or walk.outcome != INTERRUPTED:
                walks.pop(key, None)
                walks[key] = walk
    return list(walks.values())


def written(path: str | Path) -> list[Trajectory]:
    """Every walk in the file that a task wrote."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as cause:  # a ValueError is text that is not UTF-8
        raise InvalidFileError(f"{path} cannot be read: {in_a_line(cause)}") from cause
    walks: dict[str, Trajectory] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue  # torn, or the empty line behind the last one
        try:
            read = Trajectory.from_json(value)
        except InvalidTrajectoryError as cause:
            raise InvalidTrajectoryError(f"{path}, line {number}: {cause}") from cause
        labels = {k: v for k, v in value.items() if k not in ("outcome", "steps")}
        name = json.dumps(labels, sort_keys=True)
        walks.pop(name, None)
        walks[name] = read
    return list(walks.values())


def append(path: str | Path, record: dict[str, Any]) -> None:
    """Add a trajectory to a file; one that was torn off before stays a line of its own."""
    line = json_text(record) + "\n"
    with Path(path).open("ab") as file:
        if file.tell() and not _ends_a_line(Path(path)):
            line = "\n" + line
        file.write(line.encode())


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"


def _files(log: Any, path: Path) -> Iterator[Path]:
    """The logs that a path stands for."""
    if not path.exists():
        raise InvalidFileError(f"{path} does not exist; expected an .eval file or a folder of them")
    if not path.is_dir():
        yield path
        return
    names = [log_file.name.removeprefix("file://") for log_file in log.list_eval_logs(str(path))]
    if not names:
        raise InvalidFileError(f"{path} holds no .eval file")
    yield from map(Path, names)


def _read(log: Any, path: Path) -> Any:
    """A log as Inspect reads it, if it does not unpack to more than the limit."""
    try:
        # As an open archive: of that, no more is unpacked than its directory says.
        with reading(path) as file:
            if path.suffix == _JSON:
                check_bytes(path.stat().st_size)
                return log.read_eval_log(path)
            check_sizes(listed(file))
            read = log.read_eval_log(file, format="eval")
        read.location = str(path)
    except (GoalmeterError, OSError) as cause:
        raise InvalidFileError(f"{path} cannot be read: {in_a_line(cause)}") from cause
    except MemoryError:
        raise
    # What a damaged log raises is of the reader that stumbles over it: errors of zstd, a
    # RecursionError of nested JSON, a validation of pydantic, which is several lines, and others.
    except Exception as cause:
        raise InvalidFileError(f"{path} is no log of Inspect: {in_a_line(cause)}") from cause
    return read


def _trajectory(sample: Any, where: str) -> Trajectory:
    try:
        score = (sample.scores or {}).get(SCORER)
        if score is not None and TRAJECTORY in (score.metadata or {}):
            return Trajectory.from_json(score.metadata[TRAJECTORY])
        walk = walk_of(sample.metadata or {}, sample.epoch)
        failed = sample.error is not None and not sample.error.message.startswith("Cancelled")
        return Episode(walk.task).trajectory(walk.number, ERROR if failed else INTERRUPTED)
    # A record is checked value by value. What is of the right kind and makes no sense, such as a
    # world without a way, is found where it is used.
    except Exception as cause:
        raise InvalidTrajectoryError(
            f"{where}, sample {shortened(repr(sample.id))}: {in_a_line(cause)}"
        ) from cause


# --- Walks for a run ------------------------------------------------------------------------------
@dataclass(frozen=True)
class Imported:
    """Walks from logs.

    Attributes:
        walks: by their keys, those that belong to the run.
        left_out: how many there were of other worlds, caps or prompts, or that a server failed.
    """

    walks: dict[str, Trajectory]
    left_out: int


def from_logs(plan: WalkPlan, logs: Iterable[str | Path]) -> Imported:
    """The walks of a language model's plan that are in some of Inspect's logs.

    Raises as `trajectories`, and InvalidParameterError if the logs are of another model, or it was
    asked in another way.
    """
    assert plan.asking is not None
    read = read_logs(logs)
    for log in read:
        _check_settings(plan.agent, plan.asking, log)
    wanted, walks, left_out = plan.keys(), {}, 0
    for trajectory in walks_of(read):
        made = made_of(trajectory)
        task, _ = wanted.get(made.name, (None, 0))
        # A log of another version may have the same name for another world or another cap.
        if task == made.task and trajectory.outcome not in (INTERRUPTED, *FAILURES):
            walks[made.name] = trajectory
        else:
            left_out += 1
    return Imported(walks, left_out)


def _check_settings(agent: str, asking: Asking, log: Any) -> None:
    """See that a log is of a model that was asked as the run asks it."""
    try:
        name = model_agent(log.eval.model).name
        asked = Asking(options=log.eval.model_args).to_json()
    except InvalidParameterError as cause:
        raise InvalidParameterError(f"{log.location}: {cause}") from cause
    if name != agent:
        raise InvalidParameterError(
            f"{log.location} is a log of {name}, and the run is of {agent}; read the logs of one "
            f"model"
        )
    asked_here = asking.to_json()
    config, solver = log.plan.config, log.plan.steps[0].params if log.plan.steps else {}
    asked_there = {each: getattr(config, each) for each in _SAMPLING}
    asked_there |= {each: solver.get(each) for each in ("attempts", "token_cap")}
    asked_there |= {"seeded": solver.get("seed") is not None, "logprobs": bool(config.logprobs)}
    asked_there["options"] = asked["options"]
    if differ := [each for each in asked_there if asked_there[each] != asked_here[each]]:
        differences = "; ".join(
            f"{each} is {shortened(repr(asked_there[each]), 80)} there, "
            f"and {asked_here[each]!r} here"
            for each in differ
        )
        raise InvalidParameterError(
            f"{log.location} was asked in another way: {differences}; give the options that it "
            f"was asked with, or make the walks anew"
        )
