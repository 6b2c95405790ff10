"""`goalmeter meg simulator`, with environments, utilities and agents from a user's file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    in_a_line,
    shown,
)
from goalmeter._files import digest
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.user_agents import walks
from goalmeter.agents.user_code import canonical, files_of, line_of, member_of, run_file, split_name
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.meg.simulator import (
    LearntUtility,
    SimulatorInterrupted,
    SimulatorProgress,
    from_simulator,
)
from goalmeter.meg.simulator.gymnasium_worlds import closed, opened, time_limit
from goalmeter.meg.simulator.measure import KEY, KIND, Measurement
from goalmeter.meg.simulator.protocol import caller_guard
from goalmeter.meg.simulator.states import OBSERVATION
from goalmeter.meg.simulator.utilities import REWARD, Utility
from goalmeter.pages.simulator import part_of, short_tables
from goalmeter.report import require_report_extra
from goalmeter.runs import Study, carry_out, keys_in

# --- User files -----------------------------------------------------------------------------------
# Each file is run once, whatever is asked of it: it may train what it holds. What its functions
# raise later is an error of the file, with the line, and no fault of goalmeter's own.


class UserFiles:
    """A user's files, as a command loads them."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}

    def function(self, spelled: str, kind: str) -> Callable[..., Any]:
        """The function that FILE.py:NAME stands for."""
        member = self._member(spelled, kind)
        if not callable(member):
            raise InvalidFileError(f"{spelled} is {shown(member)}, expected a function")
        return guarded(member, spelled)

    def agent(self, spelled: str) -> Any:
        """The agent that FILE.py:NAME stands for, as `from_simulator` takes one.

        A function without parameters makes the agent, and a class is called without any. An agent
        that walks in grid worlds stays a name, which the registry knows how to ask.
        """
        member = self._member(spelled, "agent")
        if walks(member):
            return canonical(spelled)
        if isinstance(member, type) or _takes_nothing(member):
            member = guarded(member, spelled)()
        if member is None:
            raise InvalidFileError(f"{spelled}() returned nothing, expected an agent")
        if hasattr(member, "begin"):
            return GuardedEpisodes(member, spelled)
        # A model of a library is asked by its methods; a plain function is called.
        if callable(member) and not hasattr(member, "predict"):
            return guarded(member, spelled)
        return member

    def _member(self, spelled: str, kind: str) -> Any:
        parts = split_name(spelled)
        if parts is None:
            raise InvalidParameterError(
                f"{shown(spelled)} names no {kind} in a file, expected FILE.py:NAME"
            )
        path, name = parts
        key = str(Path(path).resolve())
        if key not in self._modules:
            self._modules[key] = run_file(path, kind)
        return member_of(self._modules[key], path, name, kind)


@dataclass(frozen=True)
class GuardedEpisodes:
    """An agent that begins anew in each episode, and whose faults are told as its own."""

    agent: Any
    __name__: str

    def begin(self, generator: Any) -> Callable[..., Any]:
        """Its function for one episode."""
        function = guarded(self.agent.begin, self.__name__)(generator)
        return guarded(function, self.__name__)


def guarded(function: Callable[..., Any], spelled: str) -> Callable[..., Any]:
    """A function of a user's whose exceptions become one sentence that names file and line."""
    parts = split_name(spelled)
    assert parts is not None, "only functions of files are guarded"
    where = Path(parts[0]).resolve()

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (GoalmeterError, KeyboardInterrupt):
            raise
        # Whatever else a user's code raises to end the program ends the command in a sentence.
        except BaseException as cause:
            raise InvalidParameterError(
                f"{spelled} fails{line_of(cause, where)}: {_named(cause)}; mend it"
            ) from cause

    call.__name__ = spelled
    return call


def _named(cause: BaseException) -> str:
    """An error in a line that begins with its class."""
    name, words = type(cause).__name__, in_a_line(cause)
    return words if words.startswith(name) else f"{name}: {words}"


def contents(names: list[str]) -> Mapping[str, str]:
    """The SHA-256 of every file that options name or that such a file imports, by path."""
    paths: dict[str, None] = {}
    for spelled in map(canonical, names):
        parts = split_name(spelled)
        prefix, _, path = spelled.partition(":")
        if parts is not None:
            paths |= dict.fromkeys(files_of(parts[0]))
        elif prefix in ("sb3", "policy"):
            paths[path] = None
    return {path: digest(path) for path in sorted(paths)}


def _takes_nothing(member: Any) -> bool:
    try:
        return callable(member) and not signature(member).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False


# --- Meg simulator --------------------------------------------------------------------------------
# The utility that is fitted to what the agent does.
LEARNT = "learnt"


class Interrupted(KeyboardInterrupt):
    """A measurement was interrupted at the keyboard; `outcome` is what was proven by then."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("interrupted")
        self.outcome = outcome


def measure_simulator(
    env: str,
    *,
    agent: str,
    utilities: Sequence[str] = (),
    combined: bool = False,
    horizon: int | None = None,
    budget: int = 200_000,
    level: float = 0.95,
    precision: float = 0.02,
    state: str | None = None,
    bounds: Sequence[str] = (),
    reference: str | None = None,
    chance: str | None = None,
    env_options: Sequence[str] = (),
    seed: int = 0,
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """MEG of an agent in a Gymnasium environment, as `goalmeter.meg.from_simulator` has it.

    `env` is an id, MODULE:ID or FILE.py:FUNCTION; `agent` a name of the registry, sb3:PATH.zip or
    FILE.py:NAME; each of `utilities` is reward, learnt (linear in the observation, and fitted to
    some episodes), FILE.py:FUNCTION, or NAME= one of these; `state` is observation or
    FILE.py:FUNCTION; each of `bounds` [NAME=]LOW,HIGH[,LEAST,MOST]; `reference` uniform or
    gaussian(SCALE,CENTRE) for continuous actions; `chance` generator, none or unknown; each of
    `env_options` KEY=JSON.
    With `out` a folder keeps the results, and a page that shows them.
    """
    tell = progress or (lambda line: None)
    files = UserFiles()
    options = _env_options(env_options)
    measured: dict[str, Any] = {"combined": combined, "bounds": _bounds(bounds)}
    measured |= {"reference": reference, "chance": chance}
    measured |= {"budget": budget, "level": level, "precision": precision, "seed": seed}
    if out is not None:
        require_report_extra()
        # An environment may change the working folder.
        out = Path(out).absolute()
    with ExitStack() as until_measured:
        # What a user's code prints is no result, and the result is all that standard output has.
        until_measured.enter_context(redirect_stdout(sys.stderr))
        measured["utility"] = _utilities(utilities, files)
        measured["state"] = _state(state, files)
        tell(f"making {env}")
        with caller_guard():
            world = _environment(env, options, files)
            until_measured.callback(closed, world)
            measured["horizon"] = time_limit(world) if horizon is None else horizon
            acting = _agent(agent, files)
        study = Study(
            "this measurement",
            lambda: _measured(world, acting, agent, measured, tell),
            {KEY: {}},
            noun="measurement",
            what=_what(env, agent, utilities, state, options, measured),
            from_json=lambda _, kept: Measurement.from_json(kept, str(out)),
            to_json=Measurement.to_json,
        )
        kept_already = out is not None and KEY in keys_in(out)
        measurement = carry_out(study, out=out)[KEY]
        # Only now is it known to be this measurement and no other.
        if kept_already:
            tell(f"{out} holds this measurement already")
    return _outcome(measurement) if out is None else _kept(measurement, out)


def _measured(
    world: Any,
    acting: Any,
    agent: str,
    measured: Mapping[str, Any],
    tell: Callable[[str], None],
) -> Measurement:
    told: list[SimulatorProgress] = []

    def hear(now: SimulatorProgress) -> None:
        told.append(now)
        tell(str(now))

    def kept(results: Any) -> Measurement:
        horizon = measured["horizon"]
        return Measurement(agent, horizon, measured["budget"], measured["seed"], results, told)

    try:
        return kept(from_simulator(world, acting, progress=hear, **measured))
    except SimulatorInterrupted as so_far:
        raise Interrupted(_outcome(kept(so_far.results))) from None
    except KeyboardInterrupt:
        tell("goalmeter: interrupted before any bound was known; nothing is kept")
        raise


def _outcome(measurement: Measurement) -> Outcome:
    text = "\n".join(str(result) for result in measurement.results.values())
    return Outcome(tables=short_tables(measurement), json=measurement.to_json(), text=text)


def _kept(measurement: Measurement, out: str | Path) -> Outcome:
    """The outcome, with a page and the results beside the run."""
    outcome, part = _outcome(measurement), part_of([measurement])
    return write_outcome(
        out,
        part.title,
        part.sections,
        outcome.json,
        command="goalmeter meg simulator",
        lede=part.lede,
        findings=part.findings,
        glossary=part.glossary,
        tables=outcome.tables,
        text=outcome.text,
    )


def _what(
    env: str,
    agent: str,
    utilities: Sequence[str],
    state: str | None,
    options: Mapping[str, Any],
    measured: Mapping[str, Any],
) -> dict[str, Any]:
    """What the run is: the options as they were typed, and the files that they name."""
    typed = [env, agent, *(text.partition("=")[2] or text for text in utilities), state or ""]
    plain = {name: value for name, value in measured.items() if name not in ("utility", "state")}
    return {
        "kind": KIND,
        "environment": env,
        "environment options": dict(options),
        "agent": agent,
        "utilities": list(utilities) or [REWARD],
        "state": state,
        **plain,
        "files": contents(typed),
    }


# --- Options as they are typed --------------------------------------------------------------------
def _environment(env: str, options: Mapping[str, Any], files: UserFiles) -> Any:
    if split_name(env) is None:
        return opened(env, **options)
    world = files.function(env, "environment")(**options)
    if not (hasattr(world, "step") and hasattr(world, "reset")):
        raise InvalidFileError(f"{env} gave {shown(world)}, expected a Gymnasium environment")
    return opened(world)


def _agent(agent: str, files: UserFiles) -> Any:
    if split_name(agent) is not None:
        return files.agent(agent)
    try:
        return named_agent(agent)
    except InvalidFileError as cause:
        if not agent.startswith("sb3:") or not Path(agent.removeprefix("sb3:")).exists():
            raise
        raise InvalidFileError(
            f"{cause}; a model of any other kind can be measured as FILE.py:FUNCTION, a function "
            f"without parameters that loads and returns it"
        ) from cause


def _utilities(spelled: Sequence[str], files: UserFiles) -> dict[str, Utility | LearntUtility]:
    """Utilities by name: what is typed before =, else the name of the function."""
    out: dict[str, Utility | LearntUtility] = {}
    for text in spelled or (REWARD,):
        name, equals, what = text.partition("=")
        if not equals:
            name, what = (split_name(text) or ("", text))[1], text
        if not name or name in out:
            why = "has no name" if not name else f"{name!r} is given twice"
            raise InvalidParameterError(
                f"--utility {shown(text)}: {why}; give every utility a name of its own, as "
                f"NAME=FILE.py:FUNCTION or NAME={REWARD}"
            )
        if what not in (REWARD, LEARNT) and split_name(what) is None:
            raise InvalidParameterError(
                f"--utility is {shown(text)}, expected {REWARD}, {LEARNT}, NAME={REWARD} or "
                f"NAME=FILE.py:FUNCTION with a function of (observation, info)"
            )
        known: dict[str, Utility | LearntUtility] = {REWARD: REWARD, LEARNT: LearntUtility()}
        out[name] = known[what] if what in known else files.function(what, "utility")
    return out


def _state(spelled: str | None, files: UserFiles) -> Any:
    if spelled is None or spelled == OBSERVATION:
        return spelled
    if split_name(spelled) is None:
        raise InvalidParameterError(
            f"--state is {shown(spelled)}, expected {OBSERVATION}, or FILE.py:FUNCTION with a "
            f"function of (observation, info) that names the state"
        )
    return files.function(spelled, "state")


def _bounds(spelled: Sequence[str]) -> Any:
    """Bounds of all utilities or by name, as `from_simulator` takes them."""
    by_name: dict[str, tuple[float, ...]] = {}
    for text in spelled:
        name, _, ends = text.rpartition("=")
        try:
            numbers = tuple(map(float, ends.split(",")))
        except ValueError:
            numbers = ()
        if len(numbers) not in (2, 4) or name in by_name:
            why = "is given twice" if name in by_name else f"is {shown(text)}"
            raise InvalidParameterError(
                f"--bounds {why}, expected once for each utility [NAME=]LOW,HIGH of what one "
                f"decision pays, or [NAME=]LOW,HIGH,LEAST,MOST with what all that follow may pay"
            )
        by_name[name] = numbers
    if "" in by_name and len(by_name) > 1:
        raise InvalidParameterError(
            "--bounds is given with a name and without; give NAME=LOW,HIGH for each utility, or "
            "LOW,HIGH once for all of them"
        )
    return by_name.get("", by_name or None)


def _env_options(spelled: Sequence[str]) -> dict[str, Any]:
    """Keywords for the environment; a value that is no JSON is a word."""
    out: dict[str, Any] = {}
    for text in spelled:
        key, equals, value = text.partition("=")
        if not (equals and key.isidentifier()) or key in out:
            why = "is given twice" if key in out else f"is {shown(text)}"
            raise InvalidParameterError(
                f"--env-option {why}, expected each keyword once as KEY=JSON, such as size=7 or "
                f"'goal=[1,2]'"
            )
        try:
            out[key] = json.loads(value)
        except (ValueError, RecursionError):
            out[key] = value
    return out
