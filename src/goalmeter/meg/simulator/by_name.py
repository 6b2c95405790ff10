"""Measurements of what has a name: environments, agents and utilities of users' files too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from goalmeter._errors import MOST_SEED, InvalidFileError, InvalidParameterError, shown
from goalmeter._options import REQUIRED, argument, option, values_by_name
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.user_agents import walks
from goalmeter.agents.user_code import UserCode, canonical, contents, guarded, split_name
from goalmeter.meg.simulator.environments import closed, opened, time_limit
from goalmeter.meg.simulator.measure import from_simulator
from goalmeter.meg.simulator.protocol import caller_guard
from goalmeter.meg.simulator.result import (
    KEY,
    KIND,
    Measurement,
    SimulatorInterrupted,
    SimulatorResult,
)
from goalmeter.meg.simulator.states import OBSERVATION
from goalmeter.meg.simulator.utilities import REWARD, LearntUtility
from goalmeter.runs import Study, carry_out, keys_in
from goalmeter.runs.progress import Tell


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
class SimulatorSettings:
    """What to measure by names; see `from_simulator`."""

    env: str = argument("ENV_ID  A Gymnasium environment: its id, MODULE:ID, or FILE.py:FUNCTION.")
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
    # Those of `from_simulator` as they are.
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


def measure(
    settings: SimulatorSettings, *, out: str | Path | None = None, progress: Tell
) -> Measurement:
    """Measure what has the names in `settings`; a measurement in a folder is taken from there.

    Raises:
        SimulatorInterrupted: its attribute `measurement` is what was proven by then.
    """
    names = [each.name for each in fields(SimulatorSettings)]
    options = {name: getattr(settings, name) for name in names[names.index("combined") :]}
    env_options, code, messages = dict(settings.env_options or {}), UserCode(), list[Any]()

    def hear(now: Any) -> None:
        messages.append(now)
        progress(str(now))

    def of_call(results: Mapping[str, SimulatorResult]) -> Measurement:
        whose = settings.agent, options["horizon"], settings.budget, settings.seed
        return Measurement(*whose, tuple(results.values()), tuple(messages))

    def measured() -> Measurement:
        try:
            found: Any = from_simulator(
                world, agent, utility=utilities, state=state, progress=hear, **options
            )
        except SimulatorInterrupted as so_far:
            so_far.measurement = of_call(so_far.results)
            raise
        except KeyboardInterrupt:
            progress("goalmeter: interrupted before any bound was known; nothing is kept")
            raise
        return of_call(found)

    with ExitStack() as until_measured:
        state: Any = settings.state
        if state not in (None, OBSERVATION):
            state = code.function(state, "state")
        utilities = _utilities(settings.utilities, code)
        progress(f"making {settings.env}")
        with caller_guard():
            if split_name(settings.env) is None:
                world = opened(settings.env, **env_options)
            else:
                world = opened(code.function(settings.env, "environment")(**env_options))
            until_measured.callback(closed, world)
            options["horizon"] = settings.horizon or time_limit(world)
            agent = _agent(settings.agent, code)
        files = [text.partition("=")[2] or text for text in settings.utilities]
        # The identity of the run: the options as typed, and the files that they name.
        what = {
            "kind": KIND,
            "environment": settings.env,
            "environment options": env_options,
            "agent": settings.agent,
            "utilities": list(settings.utilities) or [REWARD],
            "state": settings.state,
            **options,
            "files": contents([settings.env, settings.agent, *files, settings.state or ""]),
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
            progress(f"{out} holds this measurement already")
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
        member = guarded(member, spelled)()
    if member is None:
        raise InvalidFileError(f"{spelled}() returned nothing, expected an agent")
    if hasattr(member, "begin"):
        begin = guarded(member.begin, spelled)
        return SimpleNamespace(begin=lambda rng: guarded(begin(rng), spelled), __name__=spelled)
    # A model of a library is asked by its methods; a plain function is called.
    if callable(member) and not hasattr(member, "predict"):
        return guarded(member, spelled)
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
