"""Wrappers that a measurement cannot see through, or that carry something on between episodes."""

from __future__ import annotations

from typing import Any

from goalmeter._errors import InvalidParameterError

# Around a vector of Stable-Baselines3, these change nothing that a model of it would miss.
_SHOW_THE_SAME = frozenset({"VecMonitor", "VecTransposeImage", "VecCheckNan", "VecVideoRecorder"})
# These reset by themselves at the step after an end, so a copy made there goes back to a start.
_RESETTING = frozenset({"Autoreset", "AutoResetWrapper"})


def layers(env: Any) -> list[Any]:
    """An environment with its wrappers, from the outermost to the bare one."""
    out = [env]
    while out[-1] is not env.unwrapped:
        out.append(out[-1].env)
    return out


def one_of(vector: Any) -> Any:
    """One of the copies that a vector of environments runs."""
    # Stable-Baselines3 lets copies be reached through wrappers that alter what they show.
    layer = vector
    while hasattr(layer, "venv"):
        if type(layer).__name__ not in _SHOW_THE_SAME:
            raise InvalidParameterError(
                f"the vector of environments is wrapped in {type(layer).__name__}, so its copies "
                f"do not show and pay what the agent was given; give one environment that does "
                f"the same with fixed numbers, such as gymnasium.wrappers.TransformObservation"
            )
        layer = layer.venv
    if not hasattr(vector, "envs"):
        raise InvalidParameterError(
            f"the vector of environments is {vector!r}, whose copies cannot be taken out; give "
            f"one environment, or a function that makes one"
        )
    return vector.envs[0]


def check_layers(env: Any) -> None:
    """See that no wrapper learns from one episode to the next."""
    for layer in layers(env):
        if getattr(layer, "update_running_mean", False) is True:
            raise InvalidParameterError(
                f"the wrapper {type(layer).__name__} goes on learning its scale, so no two "
                f"episodes are of one world; set its update_running_mean = False first, or give "
                f"the environment without it"
            )


def why_no_return(env: Any) -> str:
    """Why no copy of a wrapped environment goes back to its state; "" where one may."""
    for layer in layers(env)[:-1]:
        if type(layer).__name__ in _RESETTING:
            return (
                f"the simulator cannot be put back into a state: its wrapper "
                f"{type(layer).__name__} resets by itself (leave it out)"
            )
    return ""
