"""Goal-directedness towards the best utility that a neural network can express."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError, require
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import (
    Behaviour,
    LinearClass,
    behaviour_of,
    linear_class,
    reconciled,
    yardstick,
)
from goalmeter.meg.known import known_utility
from goalmeter.meg.linear import linear_utility
from goalmeter.meg.result import (
    STOPPED_BY,
    FitInterrupted,
    Listener,
    MegResult,
    Reached,
    TimeIsUp,
    Watch,
    duration,
)
from goalmeter.meg.soft_model import SoftModel
from goalmeter.tabular.arrays import as_floats, shape_text, wrong_shape
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_of_reference
from goalmeter.tabular.policies import normalised_notes

if TYPE_CHECKING:
    import torch
    from torch import nn

_ONE_HOT_STATES = 4_096  # one-hot inputs [S, S] are made up to this many states
HIDDEN = 256

# heard(restart, iteration, best value in nats, the utilities so far)
Heard = Callable[[int, int, float, list[FloatArray]], None]


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

    Each seed initialises the module anew and climbs the evidence with exact gradients (L-BFGS); the
    rationality of the utility it ends with is then optimised exactly, infinity included. The best
    seed is a lower bound; `upper_bound` is that of the class of all utilities over states.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A].
        module: torch module from inputs [S, F] to utilities [S] or [S, 1], initialised by
            `reset_parameters`. Default: the paper's MLP, one hidden layer of 256.
        inputs: state features [S, F] that the module reads; default one-hot.
        seeds: one restart for each.
        iterations: L-BFGS iterations a restart.
        reference: the policy that scores 0; default uniform.
        progress: called at every step with a `Progress`; silent by default.
        timeout: seconds after which the search ends; half of them are for the bound.

    Raises:
        FitInterrupted: interrupted at the keyboard; its attribute `result` is the best so far.

    Source: MEG paper (NeurIPS 2024), section 5, Algorithm 2; section 6 for the network.
    """
    chosen = list(seeds)
    class_, behaviour = linear_class(mdp), behaviour_of(mdp, [policy])
    log_reference = log_of_reference(mdp, reference)
    ceiling = float(yardstick(behaviour, log_reference, class_.tells_apart())[1][0])
    # Loading torch takes seconds, which are not to be taken from the time for the search.
    require("torch", extra="neural", feature="a neural utility")
    watch = Watch[Reached](progress, None if timeout is None else 0.5 * timeout)
    # A restart that had not begun to climb leaves the utility that is 0 everywhere.
    so_far = [np.zeros(mdp.n_states)]

    def hear(restart: int, iteration: int, value: float, utilities: list[FloatArray]) -> None:
        stage = f"network: restart {restart + 1} of {len(chosen)}"
        most = iterations * (len(chosen) - restart)
        so_far[:] = utilities
        watch.tell(Reached(value, ceiling, 0.0, False), stage=stage, step=iteration + 1, of=most)

    stopped: str | None = None
    try:
        utilities = climb(
            behaviour,
            class_,
            log_reference,
            _inputs(mdp, inputs),
            NetworkSearch(module, chosen, iterations),
            heard=hear,
            check=watch.check,
        )
    except (TimeIsUp, KeyboardInterrupt) as cause:
        stopped = "timeout" if isinstance(cause, TimeIsUp) else "interrupt"
        utilities = so_far
    # The network's scale is arbitrary, so each utility gets its own best rationality.
    fits = [known_utility(mdp, policy, utility=u, reference=reference) for u in utilities]
    best = max(fits, key=lambda fit: fit.value)
    values = np.array([fit.value for fit in fits])
    upper = ceiling
    if stopped != "interrupt":
        left = None if timeout is None else max(timeout - watch.elapsed, 1e-3)
        try:
            bound = linear_utility(mdp, policy, reference=reference, watch=Watch(progress, left))
        except FitInterrupted as cause:
            bound, stopped = cause.result, "interrupt"
        upper, stopped = bound.upper_bound, stopped or bound.stopped
    label = f"a network with one hidden layer of {HIDDEN}" if module is None else "a torch module"
    notes = restart_notes(values, "that of all utilities over states")
    if stopped is not None:
        notes.append(
            f"stopped by {STOPPED_BY[stopped]} after {duration(watch.elapsed)}, in or after "
            f"restart {len(values)} of {len(chosen)}: the value is the best so far, and the upper "
            f"bound is what was proven by then"
        )
    result = replace(
        best,
        upper_bound=reconciled(upper, best.value, best.maximum),
        target=f"some utility over states computed by {label}",
        method=f"Algorithm 2, the best of {len(values)} seeded restarts",
        notes=(*notes, *normalised_notes(policy=policy, reference=reference)),
        stopped=stopped,
    )
    if stopped == "interrupt":
        raise FitInterrupted(result) from None
    return result


def restart_notes(values: FloatArray, bound: str) -> list[str]:
    """Return the notes of a best restart; `bound` says what the upper bound is."""
    # Restarts that end apart are all that is known of how far the optimum may be.
    spread = 2 * float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return [
        f"a lower bound: the problem is not convex; the upper bound is {bound}",
        f"over {len(values)} seeds: {values.mean():.4g} ± {spread:.2g} nats (mean ± 2 sd)",
    ]


def neural_values(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    module: nn.Module | None = None,
    inputs: ArrayLike | None = None,
    seeds: Iterable[int] = range(5),
    iterations: int = 200,
    reference: ArrayLike | None = None,
) -> FloatArray:
    """Return the value that each seed of `neural_utility` reaches, nats: [number of seeds]."""
    utilities = climb(
        behaviour_of(mdp, [policy]),
        linear_class(mdp),
        log_of_reference(mdp, reference),
        _inputs(mdp, inputs),
        NetworkSearch(module, list(seeds), iterations),
    )
    fits = [known_utility(mdp, policy, utility=u, reference=reference) for u in utilities]
    return np.array([fit.value for fit in fits])


def _inputs(mdp: TabularMDP, inputs: ArrayLike | None) -> FloatArray:
    if inputs is None:
        if mdp.n_states > _ONE_HOT_STATES:
            raise InvalidUtilityError(
                f"the MDP has {mdp.n_states} states, more than the {_ONE_HOT_STATES} for which "
                f"one-hot inputs are made; pass inputs=[S, F], the state features to read"
            )
        return np.eye(mdp.n_states)
    return checked_inputs(inputs, mdp.n_states, "state")


def checked_inputs(inputs: ArrayLike, n: int, what: str) -> FloatArray:
    """Return what a module reads of n things as an array [n, F], if it is one."""
    array = as_floats(inputs, "inputs", InvalidUtilityError)
    if array.ndim != 2 or len(array) != n:
        expected = f"[{n}, F]: features of each {what}"
        raise wrong_shape("inputs", array.shape, expected, InvalidUtilityError)
    return array


class NetworkSearch(NamedTuple):
    """What climbs: a module, None for the paper's MLP, with a restart for each seed."""

    module: nn.Module | None
    seeds: list[int]
    iterations: int


def climb(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    inputs: FloatArray,
    search: NetworkSearch,
    *,
    heard: Heard | None = None,
    check: Callable[[], None] | None = None,
) -> list[FloatArray]:
    """Algorithm 2: for each seed the best utility [D] that a module reaches, scaled to 0..1."""
    # `heard` is told of every iteration; `check`, called in every pass, raises what ends it.
    require("torch", extra="neural", feature="a neural utility")
    import torch

    module, seeds, iterations = search
    if not seeds or iterations < 1:
        raise InvalidParameterError(
            f"got {len(seeds)} seeds and {iterations} iterations, expected at least one of each"
        )

    features = torch.from_numpy(inputs)
    # New layers draw from torch's randomness; the caller's is left as it was, here and below.
    with torch.random.fork_rng(devices=[]):
        if module is None:
            hidden = torch.nn.Linear(features.shape[1], HIDDEN)
            module = torch.nn.Sequential(hidden, torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1))
    results: list[FloatArray] = []
    highest = -np.inf
    for restart, seed in enumerate(seeds):
        # A fresh copy for each seed: the caller's module is neither trained nor moved to doubles.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = copy.deepcopy(module).double()
            fresh.apply(lambda layer: getattr(layer, "reset_parameters", lambda: None)())
        best, best_utility = -np.inf, np.zeros(len(inputs))

        def loss(network: nn.Module = fresh) -> torch.Tensor:
            """Minus the evidence, its gradient left in the parameters."""
            nonlocal best, best_utility
            network.zero_grad()
            output = network(features)
            d = len(features)
            if output.shape not in ((d,), (d, 1)):
                raise InvalidUtilityError(
                    f"the module returns shape {shape_text(output.shape)}, expected [{d}] or "
                    f"[{d}, 1]: one utility for each row of its inputs"
                )
            flat = output.reshape(-1)
            utility = flat.detach().numpy().copy()
            model = SoftModel(behaviour.mdp, utilities, utility, log_reference, check)
            value, gradient = model.evidence(behaviour), model.gradient(behaviour)
            if value > best:
                best, best_utility = value, utility
            # The evidence is planned in NumPy; its gradient enters the network's chain rule here.
            flat.backward(-torch.from_numpy(gradient))
            return torch.tensor(-value, dtype=torch.float64)

        optimiser = torch.optim.LBFGS(
            fresh.parameters(),
            max_iter=1,
            max_eval=25,
            history_size=20,
            line_search_fn="strong_wolfe",
        )
        for iteration in range(iterations):
            last = best
            optimiser.step(loss)  # type: ignore[no-untyped-call]
            if heard is not None:
                heard(restart, iteration, max(highest, best), [*results, _scaled(best_utility)])
            # Whether it gained enough for another.
            if not best - last > 1e-8 * max(1.0, abs(best)):
                break
        highest = max(highest, best)
        results.append(_scaled(best_utility))
    return results


def _scaled(utility: FloatArray) -> FloatArray:
    low, width = float(utility.min()), float(np.ptp(utility)) or 1.0
    return (utility - low) / width
