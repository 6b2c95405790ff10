"""What an organism learns from: maps, each with several places to start from, and the answers.

A batch has maps of one length, so that they are read together once and every question about them
goes on from there. Its number and the seed make it: training that was interrupted goes on with the
batches that it would have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.key_worlds import SIZE_OF_TWO_PATHS, key_door, two_paths
from goalmeter.gridworld.maze import maze
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, WITHOUT_KEY, State
from goalmeter.gridworld.text import compact
from goalmeter.gridworld.world import Cell, GridWorld
from goalmeter.organisms.kinds import Organism
from goalmeter.organisms.language import AGENT_AT, ASSISTANT, IDS, USER
from goalmeter.organisms.thoughts import Search, answer, habitual_answer

# Grids of lessons have seeds from here to twice this; those of suites lie far below.
FIRST_SEED = 10**12
COMPLEXITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MAZE, KEY_DOOR, TWO_PATH = "maze", "key-door", "two-path"
Kind = tuple[str, int]
# Which worlds, how often, and how many words a map and a question with its answer take, about.
SYLLABUS: dict[Kind, tuple[float, int, int]] = {
    (MAZE, 5): (0.12, 15, 35),
    (MAZE, 7): (0.16, 30, 55),
    (MAZE, 9): (0.22, 45, 80),
    (MAZE, 11): (0.28, 65, 110),
    (KEY_DOOR, 9): (0.16, 50, 80),
    (TWO_PATH, SIZE_OF_TWO_PATHS): (0.06, 45, 60),
}
SIZES = (5, 7, 9, 11)
# The share of the training in which only small mazes are shown, where the search is learnt fastest.
_BEGINNING, _SMALL = 0.06, 7
# Questions about a map. Half of them are from afar, where more is to be said.
_QUESTIONS = 8
# Kinds of what there is in a world; and a batch without a question is made anew with this number.
_CASES, _AGAIN = 10, 1 << 40


@dataclass(frozen=True)
class Lesson:
    """A map, and questions about it with answers; ids of words.

    Attributes:
        map: what is read first.
        questions: the words between map and answer, and the answer.
    """

    map: tuple[int, ...]
    questions: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def syllabus(sizes: Sequence[int] = SIZES, *, keys: bool = True) -> tuple[Kind, ...]:
    """The kinds of worlds of some sizes.

    Args:
        sizes: of the grids.
        keys: whether worlds that have a key by their nature are among them.

    Raises:
        InvalidParameterError: there are no lessons of one of the sizes.
    """
    if not sizes or any(size not in SIZES for size in sizes):
        raise InvalidParameterError(
            f"sizes is {list(sizes)}, expected some of {', '.join(map(str, SIZES))}"
        )
    return tuple(k for k in SYLLABUS if k[1] in sizes and (keys or k[0] == MAZE))


def batch(
    organism: Organism,
    number: int,
    *,
    kinds: Sequence[Kind],
    seed: int,
    words: int,
    progress: float,
) -> list[Lesson]:
    """The lessons of a training step.

    Args:
        organism: who learns.
        number: of the step.
        kinds: of worlds, of `syllabus`.
        seed: of the training.
        words: about how many the batch has.
        progress: the share of the training that is over.
    """
    draws = Draws("lesson", seed, number)
    small = [kind for kind in kinds if kind[0] == MAZE and kind[1] <= _SMALL]
    kinds = small if small and progress < _BEGINNING else kinds
    weights = [SYLLABUS[kind][0] for kind in kinds]
    kind = kinds[draws.weighted([weight / sum(weights) for weight in weights])]
    _, of_map, of_question = SYLLABUS[kind]
    maps = max(1, words // (of_map + _QUESTIONS * of_question))
    complexity, case = draws.choice(COMPLEXITIES), draws.below(_CASES)
    made = [_lesson(organism, _world(kind, complexity, case, draws), draws) for _ in range(maps)]
    lessons = [lesson for lesson in made if lesson is not None]
    if not lessons:
        return batch(
            organism, number + _AGAIN, kinds=kinds, seed=seed, words=words, progress=progress
        )
    return [lesson for lesson in lessons if len(lesson.map) == len(lessons[0].map)]


def _lesson(organism: Organism, placed: tuple[GridWorld, int], draws: Draws) -> Lesson | None:
    """Questions about a world in a layer; None if there is nowhere to ask them from."""
    world, layer = placed
    search = None
    if organism.habit is None:
        state = State(world.start, layer)
        target = organism.target(world, state)
        assert target is not None
        search = Search(target, organism.blocked(world, state))
    places = _places(world, layer, search)
    if not places:
        return None
    known: tuple[int, ...] = ()
    questions: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for _ in range(_QUESTIONS):
        near = draws.below(2)
        cell = draws.choice(places if near else places[len(places) // 2 :])
        at = State(cell, layer)
        known, asked = _ids_of(compact(world, at))
        if search is None:
            said = habitual_answer(organism, world, at, draws)
        else:
            said = answer(search, cell, draws)
        questions.append((asked, tuple(IDS[word] for word in said)))
    return Lesson((IDS[USER], *known), tuple(questions))


def _ids_of(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The words of a prompt: the map, and what follows it up to the answer."""
    words = text.split()
    end = words.index(AGENT_AT)
    asked = [*words[end:], ASSISTANT]
    return tuple(IDS[word] for word in words[:end]), tuple(IDS[word] for word in asked)


def _places(world: GridWorld, layer: int, search: Search | None) -> Sequence[Cell]:
    """Where an agent may stand in this layer, nearer ones first."""
    things = {world.goal} | ({world.door} if layer < DOOR_OPEN else set())
    things |= {world.thing} if layer == WITHOUT_KEY else set()
    cells = world.open_cells if search is None else tuple(search.steps)
    return [cell for cell in cells if cell not in things and not world.walls[cell]]


def _world(kind: Kind, complexity: float, case: int, draws: Draws) -> tuple[GridWorld, int]:
    """A world to learn from, and a layer: with the key or without, the door shut or open.

    The case, one of `_CASES`, says what there is in it.
    """
    name, size = kind
    seed = FIRST_SEED + draws.below(FIRST_SEED)
    if name == KEY_DOOR:
        world = key_door(seed)
        if case < 4:
            return world, WITHOUT_KEY
        if case < 6:
            return world, WITH_KEY
        if case < 7:
            return world, DOOR_OPEN
        world = world.with_(door=None)
        return (world if case < 9 else _neutral(world)), WITHOUT_KEY
    if name == TWO_PATH:
        made = two_paths(seed)
        if case < 4:
            return made.world, WITHOUT_KEY
        if case < 6:
            return made.world, WITH_KEY
        return (made.control if case < 9 else _neutral(made.world)), WITHOUT_KEY
    world = maze(size, complexity, seed).world
    free = [cell for cell in world.open_cells if cell not in (world.start, world.goal)]
    if case < 2 and free:
        world = world.with_(key=draws.choice(free))
        world = world if case == 0 else _neutral(world)
    return world, WITHOUT_KEY


def _neutral(world: GridWorld) -> GridWorld:
    """The same world with a neutral object in place of the key."""
    return world.with_(key=None, neutral=world.key)
