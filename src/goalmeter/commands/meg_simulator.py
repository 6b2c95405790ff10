"""`goalmeter meg simulator`: MEG of an agent in a simulator, each given by its name or file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SEED, InvalidFileError, InvalidParameterError, shown
from goalmeter._options import REQUIRED, argument, option, values_by_name
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.user_agents import walks
from goalmeter.agents.user_code import UserCode, caller_guard, canonical, contents, split_name
from goalmeter.commands.declare import Tell, command
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.meg.simulator import LearntUtility, from_simulator
from goalmeter.meg.simulator.environments import closed, opened, time_limit
from goalmeter.meg.simulator.result import KEY, KIND, Measurement
from goalmeter.meg.simulator.states import OBSERVATION
from goalmeter.meg.simulator.utilities import REWARD
from goalmeter.pages.runs import page_of
from goalmeter.pages.simulator import part_of, short_tables
from goalmeter.report import require_report_extra
from goalmeter.runs import Study, carry_out, keys_in


def _bounds(flag: str, texts: Sequence[str] | None) -> Any:
    """Return bounds of all utilities or by name, as `from_simulator` takes them."""
    by_name: dict[str, tuple[float, ...]] = {}
    for text in texts or ():
        name, _, ends = text.rpartition("=")
        try:
            by_name[name] = tuple(map(float, ends.split(",")))
        except ValueError:
            by_name[name] = ()
        if len(by_name[name]) not in (2, 4):
            raise InvalidParameterError(
                f"{flag} is {shown(text)}, expected [NAME=]LOW,HIGH of what one decision pays, or "
                f"[NAME=]LOW,HIGH,LEAST,MOST with what all that follow may pay"
            )
    if "" in by_name and len(by_name) > 1:
        raise InvalidParameterError(
            f"{flag} is given with a name and without; give NAME=LOW,HIGH for each utility, or "
            f"LOW,HIGH once for all of them"
        )
    return by_name.get("", by_name or None)


@dataclass(frozen=True, kw_only=True)
class _SimulatorOptions:
    env: str = argument("ENV_ID  A Gymnasium environment: its id, MODULE:ID, or FILE.py:FUNCTION.")
    out: Path | None = option("RUN  Run directory for the results, with a page.")
    agent: str = option("AGENT  A name, sb3:PATH.zip, or FILE.py:NAME.", default=REQUIRED)
    utilities: Sequence[str] = option(
        "--utility NAME=FILE.py:FUNCTION  What a decision pays: reward (the default), learnt from "
        "episodes, or a function of (observation, info); repeat for more, and their differences.",
        default=(),
    )
    state: str | None = option(
        "observation|FILE.py:FUNCTION  What names the state: what is observed, or a function."
    )
    env_options: Mapping[str, Any] | None = option(
        "--env-option KEY=JSON  A keyword for the environment, such as size=7.",
        read=partial(values_by_name, expected="KEY=JSON, such as size=7 or 'goal=[1,2]'"),
    )
    combined: bool = option("Measure the best linear combination of utilities too.", default=False)
    reference: str | None = option(
        "REFERENCE  Of continuous actions: uniform, gaussian(SCALE) or gaussian(SCALE,CENTRE)."
    )
    chance: str | None = option(
        "generator|none|unknown  Where chance comes from; generator: the environment's np_random."
    )
    budget: int = option("Steps of the simulator, in all.", default=200_000, least=1)
    level: float = option("Confidence level of the intervals.", default=0.95)
    guarantee: bool = option("Add bounds that hold for any number of steps.", default=False)
    seed: int = option("Seed of everything random.", default=0, least=0, most=MOST_SEED)
    bounds: Mapping[str, Any] | Sequence[float] | None = option(
        "[NAME=]LOW,HIGH[,LEAST,MOST]  Bounds of one payment, and of all that follow; repeat.",
        kind=list[str],
        read=_bounds,
    )
    horizon: int | None = option("Decisions; default the environment's time limit.", least=1)


# Options that are passed to `from_simulator` as they are.
_PASSED = ("combined", "reference", "chance", "budget", "level", "guarantee", "seed", "bounds")


@command(_SimulatorOptions)
def measure_simulator(o: _SimulatorOptions, tell: Tell) -> Outcome:
    """Measure the MEG of an agent in a simulator.

    In FILE.py, an agent is one of ours, a function of the observation, or a function without
    parameters that returns a model; utilities and names of states are functions of (observation,
    info). Without --chance it is generator for Gymnasium's own environments and ours, else unknown.
    """
    out = None
    if o.out is not None:
        require_report_extra()
        out = Path(o.out).absolute()  # an environment may change the working folder
    # What a user's code prints is no result, and the result is all that standard output has.
    with redirect_stdout(sys.stderr):
        measurement = _measure(o, out, tell)
    text = "\n".join(str(result) for result in measurement.utilities)
    tables, json = short_tables(measurement), measurement.to_json()
    if out is not None:
        more: dict[str, Any] = {"tables": tables, "text": text}
        more |= {"command": "goalmeter meg simulator"} | page_of(part_of([measurement]))
        return write_outcome(out, result=json, **more)
    return Outcome(tables=tables, json=json, text=text)


def _measure(o: _SimulatorOptions, out: Path | None, tell: Tell) -> Measurement:
    """Measure, or read it from a run directory."""
    options: dict[str, Any] = {name: getattr(o, name) for name in _PASSED}
    env_options, code, messages = dict(o.env_options or {}), UserCode(), list[Any]()

    def hear(now: Any) -> None:
        messages.append(now)
        tell(str(now))

    def measured() -> Measurement:
        by_name: Any = from_simulator(
            world, agent, utility=utilities, state=state, progress=hear, **options
        )
        results = tuple(by_name.values())
        return Measurement(o.agent, options["horizon"], o.budget, o.seed, results, tuple(messages))

    with ExitStack() as until_measured:
        state: Any = o.state
        if state not in (None, OBSERVATION):
            state = code.function(state, "state")
        utilities = _utilities(o.utilities, code)
        tell(f"making {o.env}")
        with caller_guard():
            env = o.env if split_name(o.env) is None else code.function(o.env, "environment")
            world = opened(env, **env_options)
            until_measured.callback(closed, world)
            options["horizon"] = o.horizon or time_limit(world)
            agent = _agent(o.agent, code)
        files = [text.partition("=")[2] or text for text in o.utilities]
        # The identity of the run: the options as typed, and the files that they name.
        what = {
            "kind": KIND,
            "environment": o.env,
            "environment options": env_options,
            "agent": o.agent,
            "utilities": list(o.utilities) or [REWARD],
            "state": o.state,
            **options,
            "files": contents([o.env, o.agent, *files, o.state or ""]),
        }
        study = Study(
            "this measurement",
            measured,
            {KEY: {}},
            noun="measurement",
            what=what,
            from_json=lambda _, stored: Measurement.from_json(stored, str(out)),
            to_json=Measurement.to_json,
        )
        is_stored = out is not None and KEY in keys_in(out)
        result = carry_out(study, out=out)[KEY]
        if is_stored:  # only now is it known to be this measurement and no other
            tell(f"{out} holds this measurement already")
    return result


def _agent(spelled: str, code: UserCode) -> Any:
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
    member = code.member(spelled, "agent")
    if walks(member):
        return canonical(spelled)  # the registry makes agents for grid worlds
    if isinstance(member, type) or (callable(member) and not signature(member).parameters):
        member = member()
    if member is None:
        raise InvalidFileError(f"{spelled}() returned nothing, expected an agent")
    return member


def _utilities(spelled: Sequence[str], code: UserCode) -> dict[str, Any]:
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
        out[name] = known[what] if what in known else code.function(what, "utility")
    return out
