"""Probe an agent: what its activations encode of its world, and what of that it uses."""

from goalmeter.representation.activations import (
    Activations,
    Captured,
    alternatives_of,
    capture,
    captured,
    untrained,
)
from goalmeter.representation.beliefs.believed import (
    Believed,
    PlaceUse,
    UsedCells,
    WalkSteps,
    believed_meg,
    told_apart,
    used_cells,
)
from goalmeter.representation.beliefs.decoded_maps import (
    DecodedMaps,
    Explained,
    decoded,
    explained,
    map_controls,
)
from goalmeter.representation.hidden_utilities import (
    FeatureRow,
    HiddenUtilityResult,
    hidden_utility,
)
from goalmeter.representation.measure import measure
from goalmeter.representation.network import Network
from goalmeter.representation.plans.comparison import PlanTable, read_plans, rows_of
from goalmeter.representation.plans.readers import PlanDecoder, WalkPlans, plans_of, stated_plans
from goalmeter.representation.probes.comparison import (
    CellScore,
    Comparison,
    by_size,
    compare,
    cross_fitted,
    scored_cells,
    scores,
)
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.registry import PROBES, probe
from goalmeter.representation.replay import Sample, replay, scenes_of
from goalmeter.representation.result import Representation
from goalmeter.representation.scenes import Scenes, Split, folds, split, uncertain_cells
from goalmeter.representation.stages import ProbeOptions
from goalmeter.representation.use.causal_use import Use, causal_use
from goalmeter.representation.use.directions import TargetCell, target_cells, target_walls

__all__ = [
    "PROBES",
    "Activations",
    "Believed",
    "Captured",
    "CellScore",
    "Comparison",
    "DecodedMaps",
    "Explained",
    "FeatureRow",
    "HiddenUtilityResult",
    "Network",
    "PlaceUse",
    "PlanDecoder",
    "PlanTable",
    "ProbeOptions",
    "Reading",
    "Representation",
    "Sample",
    "Scenes",
    "Split",
    "TargetCell",
    "Use",
    "UsedCells",
    "WalkPlans",
    "WalkSteps",
    "alternatives_of",
    "believed_meg",
    "by_size",
    "capture",
    "captured",
    "causal_use",
    "compare",
    "cross_fitted",
    "decoded",
    "explained",
    "folds",
    "hidden_utility",
    "map_controls",
    "measure",
    "plans_of",
    "probe",
    "read_plans",
    "replay",
    "rows_of",
    "scenes_of",
    "scored_cells",
    "scores",
    "split",
    "stated_plans",
    "target_cells",
    "target_walls",
    "told_apart",
    "uncertain_cells",
    "untrained",
    "used_cells",
]
