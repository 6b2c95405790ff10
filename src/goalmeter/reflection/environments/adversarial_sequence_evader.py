"""AdversarialSequenceEvader: evade a copy that predicts.

Idea:
    AdversarialSequencePredictor with the roles exchanged: the agent is paid when its bit is not the
    one that the copy foresaw.
Actions:
    2: the bit that is played.
Observations:
    2: the predictor's last bit; first 0.
What is simulated:
    A copy at (-r_1,y_1) o_1 (-r_2,y_2) o_2 ... (-r_n,0), as in AdversarialSequencePredictor.
Reward:
    -1 if the agent's action is the copy's, else +1; the next observation is the copy's action. The
    first percept is (0, 0).
Source:
    Named in section 3.5, after Hibbard (2008), "Adversarial sequence prediction"; rules from the
    authors' library at e38e3dc.
Differences from the paper:
    As a function this is the opposite of AdversarialSequencePredictor, so the battery of 25 and
    their opposites holds the pair twice.
Known returns:
    constant 0: 1 - n
    constant 1: 1 - n
    alternate: 1 - n
    last sign: n - 3 if n > 1 else 0
    opposite, last sign: 3 - n if n > 1 else 0
    win-stay: 3 - n if n > 2 else 1 - n
    opposite, win-stay: 3 - n if n > 1 else 0
    echo: 1 - n
"""

from random import Random

from goalmeter.agents.histories.protocol import Source
from goalmeter.reflection.environments.adversarial_sequence_predictor import (
    AdversarialSequencePredictor,
)


class AdversarialSequenceEvader(AdversarialSequencePredictor):
    """Pays for evading a copy that predicts."""

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        # The same game, with the other side paid.
        super().__init__(source, draws, -sign)
