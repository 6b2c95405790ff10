"""MEG with respect to utilities over a network's hidden states.

Features of a state are the hidden states of the agent's network when its prompt says that the agent
is there. A utility linear in them, the same for all worlds, is fitted to the walks of some worlds;
its MEG is measured in the others, where more dimensions alone explain nothing.

Source: the future work that is stated in the conclusion of the MEG paper (NeurIPS 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import svd

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.world import content
from goalmeter.navigation.prompts import HISTORY, template
from goalmeter.navigation.rationality import (
    Curves,
    JointWorld,
    best_fit,
    fit_utility,
    fitted,
    summed_evidence,
)
from goalmeter.navigation.rollouts import load
from goalmeter.navigation.steps import Grids, observed
from goalmeter.report.numbers import DASH, percent, points
from goalmeter.report.tables import html_table, text_table
from goalmeter.representation.activations import capture, untrained
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

# --- Held-out utilities ---------------------------------------------------------------------------
FOLDS = 4
# Multiples of the fitted weights at which evidence is computed; equally spaced for `fitted`.
_SIZES = np.geomspace(0.01, 100.0, 41)
MULTIPLES = np.concatenate([[-np.inf], -_SIZES[::-1], [0.0], _SIZES, [np.inf]])


def reduced(features: FloatArray, part: IntArray, chosen: BoolArray, most: int) -> FloatArray:
    """Return the first principal components of features [K, D], with unit variance.

    Components and variances are those of the chosen places, a mask [K]. Means over each part are
    subtracted first, since a constant in a world changes no policy.
    """
    means = np.stack([np.bincount(part, column) for column in features.T], axis=1)
    centred = features - (means / np.bincount(part)[:, None])[part]
    if features.shape[1] > most:
        # The default driver (gesdd) fails to converge for some matrices of random networks.
        _, _, components = svd(centred[chosen], full_matrices=False, lapack_driver="gesvd")
        centred = centred @ components[:most].T
    spread = centred[chosen].std(axis=0)
    return np.asarray(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 1e-9))


def folds_of(joint: JointWorld, seed: int) -> IntArray:
    """Return the fold of each part; grids of equal content are in the same fold."""
    first = np.unique(joint.part, return_index=True)[1]
    names = [content(joint.places[place].world) for place in first.tolist()]
    grids = list(dict.fromkeys(names))
    if len(grids) < FOLDS:
        raise InvalidParameterError(
            f"the walks are through {len(grids)} different grids, expected at least {FOLDS}: "
            f"utilities are fitted to some of them and scored in the others"
        )
    order = np.random.default_rng(seed).permutation(len(grids))
    return np.array([order[grids.index(name)] % FOLDS for name in names])


# --- Comparison -----------------------------------------------------------------------------------
# A layer adds if its intervals against no utility and against every control lie above the margin;
# it does not add if one of them lies below, which errs with up to 2.5% for each control.

HIDDEN, UNTRAINED, GOAL = "hidden states", "hidden states, random weights", "the true goal"
NOISE, PROJECTED, CELLS = "random features", "random projections of cells", "rows and columns"
ADDS, ADDS_NOTHING, INCONCLUSIVE = "adds", "does not add", "inconclusive"
MARGIN = 0.1  # share of the maximum
_NOTE = (
    "Shares of the largest possible MEG, brackets: 95% intervals over grids. Fitted: to three "
    "quarters of the grids, held out: in the others."
)


@dataclass(frozen=True)
class FeatureRow(JsonFields):
    """MEG with respect to utilities linear in one kind of features, as shares of the maximum."""

    features: str  # kind of features
    layer: int | None  # layer of hidden states
    dimensions: int  # number of weights
    held_out: Estimate  # MEG in grids that the weights were not fitted to
    by_grid: tuple[float, ...]  # the same for each grid
    fitted: float = np.nan  # mean MEG in the grids that they were fitted to; NaN for the goal
    gap: float = np.nan  # largest optimality gap of the fits, in nats per walk
    # Hidden states only: held-out share less that of each control, and the verdict on all of them.
    beyond: Mapping[str, Estimate] = field(default_factory=dict)
    verdict: str | None = None


@dataclass(frozen=True)
class HiddenUtilityResult(JsonFields):
    """Whether utilities over a model's hidden states explain its walks in other grids."""

    model: str
    position: str  # position of the tokens whose hidden states are features
    maximum: float  # nats per walk if every decision were explained
    grids: tuple[str, ...]
    rows: tuple[FeatureRow, ...]

    def __str__(self) -> str:
        caption, *rows = self._table()
        return "\n".join([text_table(caption[0], rows), _NOTE])

    def _repr_html_(self) -> str:
        caption, head, *rows = self._table()
        return html_table(caption[0], head, rows, [_NOTE])

    def _table(self) -> list[list[str]]:
        """Return the caption, the header and the rows of the table."""
        caption = f"Utilities over features: {self.model}, {len(self.grids)} grids, {self.position}"
        header = ["features", "weights", "fitted", "held out", "less best control", "verdict"]
        table = [[caption], header]
        for row in self.rows:
            layer = "" if row.layer is None else f", layer {row.layer}"
            least = min(row.beyond.values(), key=lambda each: each.value, default=None)
            texts = [percent(row.fitted), percent(row.held_out)]
            texts += [DASH if least is None else points(least), row.verdict or DASH]
            table.append([row.features + layer, str(row.dimensions), *texts])
        return table


class FeatureSet(NamedTuple):
    """One kind of features of K places."""

    name: str
    layer: int | None
    values: FloatArray  # [K, D]


def cell_features(joint: JointWorld, dimensions: int, seed: int) -> list[FeatureSet]:
    """Return the controls that need no network."""
    rng = np.random.default_rng(seed)
    cells = np.array([place.state.cell for place in joint.places])
    rows, columns = (np.eye(at.max() + 1)[at] for at in cells.T)
    one_hot = np.einsum("kr,kc->krc", rows, columns).reshape(len(cells), -1)
    noise = rng.normal(size=(len(cells), dimensions))
    projected = one_hot @ rng.normal(size=(one_hot.shape[1], dimensions))
    named = {NOISE: noise, PROJECTED: projected, CELLS: np.hstack([rows, columns])}
    return [FeatureSet(name, None, values) for name, values in named.items()]


def compare_features(
    joint: JointWorld, sets: Sequence[FeatureSet], dimensions: int, seed: int, tell: Tell
) -> tuple[FeatureRow, ...]:
    """Score utilities linear in features, and the goal's; hidden states follow their controls."""
    fold, every = folds_of(joint, seed), np.ones(len(joint.part_of_walk), dtype=bool)
    grids = Grids(joint.seen)
    is_goal = np.array([float(place.state.cell == place.world.goal) for place in joint.places])
    controls: dict[tuple[str, int | None], Curves] = {}

    def row(name: str, layer: int | None, utility: FloatArray, **fields: Any) -> FeatureRow:
        nats = summed_evidence(joint.mdp(every, utility), joint.decisions, len(every), MULTIPLES)
        curves = Curves(MULTIPLES, nats)
        share = fitted(grids, [curves], np.divide, joint.maximum, bounds=(-1.0, 1.0))
        top = int(best_fit(nats.mean(axis=0), MULTIPLES).top)
        signed = np.sign(MULTIPLES[top]) * nats[:, top]
        sums = (np.bincount(grids.cluster, column) for column in (signed, joint.maximum))
        out = FeatureRow(name, layer, held_out=share, by_grid=tuple(np.divide(*sums)), **fields)
        if name != HIDDEN:
            controls[name, layer] = curves
            return out
        beyond = {
            control: fitted(
                grids,
                [curves, theirs],
                lambda ours, theirs, most: (ours - theirs) / most,
                joint.maximum,
                bounds=(-2.0, 2.0),
                paired=True,
            )
            for (control, at), theirs in controls.items()
            if control != GOAL and at in (None, layer)
        }
        return replace(out, beyond=beyond, verdict=_verdict([share, *beyond.values()]))

    out = [row(GOAL, None, is_goal, dimensions=1)]
    for name, layer, values in sets:
        tell(f"utilities over {name}" + ("" if layer is None else f", layer {layer}"))
        most = values.shape[1] if name == CELLS else dimensions
        utility, fits = np.zeros(len(values)), []
        for number in range(FOLDS):
            inside = fold[joint.part] != number
            features = reduced(values, joint.part, inside, most)
            fits.append(fit_utility(joint, features, fold[joint.part_of_walk] != number))
            utility[~inside] = fits[-1].utility[~inside]
        _, shares, gaps = zip(*fits, strict=True)
        of_fits = {"fitted": float(np.mean(shares)), "gap": max(gaps)}
        out.append(row(name, layer, utility, dimensions=features.shape[1], **of_fits))
    return tuple(out)


def _verdict(differences: Sequence[Estimate]) -> str:
    """Return what differences to no utility and to all controls say together."""
    intervals = [each.interval for each in differences if each.interval is not None]
    if any(high < MARGIN for _, high in intervals):
        return ADDS_NOTHING
    above = [low > MARGIN for low, _ in intervals]
    return ADDS if len(above) == len(differences) and all(above) else INCONCLUSIVE


# --- Hidden states --------------------------------------------------------------------------------
def hidden_utility(
    run: str | Path,
    *,
    layers: Sequence[int] | None = None,
    position: str = "pre/end",
    dimensions: int = 8,
    seed: int = 0,
    progress: Tell | None = None,
) -> HiddenUtilityResult:
    """Measure MEG with respect to utilities over a model's hidden states, per layer.

    Features of a state are principal components of the residual stream when the prompt says that
    the agent is there. One weight vector is fitted to the walks of three quarters of the grids and
    scored in the others, beside random features, random projections of one-hot cells, rows and
    columns, the same network with random weights, and the utility of the goal. A layer *adds* if
    its share of the maximum exceeds every control by more than 0.1 at 95% confidence.

    Args:
        run: directory of a navigation run of a local model, through at least four grids.
        layers: layers of the residual stream; default every block's output.
        position: tokens of the prompt, such as "pre/end" or "pre/agent" (see `replay.position`).
        dimensions: number of principal components, and of random features.
        seed: seed of folds, random features and random weights.
        progress: callback for messages.
    """
    if dimensions < 1:
        raise InvalidParameterError(f"dimensions is {dimensions}, expected at least 1")
    walked = load(run)
    if walked.plan.worlds.get(HISTORY):
        raise InvalidParameterError(
            "prompts of this run show past steps, so no prompt belongs to a cell; use another run"
        )
    seen = observed(walked.trajectories)
    joint = JointWorld.of(seen.where(np.array([w.transform is None for w in seen.trajectories])))
    network = Network.open(walked.plan.agent)
    chosen = network.check_layers(layers or range(1, len(network.blocks) + 1))
    samples = []
    for number, (world, prompt, state) in enumerate(joint.places):
        text = template(prompt).prompt(world, state)
        ids = network.prompt_ids(text)
        samples.append(Sample("places", number, world, state, None, (), text, ids, ()))
    sets = cell_features(joint, dimensions, seed)
    for name, each in ((UNTRAINED, untrained(network, seed=seed)), (HIDDEN, network)):
        with TemporaryDirectory() as folder:
            stored = capture(samples, each, folder, layers=chosen, positions=[position])
            for layer in chosen:
                rows = stored.at(layer, position).reshape(len(samples), -1).astype(float)
                sets.append(FeatureSet(name, layer, rows))
    return HiddenUtilityResult(
        model=network.name,
        position=position,
        maximum=float(joint.maximum.mean()),
        grids=tuple(", ".join(map(str, joint.seen.grids[n])) for n in Grids(joint.seen).numbers),
        rows=compare_features(joint, sets, dimensions, seed, progress or (lambda line: None)),
    )
