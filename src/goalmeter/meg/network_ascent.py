"""Algorithm 2 itself: a torch module's utility climbs the evidence of a behaviour."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError, require
from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import LinearClass
from goalmeter.tabular._validation import shape_text

if TYPE_CHECKING:
    import torch
    from torch import nn

HIDDEN = 256

# progress(restart, iteration, best value in nats)
Progress = Callable[[int, int, float], None]
# the same with the utilities so far
Heard = Callable[[int, int, float, list[FloatArray]], None]


def unheard(progress: Progress | None) -> Heard | None:
    """A listener that is not told of the utilities."""
    if progress is None:
        return None
    return lambda restart, iteration, value, _: progress(restart, iteration, value)


def climb(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    inputs: FloatArray,
    *,
    module: nn.Module | None,
    seeds: list[int],
    iterations: int,
    heard: Heard | None = None,
    check: Callable[[], None] | None = None,
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
        heard: called as heard(restart, iteration, best value in nats, utilities so far), the last
            of which is that of the restart which is under way.
        check: called in every pass; it raises what ends the search.

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
    results: list[FloatArray] = []
    best = -np.inf
    for restart, seed in enumerate(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = copy.deepcopy(network).double()
            fresh.apply(_reset)
        ascent = _Ascent(behaviour, utilities, log_reference, fresh, features, check)
        for iteration in range(iterations):
            more = ascent.step()
            if heard is not None:
                heard(
                    restart,
                    iteration,
                    max(best, ascent.best),
                    [*results, _scaled(ascent.utility)],
                )
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
        utilities: LinearClass,
        log_reference: FloatArray | None,
        module: nn.Module,
        features: torch.Tensor,
        check: Callable[[], None] | None,
    ) -> None:
        import torch

        self._behaviour = behaviour
        self._utilities = utilities
        self._log_reference = log_reference
        self._module = module
        self._features = features
        self._check = check
        self.best = -np.inf
        self.utility = np.zeros(utilities.n_weights)
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
        d = self._utilities.n_weights
        if output.shape not in ((d,), (d, 1)):
            raise InvalidUtilityError(
                f"the module returns shape {shape_text(output.shape)}, expected [{d}] or "
                f"[{d}, 1]: one utility for each row of its inputs"
            )
        flat = output.reshape(-1)
        utility = flat.detach().numpy().copy()
        model = SoftModel(
            self._behaviour.mdp, self._utilities, utility, self._log_reference, self._check
        )
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
