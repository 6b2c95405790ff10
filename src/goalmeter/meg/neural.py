"""Goal-directedness towards the best utility that a neural network can express."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import InvalidUtilityError, require
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import behaviour_of, yardstick
from goalmeter.meg.known import known_utility
from goalmeter.meg.linear_utility import linear_utility
from goalmeter.meg.network_ascent import HIDDEN, Progress, climb, unheard
from goalmeter.meg.result import MegResult
from goalmeter.meg.utility_class import linear_class
from goalmeter.meg.watch import STOPPED_BY, FitInterrupted, Listener, TimeIsUp, Watch, duration
from goalmeter.tabular._validation import as_floats, shape_text
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_policy
from goalmeter.tabular.policies import normalised_notes

if TYPE_CHECKING:
    from torch import nn

# One-hot inputs [S, S] are made up to this many states.
_ONE_HOT_STATES = 4_096


def neural_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    module: nn.Module | None = None,
    inputs: ArrayLike | None = None,
    seeds: Iterable[int] = range(5),
    iterations: int = 200,
    reference: ArrayLike | None = None,
    progress: Listener | None = None,
    timeout: float | None = None,
) -> MegResult:
    """MEG towards utilities over states that a torch module computes: Algorithm 2.

    Each seed initialises the module anew and climbs the evidence with exact gradients
    (L-BFGS); the rationality of the utility it ends with is then optimised exactly, infinity
    included. The problem is not convex, so the best seed is a lower bound; `upper_bound` is the
    certified bound of the class of all utilities over states, which contains the network's.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A].
        module: torch module from inputs [S, F] to utilities [S] or [S, 1]; layers are
            initialised by their `reset_parameters`. Default: the paper's MLP, one hidden
            layer of 256.
        inputs: state features [S, F] that the module reads; default one-hot.
        seeds: one restart for each.
        iterations: L-BFGS iterations a restart.
        reference: the policy that scores 0; default uniform.
        progress: called at every iteration, and every step of the search for the bound, with a
            `Progress`; default silence.
        timeout: seconds after which the search ends with what it has; the restarts may take half
            of them, the rest is for the bound.

    Raises:
        FitInterrupted: interrupted at the keyboard; its attribute `result` is the best so far.
        MissingExtraError: torch is not installed.
        InvalidUtilityError: inputs, or what the module returns, do not fit the MDP.
        InvalidParameterError: no seeds, or iterations below 1.

    Source: MEG paper (NeurIPS 2024), section 5, Algorithm 2; section 6 for the network.
    """
    chosen = list(seeds)
    behaviour = behaviour_of(mdp, [policy])
    log_reference = None if reference is None else log_policy(mdp, reference, "reference")
    ceiling = float(yardstick(behaviour, log_reference, linear_class(mdp).tells_apart()).ceiling[0])
    # Loading torch takes seconds, which are not to be taken from the time for the search.
    require("torch", extra="neural", feature="a neural utility")
    watch = Watch[list[FloatArray]](progress, None if timeout is None else 0.5 * timeout)
    watch.best = []

    def hear(restart: int, iteration: int, value: float, so_far: list[FloatArray]) -> None:
        watch.tell(
            so_far,
            value,
            ceiling,
            stage=f"network: restart {restart + 1} of {len(chosen)}",
            step=iteration + 1,
            of=iterations * (len(chosen) - restart),
        )

    stopped: str | None = None
    try:
        utilities = climb(
            behaviour,
            linear_class(mdp),
            log_reference,
            _inputs(mdp, inputs),
            module=module,
            seeds=chosen,
            iterations=iterations,
            heard=hear,
            check=watch.check,
        )
    except (TimeIsUp, KeyboardInterrupt) as cause:
        stopped = "timeout" if isinstance(cause, TimeIsUp) else "interrupt"
        # A restart that had not begun to climb leaves the utility that is 0 everywhere.
        utilities = watch.best or [np.zeros(mdp.n_states)]
    fits = [known_utility(mdp, policy, utility=u, reference=reference) for u in utilities]
    best = max(fits, key=lambda fit: fit.value)
    values = np.array([fit.value for fit in fits])
    upper = ceiling
    if stopped != "interrupt":
        left = None if timeout is None else max(timeout - watch.elapsed, 1e-3)
        try:
            bound = linear_utility(
                mdp, policy, reference=reference, progress=progress, timeout=left
            )
        except FitInterrupted as cause:
            bound, stopped = cause.result, "interrupt"
        upper, stopped = bound.upper_bound, stopped or bound.stopped
    spread = 2 * float(values.std(ddof=1)) if len(values) > 1 else 0.0
    label = f"a network with one hidden layer of {HIDDEN}" if module is None else "a torch module"
    notes = [
        "a lower bound: the problem is not convex; the upper bound is that of all utilities over "
        "states",
        f"over {len(values)} seeds: {values.mean():.4g} ± {spread:.2g} nats (mean ± 2 sd)",
    ]
    if stopped is not None:
        notes.append(
            f"stopped by {STOPPED_BY[stopped]} after {duration(watch.elapsed)}, in or after "
            f"restart {len(values)} of {len(chosen)}: the value is the best so far, and the upper "
            f"bound is what was proven by then"
        )
    result = replace(
        best,
        upper_bound=max(upper, best.value),
        target=f"some utility over states computed by {label}",
        method=f"Algorithm 2, the best of {len(values)} seeded restarts",
        notes=(*notes, *normalised_notes(policy=policy, reference=reference)),
        stopped=stopped,
    )
    if stopped == "interrupt":
        raise FitInterrupted(result) from None
    return result


def neural_values(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    module: nn.Module | None = None,
    inputs: ArrayLike | None = None,
    seeds: Iterable[int] = range(5),
    iterations: int = 200,
    reference: ArrayLike | None = None,
    progress: Progress | None = None,
) -> FloatArray:
    """The value that each seed of `neural_utility` reaches, nats: [number of seeds]."""
    fits = _fits(mdp, policy, module, inputs, list(seeds), iterations, reference, progress)
    return np.array([fit.value for fit in fits])


def _fits(
    mdp: TabularMDP,
    policy: ArrayLike,
    module: nn.Module | None,
    inputs: ArrayLike | None,
    seeds: list[int],
    iterations: int,
    reference: ArrayLike | None,
    progress: Progress | None,
) -> list[MegResult]:
    """The fit of every seed, each with its rationality optimised exactly."""
    behaviour = behaviour_of(mdp, [policy])
    log_reference = None if reference is None else log_policy(mdp, reference, "reference")
    utilities = climb(
        behaviour,
        linear_class(mdp),
        log_reference,
        _inputs(mdp, inputs),
        module=module,
        seeds=seeds,
        iterations=iterations,
        heard=unheard(progress),
    )
    return [known_utility(mdp, policy, utility=u, reference=reference) for u in utilities]


def _inputs(mdp: TabularMDP, inputs: ArrayLike | None) -> FloatArray:
    if inputs is None:
        if mdp.n_states > _ONE_HOT_STATES:
            raise InvalidUtilityError(
                f"the MDP has {mdp.n_states} states, more than the {_ONE_HOT_STATES} for which "
                f"one-hot inputs are made; pass inputs=[S, F], the state features to read"
            )
        return np.eye(mdp.n_states)
    array = as_floats(inputs, "inputs", InvalidUtilityError)
    if array.ndim != 2 or array.shape[0] != mdp.n_states:
        raise InvalidUtilityError(
            f"inputs has shape {shape_text(array.shape)}, expected [{mdp.n_states}, F]: "
            f"features of each state"
        )
    return array
