"""Array types and the glossary of axes.

Axis letters mean the same everywhere in the code and the documentation:

    S  states                      A  actions
    H  decision steps (horizon)    K  listed successors of a state-action pair
    B  problems solved together    D  features (weights of a linear utility)
    N  trajectories                T  1 for what does not depend on time, H for what does

Public arrays put the state before the action ([S, A], [H, S, A]), as the field does. The numerical
core works action-major ([A, S], [T, A, S, B]), so that NumPy vectorises sums over actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
ArrayLike = npt.ArrayLike
