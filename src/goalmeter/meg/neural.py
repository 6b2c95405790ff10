"""Goal-directedness towards the best utility that a neural network can express."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError, require
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import Behaviour, behaviour_of
from goalmeter.meg.known import known_utility
from goalmeter.meg.linear_utility import linear_utility
from goalmeter.meg.result import MegResult
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import LinearClass, linear_class
from goalmeter.tabular._validation import as_floats, shape_text
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_policy

if TYPE_CHECKING:
    import torch
    from torch import nn

HIDDEN = 256
# One-hot inputs [S, S] are made up to this many states.
_ONE_HOT_STATES = 4_096

# progress(restart, iteration, best value in nats)
Progress = Callable[[int, int, float], None]


def neural_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    module: nn.Module | None = None,
    inputs: ArrayLike | None = None,
    seeds: Iterable[int] = range(5),
    iterations: int = 200,
    reference: ArrayLike | None = None,
    progress: Progress | None = None,
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
        progress: called as progress(restart, iteration, best value in nats).

    Raises:
        MissingExtraError: torch is not installed.
        InvalidUtilityError: inputs, or what the module returns, do not fit the MDP.
        InvalidParameterError: no seeds, or iterations below 1.

    Source: MEG paper (NeurIPS 2024), section 5, Algorithm 2; section 6 for the network.
    """
    chosen = list(seeds)
    fits = _fits(mdp, policy, module, inputs, chosen, iterations, reference, progress)
    best = max(fits, key=lambda fit: fit.value)
    values = np.array([fit.value for fit in fits])
    bound = linear_utility(mdp, policy, reference=reference)
    spread = 2 * float(values.std(ddof=1)) if len(values) > 1 else 0.0
    label = f"a network with one hidden layer of {HIDDEN}" if module is None else "a torch module"
    return replace(
        best,
        upper_bound=max(bound.upper_bound, best.value),
        target=f"some utility over states computed by {label}",
        method=f"Algorithm 2, the best of {len(values)} seeded restarts",
        notes=(
            "a lower bound: the problem is not convex; the upper bound is the certified one of "
            "all utilities over states",
            f"over {len(values)} seeds: {values.mean():.4g} ± {spread:.2g} nats (mean ± 2 sd)",
        ),
    )


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
    found = climb(
        behaviour,
        linear_class(mdp),
        log_reference,
        _inputs(mdp, inputs),
        module=module,
        seeds=seeds,
        iterations=iterations,
        progress=progress,
    )
    return [known_utility(mdp, policy, utility=utility, reference=reference) for utility in found]


def climb(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    inputs: FloatArray,
    *,
    module: nn.Module | None,
    seeds: list[int],
    iterations: int,
    progress: Progress | None,
) -> list[FloatArray]:
    """Algorithm 2: for each seed the best utility [D] that a module finds, scaled to 0..1.

    Args:
        behaviour: what is to be predicted.
        utilities: the class whose D weights are what the module computes.
        log_reference: what scores 0, [T, A, S] or None for uniform.
        inputs: what the module reads of each weight, [D, F].
        module: from [D, F] to [D] or [D, 1]; None for the paper's MLP.
        seeds: one restart for each.
        iterations: L-BFGS iterations a restart.
        progress: called as progress(restart, iteration, best value in nats).

    Raises:
        MissingExtraError: torch is not installed.
        InvalidParameterError: no seeds, or iterations below 1.
        InvalidUtilityError: what the module returns is not a utility.
    """
    require("torch", extra="neural", feature="a neural utility")
    import torch

    if not seeds or iterations < 1:
        raise InvalidParameterError(
            f"got {len(seeds)} seeds and {iterations} iterations, expected at least one of each"
        )
    features = torch.from_numpy(inputs)
    # New layers draw from torch's randomness; the caller's is left as it was, here and below.
    with torch.random.fork_rng(devices=[]):
        network = _default_network(features.shape[1]) if module is None else copy.deepcopy(module)
    results = []
    for restart, seed in enumerate(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = copy.deepcopy(network).double()
            fresh.apply(_reset)
        ascent = _Ascent(behaviour, utilities, log_reference, fresh, features)
        utility = ascent.run(iterations, partial(progress, restart) if progress else None)
        low, width = float(utility.min()), float(np.ptp(utility)) or 1.0
        results.append((utility - low) / width)
    return results


class _Ascent:
    """L-BFGS on the evidence as a function of a module's parameters."""

    def __init__(
        self,
        behaviour: Behaviour,
        utilities: LinearClass,
        log_reference: FloatArray | None,
        module: nn.Module,
        features: torch.Tensor,
    ) -> None:
        self._behaviour = behaviour
        self._utilities = utilities
        self._log_reference = log_reference
        self._module = module
        self._features = features
        self._best = -np.inf
        self._utility = np.zeros(utilities.n_weights)

    def run(self, iterations: int, report: Callable[[int, float], None] | None) -> FloatArray:
        """Climb, and return the best utility met on the way, [D]."""
        import torch

        optimiser = torch.optim.LBFGS(
            self._module.parameters(),
            max_iter=1,
            max_eval=25,
            history_size=20,
            line_search_fn="strong_wolfe",
        )
        last = -np.inf
        for iteration in range(iterations):
            optimiser.step(lambda: self._loss(optimiser))  # type: ignore[no-untyped-call]
            if report is not None:
                report(iteration, self._best)
            if self._best - last <= 1e-8 * max(1.0, abs(self._best)):
                break
            last = self._best
        return self._utility

    def _loss(self, optimiser: torch.optim.Optimizer) -> torch.Tensor:
        """Minus the evidence, its gradient left in the parameters."""
        import torch

        optimiser.zero_grad()
        output = self._module(self._features)
        d = self._utilities.n_weights
        if output.shape not in ((d,), (d, 1)):
            raise InvalidUtilityError(
                f"the module returns shape {shape_text(output.shape)}, expected [{d}] or "
                f"[{d}, 1]: one utility for each row of its inputs"
            )
        flat = output.reshape(-1)
        utility = flat.detach().numpy().copy()
        model = SoftModel(self._behaviour.mdp, self._utilities, utility, self._log_reference)
        value = model.evidence(self._behaviour)
        if value > self._best:
            self._best, self._utility = value, utility
        # The evidence is planned in NumPy; its gradient enters the network's chain rule here.
        flat.backward(-torch.from_numpy(model.gradient(self._behaviour)))
        return torch.tensor(-value, dtype=torch.float64)


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


def _default_network(n_inputs: int) -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(n_inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


def _reset(layer: nn.Module) -> None:
    reset = getattr(layer, "reset_parameters", None)
    if callable(reset):
        reset()
