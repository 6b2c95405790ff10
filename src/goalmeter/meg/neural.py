"""Goal-directedness towards the best utility that a neural network can express."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
from goalmeter.meg.known import known_utility_many
from goalmeter.meg.linear import ClassOptions, linear_utility
from goalmeter.meg.result import (
    STOPPED_BY,
    FitInterrupted,
    Listener,
    MegResult,
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

# One-hot inputs [S, S] are made up to this many states.
_ONE_HOT_STATES = 4_096
HIDDEN = 256

# progress(restart, iteration, best value in nats)
NetworkProgress = Callable[[int, int, float], None]
# The same with the utilities so far.
UtilitiesCallback = Callable[[int, int, float, list[FloatArray]], None]


@dataclass(frozen=True)
class NetworkSearch:
    """Which network Algorithm 2 trains, and how often.

    Attributes:
        inputs: features of each weight that the module reads, [D, F].
        module: from [D, F] to [D] or [D, 1]; None for the paper's MLP.
        seeds: one restart for each.
        iterations: L-BFGS iterations a restart.
    """

    inputs: FloatArray
    module: nn.Module | None
    seeds: tuple[int, ...]
    iterations: int

    @property
    def label(self) -> str:
        """The network in words."""
        own = f"a network with one hidden layer of {HIDDEN}"
        return own if self.module is None else "a torch module"


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
    search = NetworkSearch(_inputs(mdp, inputs), module, tuple(seeds), iterations)
    restarts = len(search.seeds)
    behaviour = behaviour_of(mdp, [policy])
    log_reference = log_of_reference(mdp, reference)
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
            stage=f"network: restart {restart + 1} of {restarts}",
            step=iteration + 1,
            of=iterations * (restarts - restart),
        )

    stopped: str | None = None
    try:
        utilities = climb(
            behaviour, linear_class(mdp), log_reference, search, heard=hear, check=watch.check
        )
    except (TimeIsUp, KeyboardInterrupt) as cause:
        stopped = "timeout" if isinstance(cause, TimeIsUp) else "interrupt"
        # A restart that had not begun to climb leaves the utility that is 0 everywhere.
        utilities = watch.best or [np.zeros(mdp.n_states)]
    fits = _known_fits(mdp, policy, utilities, reference)
    best = max(fits, key=lambda fit: fit.value)
    values = np.array([fit.value for fit in fits])
    upper = ceiling
    if stopped != "interrupt":
        left = None if timeout is None else max(timeout - watch.elapsed, 1e-3)
        options = ClassOptions(reference=reference, progress=progress, timeout=left)
        try:
            bound = linear_utility(mdp, policy, options)
        except FitInterrupted as cause:
            bound, stopped = cause.result, "interrupt"
        upper, stopped = bound.upper_bound, stopped or bound.stopped
    spread = 2 * float(values.std(ddof=1)) if len(values) > 1 else 0.0
    notes = [
        "a lower bound: the problem is not convex; the upper bound is that of all utilities over "
        "states",
        f"over {len(values)} seeds: {values.mean():.4g} ± {spread:.2g} nats (mean ± 2 sd)",
    ]
    if stopped is not None:
        notes.append(
            f"stopped by {STOPPED_BY[stopped]} after {duration(watch.elapsed)}, in or after "
            f"restart {len(values)} of {restarts}: the value is the best so far, and the upper "
            f"bound is what was proven by then"
        )
    result = replace(
        best,
        upper_bound=reconciled(upper, best.value, best.maximum),
        target=f"some utility over states computed by {search.label}",
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
    progress: NetworkProgress | None = None,
) -> FloatArray:
    """The value that each seed of `neural_utility` reaches, nats: [number of seeds]."""
    search = NetworkSearch(_inputs(mdp, inputs), module, tuple(seeds), iterations)
    behaviour, log_reference = behaviour_of(mdp, [policy]), log_of_reference(mdp, reference)
    heard = without_utilities(progress)
    utilities = climb(behaviour, linear_class(mdp), log_reference, search, heard=heard)
    return np.array([fit.value for fit in _known_fits(mdp, policy, utilities, reference)])


def _known_fits(
    mdp: TabularMDP,
    policy: ArrayLike,
    utilities: list[FloatArray],
    reference: ArrayLike | None,
) -> list[MegResult]:
    """Fit each utility's own rationality: the network's scale is arbitrary."""
    return [
        known_utility_many(mdp, [policy], utilities=[utility], reference=reference)[0]
        for utility in utilities
    ]


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
        expected = f"[{mdp.n_states}, F]: features of each state"
        raise wrong_shape("inputs", array.shape, expected, InvalidUtilityError)
    return array


def without_utilities(progress: NetworkProgress | None) -> UtilitiesCallback | None:
    """A callback that passes on all but the utilities."""
    if progress is None:
        return None
    return lambda restart, iteration, value, _: progress(restart, iteration, value)


def climb(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    search: NetworkSearch,
    *,
    heard: UtilitiesCallback | None = None,
    check: Callable[[], None] | None = None,
) -> list[FloatArray]:
    """Run Algorithm 2: the best utility [D] that a module reaches from each seed, in 0 to 1.

    The class has the weights that the module computes. `heard` is called at every iteration with
    the utilities so far, that of the present restart last; `check` raises what ends the search.
    Raises errors as `neural_utility`.
    """
    require("torch", extra="neural", feature="a neural utility")
    import torch

    if not search.seeds or search.iterations < 1:
        raise InvalidParameterError(
            f"got {len(search.seeds)} seeds and {search.iterations} iterations, expected at least "
            f"one of each"
        )

    def model_of(utility: FloatArray) -> SoftModel:
        return SoftModel(behaviour.mdp, utilities, utility, log_reference, check)

    features = torch.from_numpy(search.inputs)
    module = search.module
    # New layers draw from torch's randomness; the caller's is left as it was, here and below.
    with torch.random.fork_rng(devices=[]):
        network = _default_network(features.shape[1]) if module is None else copy.deepcopy(module)
    # A fresh copy for each seed: the caller's module is neither trained nor moved to doubles.
    results: list[FloatArray] = []
    best = -np.inf
    for restart, seed in enumerate(search.seeds):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = copy.deepcopy(network).double()
            fresh.apply(_reset)
        ascent = _Ascent(behaviour, model_of, fresh, features)
        for iteration in range(search.iterations):
            more = ascent.step()
            if heard is not None:
                so_far = [*results, _scaled(ascent.utility)]
                heard(restart, iteration, max(best, ascent.best), so_far)
            if not more:
                break
        best = max(best, ascent.best)
        results.append(_scaled(ascent.utility))
    return results


def _scaled(utility: FloatArray) -> FloatArray:
    low, width = float(utility.min()), float(np.ptp(utility)) or 1.0
    return (utility - low) / width


class _Ascent:
    """L-BFGS on the evidence as a function of a module's parameters."""

    def __init__(
        self,
        behaviour: Behaviour,
        model_of: Callable[[FloatArray], SoftModel],
        module: nn.Module,
        features: torch.Tensor,
    ) -> None:
        import torch

        self._behaviour, self._model_of = behaviour, model_of
        self._module, self._features = module, features
        self.best, self.utility = -np.inf, np.zeros(len(features))
        self._optimiser = torch.optim.LBFGS(
            module.parameters(),
            max_iter=1,
            max_eval=25,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

    def step(self) -> bool:
        """One iteration; whether it gained enough for another."""
        last = self.best
        self._optimiser.step(self._loss)  # type: ignore[no-untyped-call]
        return self.best - last > 1e-8 * max(1.0, abs(self.best))

    def _loss(self) -> torch.Tensor:
        """Minus the evidence, its gradient left in the parameters."""
        import torch

        self._optimiser.zero_grad()
        output = self._module(self._features)
        d = len(self._features)
        if output.shape not in ((d,), (d, 1)):
            raise InvalidUtilityError(
                f"the module returns shape {shape_text(output.shape)}, expected [{d}] or "
                f"[{d}, 1]: one utility for each row of its inputs"
            )
        flat = output.reshape(-1)
        utility = flat.detach().numpy().copy()
        model = self._model_of(utility)
        value = model.evidence(self._behaviour)
        if value > self.best:
            self.best, self.utility = value, utility
        # The evidence is planned in NumPy; its gradient enters the network's chain rule here.
        flat.backward(-torch.from_numpy(model.gradient(self._behaviour)))
        return torch.tensor(-value, dtype=torch.float64)


def _default_network(n_inputs: int) -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(n_inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


def _reset(layer: nn.Module) -> None:
    reset = getattr(layer, "reset_parameters", None)
    if callable(reset):
        reset()
