"""Gradient ascent reaches 1e-3 nats about as fast, seldom 1e-6, and has no proof.

Worlds of 121 to 404 states, behaviour greedy for the last square with noise 0.2. Ours is
`gm.meg.unknown_utility`: the whole call, value and proven bound. L-BFGS (SciPy's, 20 corrections)
and Adam climb the same evidence from utility 0 with goalmeter's own passes for value and gradient,
so that only the optimiser differs. Adam has five rates, and each ascent 20 seconds; the
rate shown is the best in hindsight for that world and accuracy. The table has the time to come
within 1e-3 and 1e-6 nats of the value, as a multiple of ours with its proof, or the remaining
distance. An ascent cannot tell its distance to the optimum: it is stopped here by our value. Times
are CPU times of the process, in turns in one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import harness
import numpy as np
from unknown_worlds import four_rooms, greedy, open_grid, random_world

import goalmeter as gm
from goalmeter.meg.behaviour import behaviour_of, linear_class
from goalmeter.meg.soft_model import SoftModel

CAP, NOISE = 20.0, 0.2
ACCURACIES = (1e-3, 1e-6)
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
WORLDS: dict[str, Callable[[], gm.TabularMDP]] = {
    "open 11": partial(open_grid, 11),
    "open 20": partial(open_grid, 20),
    "four rooms 21": partial(four_rooms, 21),
    "random 400": partial(random_world, 400, 30, 0),
}


class _Ended(Exception):
    """A climb is where it should be, or out of time."""


class _Climb:
    """Evidence and gradient at weights, and when accuracies were reached."""

    def __init__(self, mdp: gm.TabularMDP, policy: Any, value: float, cap: float) -> None:
        self._behaviour, self._value, self._cap = behaviour_of(mdp, [policy]), value, cap
        utilities = linear_class(mdp)
        zero = np.zeros(utilities.n_weights)
        self._start = SoftModel(mdp, utilities, zero, None, measured=self._behaviour)
        self.theta = zero
        self._began = time.process_time()
        self.reached: dict[float, float] = {}
        self.short = np.inf

    def __call__(self, theta: Any) -> tuple[float, Any]:
        """What is to be made small, and its gradient.

        Raises:
            _Ended: the last accuracy is reached, or time is over.
        """
        model = self._start.at(np.array(theta))
        value, gradient = model.evidence(self._behaviour), model.gradient(self._behaviour)
        taken = time.process_time() - self._began
        self.short = min(self.short, self._value - value)
        for accuracy in ACCURACIES:
            if self.short <= accuracy:
                self.reached.setdefault(accuracy, taken)
        if len(self.reached) == len(ACCURACIES) or taken > self._cap:
            raise _Ended
        return -value, -gradient


def _by_lbfgs(climb: _Climb) -> None:
    from scipy.optimize import minimize

    options = {"maxiter": 10**9, "maxfun": 10**9, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
    minimize(climb, climb.theta, method="L-BFGS-B", jac=True, options=options)


def _by_adam(climb: _Climb, rate: float) -> None:
    theta, mean, square = climb.theta, 0.0, 0.0
    step = 0
    while True:
        step += 1
        _, gradient = climb(theta)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        corrected = mean / (1 - 0.9**step), square / (1 - 0.999**step)
        theta = theta - rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-12)


def measure(quick: bool) -> dict[str, Any]:
    """Every world; the first, with little time, where it has to be quick."""
    cap = 0.2 if quick else CAP
    rates = RATES[:1] if quick else RATES
    worlds = list(WORLDS.items())[: 1 if quick else None]
    return {"cap": cap, "rates": rates, "rows": [_row(*world, cap, rates) for world in worlds]}


def _row(
    name: str, world: Callable[[], gm.TabularMDP], cap: float, rates: tuple[float, ...]
) -> dict[str, Any]:
    mdp = world()
    policy = greedy(mdp, NOISE)
    ours, seconds = harness.processor(partial(gm.meg.unknown_utility, mdp, policy, progress=False))

    def climbed(way: Callable[[_Climb], None]) -> dict[str, Any]:
        climb = _Climb(mdp, policy, ours.value, cap)
        with suppress(_Ended):
            way(climb)
        reached = [climb.reached.get(accuracy) for accuracy in ACCURACIES]
        return {"reached": reached, "short": climb.short}

    return {
        "world": name,
        "states": mdp.n_states,
        "value": ours.value,
        "gap": ours.gap,
        "seconds": seconds,
        "lbfgs": climbed(_by_lbfgs),
        "adam": {f"{rate:g}": climbed(partial(_by_adam, rate=rate)) for rate in rates},
    }


def markdown(result: dict[str, Any]) -> str:
    """The table, a row for each world."""
    header = ["world", "states", "MEG, nats", "bound − value", "ours"]
    header += [f"{way}, {a:g}" for way in ("L-BFGS", "Adam") for a in ACCURACIES]
    rows = []
    for r in result["rows"]:
        row = [
            r["world"],
            str(r["states"]),
            f"{r['value']:.7f}",
            f"{max(r['gap'], 0.0):.0e}",
            harness.short(r["seconds"]),
        ]
        for place in range(len(ACCURACIES)):
            row.append(_ratio(r["lbfgs"], place, r["seconds"]))
        for place in range(len(ACCURACIES)):
            rate = min(r["adam"], key=partial(_order, r["adam"], place))
            row.append(f"{_ratio(r['adam'][rate], place, r['seconds'])} (rate {rate})")
        rows.append(row)
    return harness.table(header, rows)


def _order(climbs: dict[str, Any], place: int, rate: str) -> tuple[float, float]:
    """Sooner is better, and among climbs that did not arrive the nearer."""
    taken = climbs[rate]["reached"][place]
    return (np.inf, climbs[rate]["short"]) if taken is None else (taken, 0.0)


def _ratio(climb: dict[str, Any], place: int, seconds: float) -> str:
    taken = climb["reached"][place]
    return f"{climb['short']:.0e} nats short" if taken is None else f"{taken / seconds:.1f}x"


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
