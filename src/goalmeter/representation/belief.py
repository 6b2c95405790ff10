"""Whether a world may be called a belief: a map was read at all, and the use of places was told.

Any walks have a MEG on any map. If the decoded map is no better than what places alone tell,
nothing was read of the agent; and where of no place it is told whether it is used, nothing is known
of what the agent looks at.
"""

from __future__ import annotations

from collections.abc import Mapping

from goalmeter.representation.use.used_cells import NOT_USED, USED
from goalmeter.statistics.clustered import Estimate

NOT_READ = "the map could not be read better than from places alone"
NO_PLACE = "of no cell it could be told whether it is used"


def unbelieved(gain: Estimate | None, places: Mapping[str, int] | None) -> str:
    """Why nothing can be said of a world that a model believes in; "" if something can.

    That of all cells together it cannot be told whether they are used is no reason: some may be
    used and others not.

    Args:
        gain: bits a cell over position alone at walls of uncertain cells, where maps are decoded;
            None where no uncertain cell was scored.
        places: how many places have each verdict; None where nobody counted them.
    """
    reasons = []
    if gain is None or gain.interval is None or not gain.interval[0] > 0:
        reasons.append(NOT_READ)
    if places is not None and not any(places.get(each) for each in (USED, NOT_USED)):
        reasons.append(NO_PLACE)
    return ", and ".join(reasons)
