"""Read trajectories from Inspect logs; the last result of a repeated walk counts."""

from __future__ import annotations

import os
from collections.abc import Iterable
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
from goalmeter.navigation.plan import WalkPlan, walk_of
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.trajectories import Episode, Trajectory, made_of

# Key of the trajectory in the metadata of a score, and the name of the scorer.
TRAJECTORY, SCORER = "trajectory", "walked"
INTERRUPTED = "interrupted"
_SAMPLING = ("temperature", "top_p", "max_tokens", "reasoning_effort")


def trajectories(logs: str | Path | Iterable[str | Path]) -> list[Trajectory]:
    """Return every walk in Inspect logs."""
    files = _read_logs(logs)
    models = {log_file.eval.model for log_file in files}
    if len(models) > 1:
        raise InvalidParameterError(
            f"the logs have several models, {', '.join(sorted(models))}; read logs of one model"
        )
    return _walks_of(files)


def _read_logs(logs: str | Path | Iterable[str | Path]) -> list[Any]:
    """Return Inspect logs as Inspect's objects, the oldest first."""
    log = require("inspect_ai.log", extra="lm", feature="Reading Inspect logs")
    paths: list[str | Path] = []
    for path in map(Path, [logs] if isinstance(logs, str | Path) else logs):
        found = log.list_eval_logs(str(path)) if path.is_dir() else [path]
        if not found:
            raise InvalidFileError(f"{path} contains no .eval file")
        paths += [file if file is path else file.name.removeprefix("file://") for file in found]
    read = [_read(log, Path(path)) for path in paths]
    return sorted(read, key=lambda log_file: str(log_file.eval.created))


def _walks_of(files: Iterable[Any]) -> list[Trajectory]:
    walks: dict[tuple[str, Any, int], Trajectory] = {}
    for log_file in files:
        for sample in log_file.samples or []:
            key = (log_file.eval.task, sample.id, sample.epoch)
            walk = _trajectory(sample, str(log_file.location))
            if walk.outcome != INTERRUPTED or key not in walks:
                walks.pop(key, None)
                walks[key] = walk
    return list(walks.values())


def append(path: str | Path, record: dict[str, Any]) -> None:
    """Append a trajectory to a file, on a new line even if the last line is incomplete."""
    with Path(path).open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                file.write(b"\n")
        file.write(json_text(record).encode() + b"\n")


def _read(log: Any, path: Path) -> Any:
    """Return a log as Inspect's object, within the limit on unpacked bytes."""
    try:
        # The sizes in the archive's directory bound the unpacked bytes.
        with reading(path) as file:
            if path.suffix == ".json":
                check_bytes(path.stat().st_size)
                return log.read_eval_log(path)
            check_sizes(listed(file))
            eval_log = log.read_eval_log(file, format="eval")
        eval_log.location = str(path)
    except MemoryError:
        raise
    # Corrupt logs raise many errors, among them RecursionError and those of zstd and pydantic.
    except Exception as cause:
        is_readable = not isinstance(cause, GoalmeterError | OSError)
        problem = "is not a valid Inspect log" if is_readable else "cannot be read"
        raise InvalidFileError(f"{path} {problem}: {in_a_line(cause)}") from cause
    return eval_log


def _trajectory(sample: Any, where: str) -> Trajectory:
    try:
        score = (sample.scores or {}).get(SCORER)
        if score is not None and TRAJECTORY in (score.metadata or {}):
            return Trajectory.from_json(score.metadata[TRAJECTORY])
        walk = walk_of(sample.metadata or {}, sample.epoch)
        failed = sample.error is not None and not sample.error.message.startswith("Cancelled")
        return Episode(walk.task).trajectory(walk.number, ERROR if failed else INTERRUPTED)
    # Valid values may be invalid in combination, such as a world without a path.
    except Exception as cause:
        raise InvalidTrajectoryError(
            f"{where}, sample {shortened(repr(sample.id))}: {in_a_line(cause)}"
        ) from cause


def from_logs(plan: WalkPlan, logs: Iterable[str | Path]) -> tuple[dict[str, Trajectory], int]:
    """Return the walks of a plan found in Inspect logs, by key, and the number of other walks."""
    files = _read_logs(logs)
    for log in files:
        _check_settings(plan, log)
    planned, every = plan.keys(), _walks_of(files)
    walks = {
        made.name: trajectory
        for trajectory in every
        # Other versions may use the same name for another world or cap.
        if planned.get((made := made_of(trajectory)).name) == made
        and trajectory.outcome not in (INTERRUPTED, *FAILURES)
    }
    return walks, len(every) - len(walks)


def _check_settings(plan: WalkPlan, log: Any) -> None:
    """Raise InvalidParameterError unless a log has the model and the settings of the run."""
    assert plan.asking is not None
    try:
        name = model_agent(log.eval.model).name
        options = Asking(options=log.eval.model_args).to_json()["options"]
    except InvalidParameterError as cause:
        raise InvalidParameterError(f"{log.location}: {cause}") from cause
    if name != plan.agent:
        raise InvalidParameterError(
            f"{log.location} is a log of {name}, expected the run's model {plan.agent}; leave this "
            f"log out"
        )
    config, solver = log.plan.config, log.plan.steps[0].params if log.plan.steps else {}
    stored = {each: getattr(config, each) for each in _SAMPLING}
    stored |= {each: solver.get(each) for each in ("attempts", "token_cap")}
    stored |= {"seeded": solver.get("seed") is not None, "logprobs": bool(config.logprobs)}
    stored["options"] = options
    expected = plan.asking.to_json()
    if differ := [each for each in stored if stored[each] != expected[each]]:
        differences = "; ".join(
            f"{each} is {shortened(repr(stored[each]), 80)}, expected {expected[each]!r}"
            for each in differ
        )
        raise InvalidParameterError(
            f"{log.location} has other query settings than the run: {differences}; repeat the "
            f"command with the settings of the log, or without the log"
        )
