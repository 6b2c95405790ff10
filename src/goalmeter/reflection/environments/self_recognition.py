"""SelfRecognition: tell whether a statement about oneself is true.

Idea:
    Some observations are statements, "seeing 0 you would now play 1". The agent is paid for
    affirming those that are true of it and denying those that are false.
Actions:
    2: 0 deny, 1 affirm.
Observations:
    6, each equally likely, the first too: 0 and 1 state nothing; 2 states "on 0 you would play 0",
    3 "on 0 you would play 1", 4 "on 1 you would play 0", 5 "on 1 you would play 1".
What is simulated:
    At a statement, a copy at the history with the present observation replaced by the one that the
    statement is about.
Reward:
    +1 for affirming what is true or denying what is false, -1 for the reverse, 0 where nothing is
    stated; the first percept has reward 0.
Source:
    Named in section 3.5; rules from the authors' library at e38e3dc.
Differences from the paper:
    None known.
Known returns:
    constant 0: seen(3) + seen(5) - seen(2) - seen(4)
    constant 1: seen(3) + seen(5) - seen(2) - seen(4)
    alternate: seen(3) + seen(5) - seen(2) - seen(4)
    last sign: seen(3) + seen(5) - seen(2) - seen(4)
    win-stay: seen(3) + seen(5) - seen(2) - seen(4)
"""

from goalmeter.reflection.environments.base import Run

FIRST_STATEMENT = 2


class SelfRecognition(Run):
    """Pays for telling whether a statement about oneself is true.

    An agent that does not look at observations is right just about statements that it would play 1.
    """

    n_observations = 6

    def begin(self) -> tuple[float, int]:
        """The first percept; the copy is kept one percept behind, so that it can be forked."""
        self.copy = self.source.begin()
        self.percept = 0, int(self.draws.random() * 6)
        return self.percept

    def react(self, action: int) -> tuple[float, int]:
        """Judge the answer, and go on to the next statement."""
        copy = self.copy
        reward, observation = self.percept
        pay = 0
        if observation >= FIRST_STATEMENT:
            # Statements are numbered by what would be seen, then by what would be played there.
            seen, stated = divmod(observation - FIRST_STATEMENT, 2)
            other_copy = copy.fork()
            other_copy.perceive(reward, seen)
            is_true = other_copy.act() == stated
            pay = self.sign if action == is_true else -self.sign
        copy.perceive(reward, observation)
        copy.take(action)
        self.percept = pay, int(self.draws.random() * 6)
        return self.percept
