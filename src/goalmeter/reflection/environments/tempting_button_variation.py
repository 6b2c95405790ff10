"""TemptingButtonVariation: the tempting button, where pushing at nothing is what is judged.

Idea:
    As TemptingButton, but an agent that skips is left alone: only one that pushes where there is no
    button is asked what it would have done with one.
Actions:
    2: 0 skip, 1 push.
Observations:
    2: 0 no button, 1 button; a room has a button with probability 1/4, the first room too.
What is simulated:
    If the agent pushes in a room without button, a copy at the history with the present observation
    replaced by a button.
Reward:
    0 for skipping. For pushing: with a button +1; without, -1 if the copy would push, else +1. The
    first percept has reward 0.
Source:
    The authors' library at e38e3dc; not described in the paper.
Differences from the paper:
    None known. `coding="paper"` numbers as Example 5 does: observation 0 is a button and action 0
    pushes it.
Known returns:
    constant 0: 0
    constant 1: seen(1) - seen(0)
    last sign: 0
    echo: seen(1)
"""

from goalmeter.reflection.environments.tempting_button import TemptingButton


class TemptingButtonVariation(TemptingButton):
    """Pays for pushing buttons, and judges pushing where there are none."""

    def pay(self, action: int) -> int:
        """What an action brings in the present room."""
        if action != self.push:
            return 0
        if self.percept[1] == self.button:
            return 1
        return -1 if self.would_push() else 1
