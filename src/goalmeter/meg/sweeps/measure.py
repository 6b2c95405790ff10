"""`sweep`: MEG of policies × utilities × worlds, wherever there is room, kept and gone on with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goalmeter.meg.sweeps.planning import Worlds, plan_sweep
from goalmeter.meg.sweeps.playing import play, stored
from goalmeter.meg.sweeps.result import Sweep
from goalmeter.meg.sweeps.spelling import Entry


def sweep(
    worlds: Worlds,
    *,
    policies: Sequence[Entry | str] = (),
    utilities: Sequence[Entry | str] = (),
    arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    on: str = "here",
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Sweep:
    """MEG of every policy towards every utility in every world, a row each.

    Worlds of like shape are measured together, in chunks that follow from what is asked for alone:
    where they are measured, in what order and with how many interruptions changes no number. What
    is wrong with a world, a policy or a utility is said in its rows, which count as failed.

    Args:
        worlds: the path of a TOML file, which says all that the options say too; the path of a
            folder of MDP files; a function of worlds as FILE.py:NAME; or a list of tables such as
            {"generator": "cliff_world", "goal_length": [1, 2]} and {"files": "mdps/*.npz"}.
        policies: words ("optimal", "uniform", "epsilon_greedy(0, 0.1)", "soft_optimal(1, 10)"),
            .npz files, in whose path {world} and arguments of the world in braces are put in,
            functions (world, arguments) as FILE.py:NAME, or tables such as
            {"policy": "epsilon_greedy", "epsilon": [0, 0.1]}.
        utilities: "reward", .npz files or functions in the same way; or, for the best utility of a
            class, {"unknown": "state"}, "state-action", "time-state", or features from a file or a
            function. Default the reward.
        arguments: of a function of worlds, by name: a list stands for each of its values,
            {"from": 0, "count": 100} for each of these numbers.
        seed: of functions that have an argument `seed` and are given none.
        timeout: seconds that the search for an unknown utility may take for each row, on average
            over those that are searched together; the row then has the best value and the bound
            by then.
        on: where chunks are measured: "here", "processes:8", or another place.
        out: run folder that keeps every chunk; what it holds is not measured again.
        progress: told now and then how many chunks have ended, and what time is left.

    Raises:
        InvalidParameterError: what is asked for cannot be, or `out` holds another run.
        InvalidFileError: a file is not there, is none of its kind, or has changed.

    Example: two CliffWorlds, and an agent that errs in one decision of ten.
        >>> result = sweep(
        ...     [{"generator": "cliff_world", "goal_length": [1, 4]}],
        ...     policies=["epsilon_greedy(0.1)"],
        ... )
        >>> [round(row.measured.value, 2) for row in result.rows]
        [23.79, 9.57]
    """
    plan = plan_sweep(
        worlds,
        policies=policies,
        utilities=utilities,
        arguments=arguments,
        seed=seed,
        timeout=timeout,
    )
    return Sweep(plan, play(plan, on=on, out=out, progress=progress))


def load(folder: str | Path) -> Sweep:
    """The sweep that a finished run holds.

    Raises:
        InvalidFileError: the folder is no run of a sweep, or was edited.
        IncompleteRunError: not all of its chunks are there.
    """
    return Sweep(*stored(folder))
