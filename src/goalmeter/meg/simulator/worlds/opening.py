"""The environment that a caller gives, by its id or otherwise; its name and its time limit."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._text import in_a_line
from goalmeter.meg.simulator.states.wrappers import check_layers, layers, one_of


def opened(env: Any, **options: Any) -> Any:
    """Return the environment of an id, a factory, a vector environment or an environment."""
    if isinstance(env, str):
        from goalmeter._errors import require

        gymnasium = require("gymnasium", extra="rl", feature="An environment by its id")
        try:
            return gymnasium.make(env, **options)
        # Its own errors, and whatever an environment makes of options.
        except Exception as cause:
            raise InvalidParameterError(
                f"gymnasium cannot make {env!r}: {in_a_line(cause).rstrip('.')}; check the options "
                f"and the id, which is MODULE:ID for an environment of another package"
            ) from cause
    if isinstance(env, type):
        return opened(_made(env), **options)
    if hasattr(env, "step") and (hasattr(env, "envs") or hasattr(env, "num_envs")):
        return opened(one_of(env))
    if hasattr(env, "step") and hasattr(env, "reset"):
        if hasattr(env, "action_space") and _leads_to_bare(env):
            check_layers(env)
            return env
        raise InvalidParameterError(
            f"env is {env!r}, which has no action_space, no way through its wrappers, or is not "
            f"derived from gymnasium.Env; derive it from gymnasium.Env"
        )
    if callable(env):
        return opened(_made(env), **options)
    raise InvalidParameterError(
        f"env is {env!r}, expected a Gymnasium environment, its id, a function that makes one, or "
        f"a TabularMDP"
    )


def closed(env: Any) -> None:
    """Close what was made here; a failure of that changes nothing that was measured."""
    with suppress(Exception, SystemExit):
        env.close()


def _made(factory: Any) -> Any:
    """What a caller's function or class makes."""
    try:
        return factory()
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidParameterError(
            f"{getattr(factory, '__name__', 'the function')} made no environment: it raised "
            f"{in_a_line(cause)}; mend it, or give an environment"
        ) from cause


def _leads_to_bare(env: Any) -> bool:
    try:
        return bool(layers(env))
    except AttributeError:
        return False


def world_name(env: Any) -> str:
    """The id of an environment, or its class where it has none."""
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(env.unwrapped).__name__)


def time_limit(env: Any) -> int | None:
    """After how many steps an environment cuts episodes off; None where nothing says so."""
    limits = [getattr(layer, "_max_episode_steps", None) for layer in layers(env)]
    limits += [getattr(env.unwrapped, name, None) for name in ("max_steps", "max_episode_steps")]
    known = [int(limit) for limit in limits if limit]
    return min(known) if known else None
