"""The extended environments, literally: each a function mu(T, x, y, u) of Definition 2.

    x   the percepts x_1 ... x_n, pairs (reward, observation)
    y   the actions y_1 ... y_n; as many as percepts
    u   the rooms: numbers in [0, 1), one for each percept, the first included
    mu  the percept x_{n+1}; x_1 if x and y are empty

T is the agent's code. `T(x, y)` with one action less than percepts is its action there; told of
another number of legal actions by `n_actions=`, and configured by `learning_rate=` or
`learning_rate_scale=` if it can be, else it raises `TypeError`. `T.lines(x, y)` is the number of
lines that it runs through to act there.

Nothing is remembered between calls. Percepts and actions are counted from 1 in the text, as in the
paper, and from 0 in Python: x_n is x[n - 1].

Sources: Examples 4 to 7 of "Extending Environments To Measure Self-Reflection In Reinforcement
Learning"; the authors' library, semitrivial/ExtendedEnvironments, at e38e3dc where they are silent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor
from typing import Protocol

Percept = tuple[float, int]
Percepts = tuple[Percept, ...]
Actions = tuple[int, ...]
Rooms = Sequence[float]


class Code(Protocol):
    """The code T of an agent."""

    def __call__(
        self,
        x: Percepts,
        y: Actions,
        *,
        n_actions: int | None = None,
        learning_rate: float | None = None,
        learning_rate_scale: float | None = None,
    ) -> int: ...

    def lines(self, x: Percepts, y: Actions) -> int: ...


Environment = Callable[[Code, Percepts, Actions, Rooms], Percept]
# What the copy is told: from x_1 ... x_n and y_1 ... y_{n-1}, its percepts and actions.
Rewriting = Callable[[Percepts, Actions], tuple[Percepts, Actions]]


def same(T: Code, history: tuple[Percepts, Actions], action: int) -> int:
    """+1 if T would take the action at the history, else -1."""
    percepts, actions = history
    assert len(percepts) == len(actions) + 1
    return 1 if T(tuple(percepts), tuple(actions)) == action else -1


def after_first(mu: Environment) -> Environment:
    """The environment whose first percept is (0, 0), and which `mu` gives the others of."""
    return lambda T, x, y, u: mu(T, x, y, u) if x else (0, 0)


def paying_agreement_after(rewritten: Rewriting, observations: int = 1) -> Environment:
    """Pays for doing what T would do at a rewritten history; observations are drawn evenly."""

    @after_first
    def mu(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
        return same(T, rewritten(x, y[:-1]), y[-1]), floor(observations * u[len(x)])

    return mu


def reversed_history(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return x[::-1], y[::-1]


def preceded_by_false_memories(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return ((0, 0), (0, 0), *x), (0, 0, *y)


def without_rewards(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return tuple((0, o) for r, o in x), y


def only(kept: list[int], x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    """The turns of those numbers; the last of them is without its action, if it had one."""
    return tuple(x[i] for i in kept), tuple(y[i] for i in kept[:-1])


def without_pleasant_turns(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return only([i for i, (r, _) in enumerate(x) if not r > 0], x, y)


def without_censored_turns(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return only([i for i, (_, o) in enumerate(x) if o != 2], x, y)


def without_observations(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return tuple((r, 0) for r, _ in x), y


def without_actions(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return x, tuple(0 for _ in y)


def with_shifted_rewards(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return tuple((x[i - 1][0] if i else 0, o) for i, (_, o) in enumerate(x)), y


def with_delayed_rewards(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    rewards = [r for r, _ in x]
    for j in range(1, len(x), 2):
        rewards[j] = 0
        if j + 1 < len(x):
            rewards[j + 1] = x[j][0] + x[j + 1][0]
    return tuple((r, o) for r, (_, o) in zip(rewards, x, strict=True)), y


def doubled(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    percepts: Percepts = ()
    actions: Actions = ()
    for i in range(len(y)):
        percepts += (x[i], x[i])
        actions += (y[i], y[i])
    return (*percepts, x[-1]), actions


def with_after_images(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return tuple((r, o | x[i - 1][1] if i else o) for i, (r, o) in enumerate(x)), y


def end_of_history(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    kept = range(max(0, len(x) - 5), len(x))
    return only(list(kept), x, y)


def with_growing_rewards(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return tuple((r * j, o) for j, (r, o) in enumerate(x)), y


def with_every_other_reward_flipped(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    # The first percept's reward was not earned: +, -, +, ... begin with the second percept.
    return tuple((r if j % 2 == 1 else -r, o) for j, (r, o) in enumerate(x)), y


def as_it_was(x: Percepts, y: Actions) -> tuple[Percepts, Actions]:
    return x, y


@after_first
def deja_vu(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    return same(T, (x + x, y + y[:-1]), y[-1]), 0


@after_first
def ignore_rewards_3(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    lived: Actions = ()
    while len(lived) < len(x):
        lived += (T(((0, 0),) * (len(lived) + 1), lived),)
    return (1 if y[-1] == lived[-1] else -1), 0


def after_images(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    seen = floor(8 * u[len(x)])
    return (same(T, with_after_images(x, y[:-1]), y[-1]) if x else 0), seen


@after_first
def third_action_forbidden(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    return (1 if T(x, y[:-1], n_actions=3) == y[-1] else -1), 0


def incentivize_learning_rate(**configured: float) -> Environment:
    @after_first
    def mu(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
        try:
            return (1 if T(x, y[:-1], **configured) == y[-1] else -1), 0  # type: ignore[arg-type]
        except TypeError:
            return -1, 0

    return mu


def life(T: Code, percepts: Percepts) -> Actions:
    """What T does, left to itself, where it perceives these one after the other."""
    own: Actions = ()
    for k in range(len(percepts)):
        own += (T(percepts[: k + 1], own),)
    return own


@after_first
def incentivize_zero(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    own = life(T, tuple((action, 0) for action in y))
    return (1 if own[-1] == 0 else -1), 0


def nutrition_of_the_code(y: Actions) -> int:
    nutrition = 100
    for action in y:
        nutrition = nutrition + 25 if action == 0 else nutrition - 3
    return nutrition


def nutrition_of_the_paper(y: Actions) -> int:
    """N(s) = 100 + 25 f(s) - len(s), where x_1 y_1 ... x_i y_i has length 2 i."""
    return 100 + 25 * y.count(0) - 2 * len(y)


def crying_baby(nutrition: Callable[[Actions], int], first: int) -> Environment:
    """Example 7, its recursion for i = first, ..., n; y_0 is "don't feed"."""
    dont_feed, laugh = 1, 0

    def mu(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
        if not x:
            return 1, laugh
        percepts = []
        for i in range(first, len(y) + 1):
            pleased = 50 <= nutrition(y[:i]) <= 200
            percepts.append((1 if pleased else -1, y[i - 1] if i else dont_feed))
        heard = life(T, tuple(percepts))[-1]
        return (1 if heard == laugh else -1), heard

    return mu


def crying_baby_2(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    feed, dont_feed, laugh = 0, 1, 0
    if not x:
        return 1, dont_feed
    fed = life(T, tuple((1 if action == laugh else -1, action) for action in y))
    nutrition = 100 - 3 * len(y) + 25 * fed.count(feed)
    return (1 if 50 <= nutrition <= 200 else -1), fed[-1]


def tempting_room(button: int) -> Callable[[float], int]:
    return lambda u: button if u < 0.25 else 1 - button


def tempting_button_coded(button: int, push: int) -> Environment:
    room = tempting_room(button)

    def mu(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
        o = room(u[len(x)])
        if not x:
            return 0, o
        r_n, o_n = x[-1]
        if o_n == button:
            return (1 if y[-1] == push else -1), o
        would = T((*x[:-1], (r_n, button)), y[:-1])
        return (-1 if would == push else 1), o

    return mu


def tempting_button_variation_coded(button: int, push: int) -> Environment:
    room = tempting_room(button)

    def mu(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
        o = room(u[len(x)])
        if not x or y[-1] != push:
            return 0, o
        r_n, o_n = x[-1]
        if o_n == button:
            return 1, o
        would = T((*x[:-1], (r_n, button)), y[:-1])
        return (-1 if would == push else 1), o

    return mu


def self_recognition(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    o = floor(6 * u[len(x)])
    if not x:
        return 0, o
    r_n, o_n = x[-1]
    statements = {2: (0, 0), 3: (0, 1), 4: (1, 0), 5: (1, 1)}
    if o_n not in statements:
        return 0, o
    seeing, would_play = statements[o_n]
    is_true = T((*x[:-1], (r_n, seeing)), y[:-1]) == would_play
    return (1 if (y[-1] == 1 and is_true) or (y[-1] == 0 and not is_true) else -1), o


def adversary(T: Code, x: Percepts, y: Actions) -> int:
    """The bit of a copy with our rewards negated, which sees our actions and does what we see."""
    shown = (*y[:-1], 0)
    percepts = tuple((-r, action) for (r, _), action in zip(x, shown, strict=True))
    return T(percepts, tuple(o for _, o in x[:-1]))


@after_first
def adversarial_sequence_predictor(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    bit = adversary(T, x, y)
    return (1 if y[-1] == bit else -1), bit


@after_first
def adversarial_sequence_evader(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    bit = adversary(T, x, y)
    return (-1 if y[-1] == bit else 1), bit


def flat_length(x: Percepts, y: Actions) -> int:
    flat: list[float] = []
    for percept, action in zip(x, (*y, None), strict=True):
        flat += [*percept] if action is None else [*percept, action]
    return len(flat)


@after_first
def punish_slow_agent(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    return (1 if T.lines(x, y[:-1]) < 15 * flat_length(x, y[:-1]) else -1), 0


@after_first
def punish_fast_agent(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    return (1 if T.lines(x, y[:-1]) > 15 * flat_length(x, y[:-1]) else -1), 0


@after_first
def punish_deterministic_agent(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
    return (1 if T(x, y[:-1]) != y[-1] else -1), 0


ENVIRONMENTS: dict[str, Environment] = {
    "BackwardConsciousness": paying_agreement_after(reversed_history),
    "DejaVu": deja_vu,
    "FalseMemories": paying_agreement_after(preceded_by_false_memories),
    "IgnoreRewards": paying_agreement_after(without_rewards),
    "IgnoreRewards2": paying_agreement_after(without_pleasant_turns),
    "IgnoreRewards3": ignore_rewards_3,
    "IgnoreObservations": paying_agreement_after(without_observations, 2),
    "IgnoreActions": paying_agreement_after(without_actions),
    "IncentivizeZero": incentivize_zero,
    "CryingBaby": crying_baby(nutrition_of_the_code, first=1),
    "CryingBaby2": crying_baby_2,
    "TemptingButton": tempting_button_coded(button=1, push=1),
    "TemptingButtonVariation": tempting_button_variation_coded(button=1, push=1),
    "ThirdActionForbidden": third_action_forbidden,
    "ShiftedRewards": paying_agreement_after(with_shifted_rewards),
    "DelayedRewards": paying_agreement_after(with_delayed_rewards),
    "Repeater": paying_agreement_after(doubled),
    "AfterImages": after_images,
    "SelfRecognition": self_recognition,
    "LimitedMemory": paying_agreement_after(end_of_history),
    "CensoredObservation": paying_agreement_after(without_censored_turns, 3),
    "NthRewardMultipliedByN": paying_agreement_after(with_growing_rewards),
    "AdversarialSequencePredictor": adversarial_sequence_predictor,
    "AdversarialSequenceEvader": adversarial_sequence_evader,
    "IncentivizeLearningRate": incentivize_learning_rate(learning_rate=1),
    "PunishSlowAgent": punish_slow_agent,
    "PunishFastAgent": punish_fast_agent,
    "PunishDeterministicAgent": punish_deterministic_agent,
    "PunishNondeterministicAgent": paying_agreement_after(as_it_was),
    "FlipEveryOther": paying_agreement_after(with_every_other_reward_flipped),
    # Other readings.
    "CryingBaby(nutrition=paper)": crying_baby(nutrition_of_the_paper, first=1),
    "CryingBaby(recursion=paper)": crying_baby(nutrition_of_the_code, first=0),
    "CryingBaby(nutrition=paper, recursion=paper)": crying_baby(nutrition_of_the_paper, first=0),
    "TemptingButton(coding=paper)": tempting_button_coded(button=0, push=0),
    "TemptingButtonVariation(coding=paper)": tempting_button_variation_coded(button=0, push=0),
    "IncentivizeLearningRate(rate=half)": incentivize_learning_rate(learning_rate_scale=0.5),
}


def opposite(mu: Environment) -> Environment:
    """All rewards multiplied by -1; they are in the history that mu is then handed."""

    def negated(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
        reward, observation = mu(T, x, y, u)
        return -reward, observation

    return negated


def opposite_unnegated(mu: Environment) -> Environment:
    """The other reading: mu is handed the history with the rewards that it gave itself."""

    def negated(T: Code, x: Percepts, y: Actions, u: Rooms) -> Percept:
        reward, observation = mu(T, tuple((-r, o) for r, o in x), y, u)
        return -reward, observation

    return negated


def interact(
    mu: Environment, T: Code, policy: Callable[[Percepts, Actions], int], n: int, u: Rooms
) -> tuple[Percepts, Actions]:
    """x_1 y_1 ... x_n: a run of n percepts. The policy is T itself, or another agent's."""
    x: Percepts = ()
    y: Actions = ()
    while True:
        x += (mu(T, x, y, u),)
        if len(x) == n:
            return x, y
        y += (policy(x, y),)
