"""Whether a decoded world may be called a belief: it was read at all, and its use was told.

Any probe gives some map, and MEG in it can be measured. If the map is no better than what places
alone tell, nothing was read of the agent; and where it is not known which cells are used, the world
of cells that are decoded and used is only the decoded one by another name.
"""

from __future__ import annotations

from collections.abc import Mapping

from goalmeter.representation.use.used_cells import NOT_USED, USED
from goalmeter.statistics.clustered import Estimate

NOT_READ = "the map could not be read better than from places alone"
NOT_TOLD = "whether cells are used could not be told"
NO_PLACE = "of no cell it could be told whether it is used"


def unbelieved(gain: Estimate | None, verdict: str, places: Mapping[str, int] | None) -> str:
    """Why nothing can be said of a world that a model believes in; "" if something can.

    Args:
        gain: bits a cell over position alone at walls of uncertain cells, where maps are decoded;
            None where no uncertain cell was scored.
        verdict: of the use of cells.
        places: how many places have each verdict; None where nobody counted them.
    """
    reasons = []
    if gain is None or gain.interval is None or not gain.interval[0] > 0:
        reasons.append(NOT_READ)
    if verdict not in (USED, NOT_USED):
        reasons.append(NOT_TOLD)
    elif places is not None and not any(places.get(each) for each in (USED, NOT_USED)):
        reasons.append(NO_PLACE)
    return ", and ".join(reasons)
