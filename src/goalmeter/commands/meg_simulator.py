"""`goalmeter meg simulator`, with environments, utilities and agents from a user's file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from types import ModuleType, SimpleNamespace
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
from goalmeter.commands.declare import (
    REQUIRED,
    InterruptedCommand,
    Tell,
    argument,
    command,
    option,
    several,
)
from goalmeter.commands.options import Count, SeedOptions, values
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.meg.simulator import LearntUtility, SimulatorInterrupted, from_simulator
from goalmeter.meg.simulator.gymnasium_worlds import closed, opened, time_limit
from goalmeter.meg.simulator.measure import KEY, KIND, Measurement
from goalmeter.meg.simulator.protocol import caller_guard
from goalmeter.meg.simulator.states import OBSERVATION
from goalmeter.meg.simulator.utilities import REWARD
from goalmeter.pages.simulator import part_of, short_tables
from goalmeter.report import require_report_extra
from goalmeter.runs import Study, carry_out, keys_in


@dataclass(frozen=True, kw_only=True)
class SimulatorOptions(SeedOptions):
    """Options of `goalmeter meg simulator`."""

    env: str = argument(
        "ENV_ID  A Gymnasium environment: its id, MODULE:ID, or FILE.py:FUNCTION that makes it."
    )
    agent: str = option(
        "AGENT  Who is measured: a name, sb3:PATH.zip, or FILE.py:NAME of an agent, of a function "
        "of the observation, or of a function without parameters that returns a model.",
        default=REQUIRED,
    )
    utilities: Sequence[str] = several(
        "--utility NAME=FILE.py:FUNCTION  What a decision pays: reward (the default), learnt "
        "(fitted to some episodes, bounded with others), or NAME=FILE.py:FUNCTION with a function "
        "of (observation, info); repeat for more, and for their differences."
    )
    combined: bool = option("Measure the best linear combination of utilities too.", default=False)
    horizon: Count | None = option("Number of decisions; default the environment's time limit.")
    budget: Count = option("Steps of the simulator, in all.", default=200_000)
    level: float = option("Probability with which the interval holds.", default=0.95)
    precision: float = option(
        "End early when the lower end is within this share of the estimate.", default=0.02
    )
    state: str | None = option(
        "observation|FILE.py:FUNCTION  Which states are the same: observation, or a function of "
        "(observation, info) that names the state."
    )
    bounds: Sequence[str] = several(
        "[NAME=]LOW,HIGH[,LEAST,MOST]  Least and greatest payment of one decision, and of all that "
        "follow; repeat for more utilities."
    )
    reference: str | None = option(
        "REFERENCE  Of continuous actions: uniform, gaussian(SCALE) or gaussian(SCALE,CENTRE)."
    )
    chance: str | None = option(
        "generator|none|unknown  Where chance comes from: generator (all of it from the "
        "environment's np_random), none, or unknown; default generator for Gymnasium's own "
        "environments and ours, else unknown."
    )
    env_options: Sequence[str] = several(
        "--env-option KEY=JSON  A keyword for the environment, such as size=7."
    )
    out: Path | None = option("RUN  Run directory for the results, with a page.")


@command(SimulatorOptions)
def measure_simulator(o: SimulatorOptions, tell: Tell) -> Outcome:
    """Measure the MEG of an agent in a simulator."""
    _modules.clear()
    example = "KEY=JSON, such as size=7 or 'goal=[1,2]'"
    env_options = values("--env-option", o.env_options, example)
    as_they_are = ("combined", "reference", "chance", "budget", "level", "precision", "seed")
    measured = {name: getattr(o, name) for name in as_they_are} | {"bounds": _bounds(o.bounds)}
    out = None
    if o.out is not None:
        require_report_extra()
        out = Path(o.out).absolute()  # an environment may change the working folder
    with ExitStack() as until_measured:
        # What a user's code prints is no result, and the result is all that standard output has.
        until_measured.enter_context(redirect_stdout(sys.stderr))
        state: Any = o.state
        if state not in (None, OBSERVATION):
            state = _function(state, "state")
        utilities = _utilities(o.utilities)
        tell(f"making {o.env}")
        with caller_guard():
            world = _environment(o.env, env_options)
            until_measured.callback(closed, world)
            measured["horizon"] = time_limit(world) if o.horizon is None else o.horizon
            acting = _agent(o.agent)
        messages: list[Any] = []
        about = o.agent, measured["horizon"], o.budget, o.seed
        measurement = partial(Measurement, *about, tightening=messages)

        def hear(now: Any) -> None:
            messages.append(now)
            tell(str(now))

        def measure() -> Measurement:
            try:
                found: Any = from_simulator(
                    world, acting, utility=utilities, state=state, progress=hear, **measured
                )
                return measurement(found)
            except SimulatorInterrupted as so_far:
                raise InterruptedCommand(
                    _outcome(measurement(so_far.results)),
                    "interrupted; this is what was proven by then, and nothing is kept",
                ) from None
            except KeyboardInterrupt:
                tell("goalmeter: interrupted before any bound was known; nothing is kept")
                raise

        named = [text.partition("=")[2] or text for text in o.utilities]
        study = Study(
            "this measurement",
            measure,
            {KEY: {}},
            noun="measurement",
            # The identity of the run: the options as typed, and the files that they name.
            what={
                "kind": KIND,
                "environment": o.env,
                "environment options": env_options,
                "agent": o.agent,
                "utilities": list(o.utilities) or [REWARD],
                "state": o.state,
                **measured,
                "files": _contents([o.env, o.agent, *named, o.state or ""]),
            },
            from_json=lambda _, stored: Measurement.from_json(stored, str(out)),
            to_json=Measurement.to_json,
        )
        is_stored = out is not None and KEY in keys_in(out)
        result = carry_out(study, out=out)[KEY]
        # Only now is it known to be this measurement and no other.
        if is_stored:
            tell(f"{out} holds this measurement already")
    outcome = _outcome(result)
    if out is None:
        return outcome
    part = part_of([result])
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


def _outcome(measurement: Measurement) -> Outcome:
    text = "\n".join(str(result) for result in measurement.results.values())
    return Outcome(tables=short_tables(measurement), json=measurement.to_json(), text=text)


# Each file is run once: it may train what it holds. What its functions raise later is an error of
# the file, with the line, and no internal error.
_modules: dict[Path, ModuleType] = {}


def _member(spelled: str, kind: str) -> Any:
    if (parts := split_name(spelled)) is None:
        raise InvalidParameterError(f"{shown(spelled)} names no {kind} in a file, as FILE.py:NAME")
    path, name = parts
    key = Path(path).resolve()
    if key not in _modules:
        _modules[key] = run_file(path, kind)
    return member_of(_modules[key], path, name, kind)


def _function(spelled: str, kind: str) -> Callable[..., Any]:
    member = _member(spelled, kind)
    if not callable(member):
        raise InvalidFileError(f"{spelled} is {shown(member)}, expected a function")
    return _guarded(member, spelled)


def _guarded(function: Callable[..., Any], spelled: str) -> Callable[..., Any]:
    """Return a user's function whose exceptions become a sentence with file and line."""

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (GoalmeterError, KeyboardInterrupt):
            raise
        # Whatever else a user's code raises to end the program ends the command in a sentence.
        except BaseException as cause:
            where = Path(spelled.rpartition(":")[0]).resolve()
            name, words = type(cause).__name__, in_a_line(cause)
            said = words if words.startswith(name) else f"{name}: {words}"
            sentence = f"{spelled} fails{line_of(cause, where)}: {said}; mend it"
            raise InvalidParameterError(sentence) from cause

    call.__name__ = spelled
    return call


def _contents(names: list[str]) -> dict[str, str]:
    """Return the SHA-256 of every file that options name or that such a file imports, by path."""
    paths: set[str] = set()
    for spelled in map(canonical, names):
        prefix, _, path = spelled.partition(":")
        if (parts := split_name(spelled)) is not None:
            paths |= set(files_of(parts[0]))
        elif prefix in ("sb3", "policy"):
            paths.add(path)
    return {path: digest(path) for path in sorted(paths)}


def _environment(env: str, options: dict[str, Any]) -> Any:
    if split_name(env) is None:
        return opened(env, **options)
    world = _function(env, "environment")(**options)
    if not (hasattr(world, "step") and hasattr(world, "reset")):
        raise InvalidFileError(f"{env} gave {shown(world)}, expected a Gymnasium environment")
    return opened(world)


def _agent(spelled: str) -> Any:
    """Return the agent of a name or of FILE.py:NAME, as `from_simulator` takes one."""
    if split_name(spelled) is None:
        try:
            return named_agent(spelled)
        except InvalidFileError as cause:
            if not spelled.startswith("sb3:") or not Path(spelled.removeprefix("sb3:")).exists():
                raise
            raise InvalidFileError(
                f"{cause}; a model of any other kind can be measured as FILE.py:FUNCTION, a "
                f"function without parameters that loads and returns it"
            ) from cause
    member = _member(spelled, "agent")
    if walks(member):
        return canonical(spelled)  # the registry makes agents for grid worlds
    try:
        takes_nothing = callable(member) and not signature(member).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        takes_nothing = False
    if isinstance(member, type) or takes_nothing:
        member = _guarded(member, spelled)()
    if member is None:
        raise InvalidFileError(f"{spelled}() returned nothing, expected an agent")
    if hasattr(member, "begin"):
        begin = _guarded(member.begin, spelled)
        return SimpleNamespace(begin=lambda rng: _guarded(begin(rng), spelled), __name__=spelled)
    # A model of a library is asked by its methods; a plain function is called.
    if callable(member) and not hasattr(member, "predict"):
        return _guarded(member, spelled)
    return member


def _utilities(spelled: Sequence[str]) -> dict[str, Any]:
    """Return utilities by name: what is typed before =, or the name of the function."""
    out: dict[str, Any] = {}
    known = {REWARD: REWARD, "learnt": LearntUtility()}
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
        out[name] = known[what] if what in known else _function(what, "utility")
    return out


def _bounds(spelled: Sequence[str]) -> Any:
    """Return bounds of all utilities or by name, as `from_simulator` takes them."""
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
