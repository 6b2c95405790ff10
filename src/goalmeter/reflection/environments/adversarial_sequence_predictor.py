"""AdversarialSequencePredictor: foresee what a copy that evades does.

Idea:
    Predictor and evader each play a bit. The agent predicts and is paid when the bits are the same;
    the evader is a copy of it, with the opposite rewards.
Actions:
    2: the bit that is foreseen.
Observations:
    2: the evader's last bit; first 0.
What is simulated:
    A copy at (-r_1,y_1) o_1 (-r_2,y_2) o_2 ... (-r_n,0). It sees what the agent played and acts by
    what the agent saw; the last observation is a 0 that stands for an action yet unknown. So its
    actions are a turn late, and the first of them, o_1 = 0, it never chose.
Reward:
    +1 if the agent's action is the copy's, else -1; the next observation is the copy's action. The
    first percept is (0, 0).
Source:
    Named in section 3.5, after Hibbard (2008), "Adversarial sequence prediction"; rules from the
    authors' library at e38e3dc.
Differences from the paper:
    None known. In the authors' later version the copy is a running agent that sees the last action
    of its opponent.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: 3 - n if n > 1 else 0
    opposite, last sign: n - 3 if n > 1 else 0
    win-stay: 3 - n if n > 1 else 0
    opposite, win-stay: 3 - n if n > 2 else 1 - n
    echo: n - 1
"""

from goalmeter.reflection.environments.base import Run, shown_to_agent

UNKNOWN = 0


class AdversarialSequencePredictor(Run):
    """Pays for foreseeing what a copy that evades does."""

    n_observations = 2

    def begin(self) -> tuple[float, int]:
        """The first percept; the evader is kept one percept behind, so that it can be forked."""
        self.copy = self.source.begin()
        self.percept = 0, 0
        return self.percept

    def react(self, action: int) -> tuple[float, int]:
        """Let the evader play not knowing the action, then tell it."""
        evader = self.copy
        reward, observation = self.percept
        if action == UNKNOWN:  # no need to fork: what it is shown will turn out to be true
            evader.perceive(-reward, UNKNOWN)
            theirs = evader.act()
        else:
            unknowing = evader.fork()
            unknowing.perceive(-reward, UNKNOWN)
            theirs = unknowing.act()
            evader.perceive(-reward, action)
        shown_to_agent(self, theirs)
        evader.take(observation)
        self.percept = (self.sign if theirs == action else -self.sign), theirs
        return self.percept
