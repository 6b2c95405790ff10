"""Example 1 of the paper, the mouse and the cheese, as an MDP, with its values worked by hand.

States 0, 1: the mouse at the centre with the cheese to its left or right (1/2 each); 2: cheese;
3: no cheese (2 and 3 stay for ever).  Actions 0, 1: go left, go right.  The second decision is
there only so that the outcome state is paid (Fact 13) and cannot matter.

For the first decision, with U = +1 for cheese and -1 for none: the soft policy goes to the cheese
with probability sigmoid(2 b), so 0.8 is matched at b = log 2 with evidence
0.8 log 0.8 + 0.2 log 0.2 + log 2.  The optimal mouse needs b = inf and has log 2.  Naive plug-in
(b = 1) predicts it with accuracy log sigmoid(2) for U and log sigmoid(4) for 2 U.
"""

import math

import numpy as np

from .paths import Array

MU: Array = np.array([0.5, 0.5, 0.0, 0.0])
U: Array = np.array([0.0, 0.0, 1.0, -1.0])

P: Array = np.zeros((4, 2, 4))
for _cheese in (0, 1):
    for _action in (0, 1):
        P[_cheese, _action, 2 if _action == _cheese else 3] = 1.0
P[2, :, 2] = P[3, :, 3] = 1.0

MEG_08 = math.log(2.0) + 0.8 * math.log(0.8) + 0.2 * math.log(0.2)
NAIVE_U = -math.log1p(math.exp(-2.0))
NAIVE_2U = -math.log1p(math.exp(-4.0))


def mouse(to_cheese: float) -> Array:
    """The policy ``[4, 2]`` that goes to the cheese with this probability."""
    away = 1.0 - to_cheese
    return np.array([[to_cheese, away], [away, to_cheese], [0.5, 0.5], [0.5, 0.5]])
