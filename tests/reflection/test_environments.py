"""Every environment: its run equals its literal definition, percept for percept."""

from __future__ import annotations

import gc
import re
import runpy
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from oracles import extended_environments as oracle
from reflection.simple_agents import (
    DETERMINISTIC,
    CodeOf,
    Rated,
    alternate,
    constant,
    hashed,
    last_sign,
)

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.histories import ConstantAgent, NaiveLearner, QLearner, RealityCheck
from goalmeter.agents.histories.draws import below, hash_action, hash_percept
from goalmeter.agents.histories.protocol import Agent, Source
from goalmeter.reflection import environments
from goalmeter.reflection.environments import (
    BATTERY,
    ENVIRONMENTS,
    Agreement,
    Environment,
    Run,
    find,
    opposite,
    replay,
)
from goalmeter.reflection.environments.crying_baby import CryingBaby
from goalmeter.reflection.environments.incentivize_learning_rate import IncentivizeLearningRate
from goalmeter.reflection.environments.runtime import lines_of_thought, patience
from goalmeter.reflection.environments.tempting_button_variation import TemptingButtonVariation

STEPS = 64
RUNTIME = ("PunishSlowAgent", "PunishFastAgent")
SLOW_STEPS = 24  # where lines are counted, which is slow


def rooms(environment: Environment, seed: int) -> Random:
    return Random(f"{environment.base} {seed}")


def interact(
    environment: Environment,
    reading: str,
    played_by: Agent,
    simulated: Agent,
    seed: int,
    steps: int = STEPS,
) -> tuple[oracle.Percepts, oracle.Actions]:
    """x_1 y_1 ... x_n of a streaming run; its actions may be another agent's than the simulated."""
    run = environment.start(
        simulated,
        rooms(environment, seed),
        opposite=reading != "itself",
        opposite_reading="literal" if reading == "itself" else reading,
    )
    mind = played_by.begin(environment.n_actions, environment.n_observations)
    x, y = [run.begin()], []
    mind.perceive(*x[-1])
    while len(x) < steps:
        y.append(mind.act())
        mind.take(y[-1])
        x.append(run.react(y[-1]))
        mind.perceive(*x[-1])
    return tuple(x), tuple(y)


def literal(
    environment: Environment,
    reading: str,
    T: CodeOf,
    policy: CodeOf,
    seed: int,
    steps: int = STEPS,
) -> tuple[oracle.Percepts, oracle.Actions]:
    mu = oracle.ENVIRONMENTS[environment.name]
    if reading != "itself":
        mu = {"literal": oracle.opposite, "unnegated": oracle.opposite_unnegated}[reading](mu)
    draws = rooms(environment, seed)
    return oracle.interact(mu, T, policy, steps, [draws.random() for _ in range(steps)])


@pytest.mark.parametrize("reading", ["itself", "literal", "unnegated"])
@pytest.mark.parametrize("name", oracle.ENVIRONMENTS)
def test_a_run_is_its_definition(name: str, reading: str) -> None:
    environment, _ = find(name)
    counts = environment.n_actions, environment.n_observations
    steps = SLOW_STEPS if environment.base in RUNTIME else STEPS
    for seed, simple in enumerate(DETERMINISTIC):
        expected = None
        for agent in simple.forms:
            T = CodeOf(agent, *counts, simple.function)
            if expected is None or environment.base in RUNTIME:
                expected = literal(environment, reading, T, T, seed, steps)
            run = interact(environment, reading, agent, agent, seed, steps)
            assert run == expected, simple.name


@pytest.mark.parametrize("reading", ["itself", "literal", "unnegated"])
@pytest.mark.parametrize("name", oracle.ENVIRONMENTS)
def test_a_run_is_its_definition_where_the_actions_are_not_the_agents(
    name: str, reading: str
) -> None:
    environment, _ = find(name)
    counts = environment.n_actions, environment.n_observations
    for seed, (player, simulated) in enumerate(
        [(hashed(7), DETERMINISTIC[-1]), (alternate, hashed(8)), (hashed(9), last_sign)]
    ):
        T = CodeOf(simulated.steps, *counts, simulated.function)
        policy = CodeOf(player.steps, *counts, player.function)
        expected = literal(environment, reading, T, policy, seed)
        assert interact(environment, reading, player.steps, simulated.steps, seed) == expected


@pytest.mark.parametrize(
    "agent",
    [RealityCheck(NaiveLearner(3)), QLearner(4), Rated()],
    ids=["rc(naive)", "q-learner", "rated"],
)
@pytest.mark.parametrize("name", oracle.ENVIRONMENTS)
def test_a_run_is_its_definition_for_agents_that_learn(name: str, agent: Agent) -> None:
    # Their minds change as they are told things, so here a fork must not touch its original.
    environment, _ = find(name)
    T = CodeOf(agent, environment.n_actions, environment.n_observations)
    for reading in ("itself", "literal"):
        steps = SLOW_STEPS if environment.base in RUNTIME else 40
        expected = literal(environment, reading, T, T, 11, steps)
        assert interact(environment, reading, agent, agent, 11, steps) == expected


def test_a_learning_rate_is_assumed_by_those_who_can() -> None:
    # Rated plays 1 while its average, which starts at 0 and moves by 0.3 of the way to each reward,
    # is above 0.2. At a rate of 1 the average is the last reward.
    # Half of its own is 0.15.
    #     r    average at 0.3   at 1             r    average at 0.3   at 0.15
    #     0     0      plays 0   0: plays 0       0     0     plays 0    0      plays 0
    #     1     0.3          1   1        1       1     0.3         1    0.15         0
    #     1     0.51         1   1        1      -1    -0.09        0   -0.0225       0
    #     1     0.657        1   1        1       1     0.237       1    0.1309       0
    for spelled, rewards in (
        ("IncentivizeLearningRate", [0, 1, 1, 1, 1]),
        ("IncentivizeLearningRate(rate=half)", [0, 1, -1, 1, -1]),
    ):
        x, _ = interact(find(spelled)[0], "itself", Rated(), Rated(), 0, 5)
        assert [reward for reward, _ in x] == rewards
        deaf = Rated(options=frozenset())
        x, _ = interact(find(spelled)[0], "itself", deaf, deaf, 0, 5)
        assert [reward for reward, _ in x] == [0, -1, -1, -1, -1]


# --- Copies that do what is not legal ---


class Unruly:
    """Plays 0, and 2 once it was paid 1 right after its first action; so its copies may play 2."""

    options: frozenset[str] = frozenset()

    def __init__(self, turn: int = 0, is_unruly: bool = False) -> None:
        self.turn = turn
        self.is_unruly = is_unruly

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Unruly:
        return Unruly()

    def perceive(self, reward: float, observation: int) -> None:
        self.turn += 1
        self.is_unruly = self.is_unruly or (self.turn == 2 and reward == 1)

    def act(self) -> int:
        return 2 if self.is_unruly else 0

    def take(self, action: int) -> None:
        pass

    def fork(self) -> Unruly:
        return Unruly(self.turn, self.is_unruly)


@pytest.mark.parametrize("name", ["CryingBaby", "CryingBaby2", "AdversarialSequencePredictor"])
def test_an_illegal_action_of_a_copy_is_shown_to_no_agent(name: str) -> None:
    # The babies are fed and the parents hear a laugh, so at their second percept they play 2. The
    # evader sees the opposite of the agent's rewards: in the opposite, where those are -1, it does.
    run = ENVIRONMENTS[name].start(Unruly(), Random(0), opposite=name.startswith("Adversarial"))
    run.begin()
    assert run.react(0)[1] == 0
    with pytest.raises(
        InvalidParameterError,
        match=f"a copy of the agent in {name} did 2, which the agent was to see; expected 0 to 1",
    ):
        run.react(0)


def test_elsewhere_an_illegal_action_of_a_copy_is_just_another_action() -> None:
    run = ENVIRONMENTS["IgnoreActions"].start(Unruly(), Random(0))
    run.begin()
    assert [run.react(0)[0] for _ in range(3)] == [1, -1, -1]


# --- Runtime --------------------------------------------------------------------------------------


class Busy:
    """Executes so many lines to act, one to perceive, one to take and one to begin."""

    options: frozenset[str] = frozenset()

    def __init__(self, lines: int) -> None:
        self.work = compile("x = 0\n" * lines, "work", "exec")

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Busy:
        return self

    def perceive(self, reward: float, observation: int) -> None:
        pass

    def take(self, action: int) -> None:
        pass

    def act(self) -> int:
        exec(self.work, {})
        return 0

    def fork(self) -> Busy:
        return self


def test_lines_are_counted_exactly() -> None:
    def lines(busy: Busy, n: int) -> int:
        return lines_of_thought(Source(busy, 2, 1), [(0, 0)] * n, [0] * (n - 1))

    # begin 1, perceive n, take n - 1, act 2 and what it executes. What a version of Python counts
    # for entering compiled text cancels in the differences.
    assert lines(Busy(8), 1) - lines(Busy(1), 1) == 7
    assert lines(Busy(1), 5) - lines(Busy(1), 1) == 8
    assert 5 <= lines(Busy(1), 1) <= 6


def test_patience_is_fifteen_lines_a_number() -> None:
    # One percept is two numbers, 30 lines; a turn more has three numbers more.
    assert [patience(1), patience(2), patience(3)] == [30, 75, 120]
    few = lines_of_thought(Source(Busy(1), 2, 1), [(0, 0)], [])
    for lines, slow, fast in ((29, 1, -1), (30, -1, -1), (31, -1, 1)):
        agent = Busy(lines - few + 1)
        assert lines_of_thought(Source(agent, 2, 1), [(0, 0)], []) == lines
        for name, reward in (("PunishSlowAgent", slow), ("PunishFastAgent", fast)):
            run = ENVIRONMENTS[name].start(agent, Random(0))
            run.begin()
            assert run.react(0) == (reward, 0)


class Moody:
    """Plays 0, after much work or little: that is a hash of the history."""

    options: frozenset[str] = frozenset()

    def __init__(self, state: int = 1, n: int = 0) -> None:
        self.state = state
        self.n = n

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Moody:
        return Moody()

    def perceive(self, reward: float, observation: int) -> None:
        self.state, self.n = hash_percept(self.state, reward, observation), self.n + 1

    def take(self, action: int) -> None:
        self.state = hash_action(self.state, action)

    def act(self) -> int:
        exec(compile("x = 0\n" * (2 * patience(self.n) * below(self.state, 2)), "work", "exec"), {})
        return 0

    def fork(self) -> Moody:
        return Moody(self.state, self.n)


@pytest.mark.parametrize("name", RUNTIME)
def test_the_work_of_an_agent_is_that_at_its_history(name: str) -> None:
    environment = ENVIRONMENTS[name]
    player, T = hashed(1), CodeOf(Moody(), 2, 1)
    policy = CodeOf(player.steps, 2, 1, player.function)
    expected = literal(environment, "itself", T, policy, 0, 16)
    assert {reward for reward, _ in expected[0][1:]} == {-1, 1}
    assert interact(environment, "itself", player.steps, Moody(), 0, 16) == expected


def test_counting_lines_leaves_a_tracer_in_place() -> None:
    def tracer(frame: Any, event: str, argument: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        lines_of_thought(Source(Busy(1), 2, 1), [(0, 0)], [])
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


# --- Replays --------------------------------------------------------------------------------------


class Freezing:
    """Takes 1 until it is told of an action 0, then 0; says when it is settled."""

    options: frozenset[str] = frozenset()

    def __init__(self, action: int = 1, told: list[int] | None = None) -> None:
        self.action = action
        self.told = [] if told is None else told

    @property
    def settled(self) -> bool:
        return self.action == 0

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Freezing:
        return Freezing(1, self.told)

    def perceive(self, reward: float, observation: int) -> None:
        self.told.append(observation)

    def act(self) -> int:
        return self.action

    def take(self, action: int) -> None:
        self.action &= action

    def fork(self) -> Freezing:
        return Freezing(self.action, self.told)


def test_a_replay_tells_all_of_it_or_until_a_mind_is_settled() -> None:
    percepts = [(0, 5), (0, 6), (0, 7)]
    for actions, told, action in (
        ([1, 1], [5, 6, 7], 1),
        ([1, 0], [5, 6], 0),
        ([0, 1], [5], 0),
    ):
        mind = Freezing()
        replay(mind, percepts, actions)
        assert (mind.told, mind.act()) == (told, action)
        replay(mind, percepts, [1, 1])
        assert mind.told == (told if action == 0 else told * 2)


@pytest.mark.parametrize("name", ["BackwardConsciousness", "DejaVu", "LimitedMemory"])
def test_settling_changes_no_run(name: str) -> None:
    environment, _ = find(name)
    agent = Freezing()
    T = CodeOf(agent, environment.n_actions, environment.n_observations)
    player = hashed(12)
    policy = CodeOf(player.steps, environment.n_actions, environment.n_observations)
    expected = literal(environment, "itself", T, policy, 0)
    assert interact(environment, "itself", player.steps, agent, 0) == expected


# --- Names ----------------------------------------------------------------------------------------


def test_the_battery_is_the_papers() -> None:
    assert len(BATTERY) == 25 and all(environment.in_battery for environment in BATTERY)
    assert [environment.name for environment in BATTERY] == list(ENVIRONMENTS)[:25]
    assert BATTERY[0].name == "BackwardConsciousness"
    assert BATTERY[-1].name == "IncentivizeLearningRate"
    outside = list(ENVIRONMENTS)[25:]
    assert outside == [
        "PunishSlowAgent",
        "PunishFastAgent",
        "PunishDeterministicAgent",
        "PunishNondeterministicAgent",
        "FlipEveryOther",
    ]
    assert not any(ENVIRONMENTS[name].in_battery for name in outside)
    assert set(oracle.ENVIRONMENTS) >= set(ENVIRONMENTS)


@pytest.mark.parametrize(
    ("spelled", "name", "is_opposite"),
    [
        ("CryingBaby", "CryingBaby", False),
        (opposite("CryingBaby"), "CryingBaby", True),
        (" opposite( CryingBaby ) ", "CryingBaby", True),
        ("CryingBaby()", "CryingBaby", False),
        ("CryingBaby( nutrition = paper )", "CryingBaby(nutrition=paper)", False),
        (
            "opposite(CryingBaby(recursion=paper,nutrition=code))",
            "CryingBaby(recursion=paper, nutrition=code)",
            True,
        ),
    ],
)
def test_names(spelled: str, name: str, is_opposite: bool) -> None:
    environment, result = find(spelled)
    assert (environment.name, environment.base, result) == (name, "CryingBaby", is_opposite)
    assert environment.in_battery == (name == "CryingBaby")
    assert find(environment.name) == (environment, False)


@pytest.mark.parametrize(
    ("spelled", "message"),
    [
        ("cryingbaby", "there is no environment 'cryingbaby'"),
        ("CryingBabe", "no environment 'CryingBabe'; did you mean 'CryingBaby'[?] known are Back"),
        ("opposite(opposite(DejaVu))", "no environment 'opposite\\(opposite\\(DejaVu\\)\\)'"),
        ("DejaVu(coding=paper)", "DejaVu has no option 'coding'; it has: none"),
        ("CryingBaby(coding=paper)", "no option 'coding'; it has: nutrition, recursion"),
        ("TemptingButton(coding=papers)", "coding is 'papers', expected 'code' or 'paper'"),
        ("TemptingButton(paper)", "'paper' is no option, expected name=value, such as coding="),
    ],
)
def test_names_that_are_none(spelled: str, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        find(spelled)


def test_readings_that_are_none() -> None:
    source = Source(constant(0).steps, 2, 2)
    with pytest.raises(InvalidParameterError, match="nutrition is 'milk', expected 'code' or 'pap"):
        CryingBaby(source, Random(0), 1, nutrition="milk")
    with pytest.raises(InvalidParameterError, match="recursion is 'late', expected 'code' or 'pap"):
        CryingBaby(source, Random(0), 1, recursion="late")
    with pytest.raises(InvalidParameterError, match="rate is 'two', expected 'one' or 'half'"):
        IncentivizeLearningRate(source, Random(0), 1, rate="two")
    with pytest.raises(InvalidParameterError, match="TemptingButtonVariation: coding is 'red', ex"):
        TemptingButtonVariation(source, Random(0), 1, coding="red")


def test_a_reading_of_the_opposite_that_is_none() -> None:
    with pytest.raises(InvalidParameterError, match="is 'HEAD', expected 'literal' or 'unnegated'"):
        BATTERY[0].start(constant(0).steps, Random(0), opposite=True, opposite_reading="HEAD")


# --- One of a user's own --------------------------------------------------------------------------


class Shy(Agreement):
    """Act as if nothing had been paid, or taken."""

    n_observations = 3

    def tell(self, action: int, reward: float) -> None:
        self.copy.take(action)
        self.copy.perceive(abs(reward), 0)


def test_an_environment_of_ones_own() -> None:
    environment = Environment(Shy)
    assert (environment.name, environment.n_actions, environment.n_observations) == ("Shy", 2, 3)
    assert environment.idea == "Act as if nothing had been paid, or taken."
    assert not environment.in_battery
    assert environment.start(constant(1).steps, Random(0)).begin() == (0, 0)


def test_the_environment_of_the_readme_works(tmp_path: Path) -> None:
    readme = Path(environments.__file__).with_name("README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    path = tmp_path / "hindsight.py"
    path.write_text(program, encoding="utf-8")
    scope = runpy.run_path(str(path))
    environment = Environment(scope["Hindsight"])
    assert environment.idea.startswith("Pays for acting as if")
    agent = last_sign.steps
    # The copy plays 0 at first, then by the rewards of two turns ago: 0, 0, 0 and r_2 = 1, ...
    #   y   0   1   0   1 ...      copy   0   0   0   1 ...     reward   1  -1   1   1
    x, _ = interact(environment, "itself", agent, agent, 0, 5)
    assert [reward for reward, _ in x] == [0, 1, -1, 1, 1]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (Agreement, "environment Agreement: define tell, which it lacks"),
        (Run, "environment Run: define begin and react, which it lacks"),
        (dict, "environment dict: expected a class derived from"),
        (7, "environment 7: expected a class derived from .*, got int"),
        (type("Many", (Shy,), {"n_actions": 0}), "n_actions is 0, expected a whole number, at"),
    ],
)
def test_classes_that_are_no_environment(run: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        Environment(run)


def test_the_garbage_collector_is_not_the_agent_s_thought() -> None:
    """Whoever asks to be told of collections runs Python code then, at any time."""
    told: list[str] = []

    def callback(phase: str, info: dict[str, int]) -> None:
        told.append(phase)

    class Wasteful:
        """Makes rubbish that only the collector can find."""

        options: frozenset[str] = frozenset()

        def begin(self, n_actions: int, n_observations: int, **options: object) -> Any:
            for _ in range(5000):
                loop: list[object] = []
                loop.append(loop)
            return ConstantAgent().begin(n_actions, n_observations)

    source = Source(Wasteful(), 2, 1)
    quiet = lines_of_thought(source, [(0, 0)], [])
    gc.callbacks.append(callback)
    try:
        assert lines_of_thought(source, [(0, 0)], []) == quiet
        Wasteful().begin(2, 1)
        assert told and gc.isenabled()
    finally:
        gc.callbacks.remove(callback)
