"""The one grammar of names: what each name means, and what is said of those that mean nobody."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest
from reflection.histories import answers, random_history

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents import Ability, Decision, MissingAbilityError, listed_names, registry
from goalmeter.agents import agent as named
from goalmeter.agents.history import FunctionAgent, RealityCheck
from goalmeter.agents.local_models import check_folder
from goalmeter.agents.registry import HISTORY_AGENTS, register
from goalmeter.agents.registry import history_agent as agent
from goalmeter.agents.scripted import ConstantAgent, NaiveLearner
from goalmeter.gridworld.generators import Draws, maze
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld

WORLD = maze(7, 1.0, seed=0).world

USER_FILE = """
from helper_of_the_user import WHAT

def last_action(history, n_actions, n_observations):
    return history.actions[-1] if history.actions else WHAT

number = 3
"""


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    (tmp_path / "helper_of_the_user.py").write_text("WHAT = 1\n")
    path = tmp_path / "my agents (v2).py"
    path.write_text(USER_FILE)
    return path


def test_reality_checks_are_of_anything_also_of_each_other(user_file: Path) -> None:
    checked = agent("rc( rc(constant(1)))", 4)
    assert isinstance(checked, RealityCheck) and isinstance(checked.inner, RealityCheck)
    assert checked.inner.inner == ConstantAgent(1)
    assert agent("rc(naive)", 4).inner == NaiveLearner(4)
    assert isinstance(agent(f"rc({user_file}:last_action)").inner, FunctionAgent)


# Those that train bring torch, and are tested in `learners`.
TRAINING = {"a2c", "dqn", "ppo", "ppo-as-published", "recurrent-dqn"}
# Those that need a server or a folder, and are tested in `lm`.
ELSEWHERE = {"vllm/openai/gpt-oss-20b", "hf/x/y"}
# Every name that is listed, and of every form one that needs no file.
NAMES = [
    *(name.replace("BETA", "1.5") for name in listed_names()),
    *("constant(3)", "epsilon-optimal(0.2)", "rc(naive)", "rc(rc(q-learner))"),
    *("goalmeter/greedy", "goalmeter/boltzmann(2)", "vllm/openai/gpt-oss-20b", "hf/x/y"),
]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_keeps_what_it_promises(name: str) -> None:
    """Its one spelling is its own, and each ability gives an object that can be asked."""
    who = named(f" {name} ")
    assert who.name == name and named(who.name).abilities == who.abilities
    assert who.abilities and who.about and "\n" not in who.about
    if Ability.HISTORY in who.abilities and name not in TRAINING | ELSEWHERE:
        history = random_history(Random(1), 8)
        answer = answers(who.at_histories(3).begin(4, 2), history)
        assert set(answer) <= {0, 1, 2, 3}
        assert answer == answers(who.at_histories(3).begin(4, 2), history)
    if Ability.GRID in who.abilities:
        walk = who.in_grids().begin(WORLD, Draws("test"))
        decision = walk.act(State(WORLD.start))
        assert decision.action in range(4) and sum(decision.probabilities or ()) == pytest.approx(1)
        assert who.in_grids().name == name
    if Ability.TEXT in who.abilities:
        assert who.as_model() == name
    for ability in set(Ability) - set(who.abilities):
        with pytest.raises(MissingAbilityError, match="provides only"):
            who.require(ability)


def test_one_spelling_for_each_agent() -> None:
    for spelled, name in {
        "boltzmann( 2.0 )": "boltzmann(2)",
        "epsilon-optimal(.30)": "epsilon-optimal(0.3)",
        "constant( 007 )": "constant(7)",
        "rc( rc(random))": "rc(rc(random))",
        "goalmeter/epsilon-optimal( 0.20 )": "goalmeter/epsilon-optimal(0.2)",
        "./agents/../mine.py:it": "mine.py:it",
    }.items():
        assert named(spelled).name == name


def by_compass(world: GridWorld, state: State) -> list[float]:
    """Always to the right."""
    return [0.0, 1.0, 0.0, 0.0]


def test_an_agent_can_be_given_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    register("always-two", ConstantAgent(2), "always action 2")
    assert named("always-two").about == "always action 2"
    assert agent("rc(always-two)", seed=5).inner == ConstantAgent(2)
    register("rightwards", by_compass)
    assert named("rightwards").about == "Always to the right."
    assert named("rightwards").abilities == (Ability.GRID,)
    assert "rightwards" in listed_names(Ability.GRID)
    register("known-factory", HISTORY_AGENTS["constant"])
    assert agent("known-factory(4)") == ConstantAgent(4)
    for taken in ("always-two", "greedy", "random"):
        with pytest.raises(InvalidParameterError, match=f"the agent name '{taken}' is taken"):
            register(taken, ConstantAgent(1))
    for odd in ("Heavy", "rc(x)", "a.py:b", ""):
        with pytest.raises(InvalidParameterError, match="is not a valid agent name, expected"):
            register(odd, ConstantAgent(1))
    with pytest.raises(InvalidParameterError, match="three is 3, expected a function"):
        register("three", 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("naiv", r"no agent 'naiv'; did you mean 'naive'\? `goalmeter agents` lists all"),
        ("mouze", r"no agent 'mouze'; did you mean 'goalmeter/mouse'\?"),
        ("goalmeter/mouze", r"no model 'goalmeter/mouze', .*; did you mean goalmeter/mouse\?"),
        ("model.zip", r"model.zip is a file; if it contains a trained policy, use sb3:model.zip"),
        ("sb3:model.pt", r"'sb3:model.pt' is not a .zip file, expected .* as sb3:PATH.zip"),
        ("constant(-1)", r"expected a whole number K of 0 or more in constant\(K\)"),
        ("rc(naive", r"no agent 'rc\(naive': a bracket is missing"),
        ("rc(mine.txt:agent)", r"'mine.txt' is not a Python file, expected a file that ends in"),
        ("mine.py", r"mine.py is a file, expected mine.py:NAME"),
    ],
)
def test_unknown_names_give_the_nearest(name: str, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        agent(name)


def test_a_function_of_the_history_in_a_file(user_file: Path) -> None:
    """Its folder is searched for what it imports, after everything else."""
    history = random_history(Random(1), 8)
    mine = agent(f"{user_file}:last_action")
    assert answers(mine.begin(2, 2), history) == [1, *history.actions]
    assert sys.path[-1] == str(user_file.parent)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("last_acton", r"has no agent 'last_acton'; did you mean .*\.py:last_action\?"),
        ("number", r"number is 3, expected a function \(history, n_actions, n_observations\)"),
    ],
)
def test_files_without_such_an_agent(user_file: Path, name: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        agent(f"{user_file}:{name}")


# --- Agents of grid worlds in files ---------------------------------------------------------------
WALKERS = """
from goalmeter.agents import Decision

def rightwards(world, state):
    return [0, 1, 0, 0]

class Circling:
    def begin(self, world, draws):
        return Circle()

class Circle:
    turn = -1
    def act(self, state):
        self.turn += 1
        return Decision(action=self.turn % 4)
"""


@pytest.fixture
def walkers(tmp_path: Path) -> Path:
    path = tmp_path / "walkers.py"
    path.write_text(WALKERS)
    return path


def test_a_function_and_a_class_in_a_file_walk(walkers: Path) -> None:
    state = State(WORLD.start)
    walk = named(f"{walkers}:rightwards").in_grids().begin(WORLD, Draws(0))
    assert walk.act(state) == Decision(1, (0.0, 1.0, 0.0, 0.0))
    circling = named(f"{walkers}:Circling").in_grids().begin(WORLD, Draws(0))
    assert [circling.act(state).action for _ in range(5)] == [0, 1, 2, 3, 0]
    assert named(f"{walkers}:Circling").identity().keys() == {
        f"content of {walkers} (sha256)",
    }


def test_a_folder_that_does_not_exist_is_refused_before_anything_loads(tmp_path: Path) -> None:
    for name in ("hf/./nowhere", "hf//nowhere", "hf/a/b/c", "goalmeter-local/nowhere"):
        with pytest.raises(InvalidFileError, match="there is no folder"):
            check_folder(name)
    for name in ("hf/gpt2", "hf/openai/gpt-oss-20b", "vllm/a/b/c", f"hf/{tmp_path}"):
        check_folder(name)
    with pytest.raises(InvalidParameterError, match=r"'./folder' is a path, expected an agent"):
        named("./folder")
