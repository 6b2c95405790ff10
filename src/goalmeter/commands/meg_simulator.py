"""`goalmeter meg simulator`, with environments, utilities and agents from a user's file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._options import values_by_name
from goalmeter.agents.user_code import UserCode, contents, split_name
from goalmeter.commands.declare import (
    REQUIRED,
    InterruptedCommand,
    SeedOptions,
    Tell,
    argument,
    command,
    option,
)
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.meg.simulator import LearntUtility, SimulatorInterrupted, from_simulator
from goalmeter.meg.simulator.agents import spelled_agent
from goalmeter.meg.simulator.gymnasium_worlds import closed, opened, time_limit
from goalmeter.meg.simulator.measure import KEY, Measurement, study_of
from goalmeter.meg.simulator.protocol import caller_guard
from goalmeter.meg.simulator.states import OBSERVATION
from goalmeter.meg.simulator.utilities import REWARD
from goalmeter.pages.simulator import part_of, short_tables
from goalmeter.report import require_report_extra
from goalmeter.runs import carry_out, keys_in


def _bounds(flag: str, texts: Sequence[str] | None) -> Any:
    """Return bounds of all utilities or by name, as `from_simulator` takes them."""
    by_name: dict[str, tuple[float, ...]] = {}
    for text in texts or ():
        name, _, ends = text.rpartition("=")
        try:
            numbers = tuple(map(float, ends.split(",")))
        except ValueError:
            numbers = ()
        if len(numbers) not in (2, 4) or name in by_name:
            why = "is given twice" if name in by_name else f"is {shown(text)}"
            raise InvalidParameterError(
                f"{flag} {why}, expected once for each utility [NAME=]LOW,HIGH of what one "
                f"decision pays, or [NAME=]LOW,HIGH,LEAST,MOST with what all that follow may pay"
            )
        by_name[name] = numbers
    if "" in by_name and len(by_name) > 1:
        raise InvalidParameterError(
            f"{flag} is given with a name and without; give NAME=LOW,HIGH for each utility, or "
            f"LOW,HIGH once for all of them"
        )
    return by_name.get("", by_name or None)


@dataclass(frozen=True, kw_only=True)
class SimulatorOptions(SeedOptions):
    """Options of `goalmeter meg simulator`."""

    env: str = argument("ENV_ID  A Gymnasium environment: its id, MODULE:ID, or FILE.py:FUNCTION.")
    agent: str = option(
        "AGENT  Who is measured: a name, sb3:PATH.zip, or FILE.py:NAME of an agent, of a function "
        "of the observation, or of a function without parameters that returns a model.",
        default=REQUIRED,
    )
    utilities: Sequence[str] = option(
        "--utility NAME=FILE.py:FUNCTION  What a decision pays: reward (the default), learnt from "
        "some episodes, or a function of (observation, info); repeat for more, and their "
        "differences.",
        default=(),
    )
    combined: bool = option("Measure the best linear combination of utilities too.", default=False)
    horizon: int | None = option("Decisions; default the environment's time limit.", least=1)
    budget: int = option("Steps of the simulator, in all.", default=200_000, least=1)
    level: float = option("Probability with which the interval holds.", default=0.95)
    precision: float = option(
        "End early when the lower end is within this share of the estimate.", default=0.02
    )
    state: str | None = option(
        "observation|FILE.py:FUNCTION  What names the state: the observation, or a function of "
        "(observation, info)."
    )
    bounds: Mapping[str, Any] | None = option(
        "[NAME=]LOW,HIGH[,LEAST,MOST]  Least and greatest payment of one decision, and of all that "
        "follow; repeat for more utilities.",
        kind=list[str],
        read=_bounds,
    )
    reference: str | None = option(
        "REFERENCE  Of continuous actions: uniform, gaussian(SCALE) or gaussian(SCALE,CENTRE)."
    )
    chance: str | None = option(
        "generator|none|unknown  Where chance comes from: all of it from the environment's "
        "np_random, none, or unknown; default generator for Gymnasium's environments and ours, "
        "else unknown."
    )
    env_options: Mapping[str, Any] | None = option(
        "--env-option KEY=JSON  A keyword for the environment, such as size=7.",
        read=partial(values_by_name, expected="KEY=JSON, such as size=7 or 'goal=[1,2]'"),
    )
    out: Path | None = option("RUN  Run directory for the results, with a page.")


@command(SimulatorOptions)
def measure_simulator(o: SimulatorOptions, tell: Tell) -> Outcome:
    """Measure the MEG of an agent in a simulator."""
    names = ("combined", "reference", "chance", "budget", "level", "precision", "seed", "bounds")
    settings = {name: getattr(o, name) for name in names}
    env_options, code, messages = dict(o.env_options or {}), UserCode(), list[Any]()
    out = None
    if o.out is not None:
        require_report_extra()
        out = Path(o.out).absolute()  # an environment may change the working folder

    def hear(now: Any) -> None:
        messages.append(now)
        tell(str(now))

    def measure() -> Measurement:
        about = o.agent, settings["horizon"], o.budget, o.seed
        try:
            found: Any = from_simulator(
                world, agent, utility=utilities, state=state, progress=hear, **settings
            )
        except SimulatorInterrupted as so_far:
            raise InterruptedCommand(
                _outcome(Measurement(*about, so_far.results, messages)),
                "interrupted; this is what was proven by then, and nothing is kept",
            ) from None
        except KeyboardInterrupt:
            tell("goalmeter: interrupted before any bound was known; nothing is kept")
            raise
        return Measurement(*about, found, messages)

    with ExitStack() as until_measured:
        # What a user's code prints is no result, and the result is all that standard output has.
        until_measured.enter_context(redirect_stdout(sys.stderr))
        state: Any = o.state
        if state not in (None, OBSERVATION):
            state = code.function(state, "state")
        utilities = _utilities(o.utilities, code)
        tell(f"making {o.env}")
        with caller_guard():
            if split_name(o.env) is None:
                world = opened(o.env, **env_options)
            else:
                world = opened(code.function(o.env, "environment")(**env_options))
            until_measured.callback(closed, world)
            settings["horizon"] = time_limit(world) if o.horizon is None else o.horizon
            agent = spelled_agent(o.agent, code)
        utility_files = [text.partition("=")[2] or text for text in o.utilities]
        # The identity of the run: the options as typed, and the files that they name.
        what = {
            "environment": o.env,
            "environment options": env_options,
            "agent": o.agent,
            "utilities": list(o.utilities) or [REWARD],
            "state": o.state,
            **settings,
            "files": contents([o.env, o.agent, *utility_files, o.state or ""]),
        }
        is_stored = out is not None and KEY in keys_in(out)
        result = carry_out(study_of(measure, what, out), out=out)[KEY]
        # Only now is it known to be this measurement and no other.
        if is_stored:
            tell(f"{out} holds this measurement already")
    outcome = _outcome(result)
    if out is None:
        return outcome
    part = part_of([result])
    page: dict[str, Any] = {name: getattr(part, name) for name in ("lede", "findings", "glossary")}
    page |= {"command": "goalmeter meg simulator", "tables": outcome.tables, "text": outcome.text}
    return write_outcome(out, part.title, part.sections, outcome.json, **page)


def _outcome(measurement: Measurement) -> Outcome:
    text = "\n".join(str(result) for result in measurement.results.values())
    return Outcome(tables=short_tables(measurement), json=measurement.to_json(), text=text)


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
