"""The environment that a caller gives, by its id or otherwise; its name and its time limit."""

from __future__ import annotations

from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._text import in_a_line
from goalmeter.meg.simulator.states.own_code import layers
from goalmeter.meg.simulator.states.wrappers import check_layers, one_of


def opened(env: Any, **options: Any) -> Any:
    """An environment from what a caller gives: itself, an id, a factory, or a vector environment.

    Raises:
        InvalidParameterError: none of these, or an id that Gymnasium does not know.
        MissingExtraError: Gymnasium is not installed.
    """
    if isinstance(env, str):
        from goalmeter._errors import require

        gymnasium = require("gymnasium", extra="rl", feature="An environment by its id")
        try:
            return gymnasium.make(env, **options)
        except (gymnasium.error.Error, ImportError, TypeError) as cause:
            raise InvalidParameterError(
                f"gymnasium cannot make {env!r}: {in_a_line(cause).rstrip('.')}; check the options "
                f"and the id, which is MODULE:ID for an environment of another package"
            ) from cause
    if isinstance(env, type):
        return opened(env(), **options)
    if hasattr(env, "step") and (hasattr(env, "envs") or hasattr(env, "num_envs")):
        return opened(one_of(env))
    if hasattr(env, "step") and hasattr(env, "reset"):
        if hasattr(env, "unwrapped") and hasattr(env, "action_space"):
            check_layers(env)
            return env
        raise InvalidParameterError(
            f"env is {env!r}, which has no action_space or is not derived from gymnasium.Env; "
            f"derive it from gymnasium.Env"
        )
    if callable(env):
        return opened(env(), **options)
    raise InvalidParameterError(
        f"env is {env!r}, expected a Gymnasium environment, its id, a function that makes one, or "
        f"a TabularMDP"
    )


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
