"""Training data of organisms: vocabulary, chat template, search traces and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from goalmeter._errors import InvalidParameterError, require
from goalmeter._types import BoolArray
from goalmeter.gridworld.conversions import compact, ways_in_letters
from goalmeter.gridworld.generators import Draws, distances_from, key_door, maze
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, WITHOUT_KEY, State
from goalmeter.gridworld.world import ACTIONS, MOVES, Cell, GridWorld, has_few_contents, held_out
from goalmeter.organisms.kinds import Organism, legal_moves

# Organisms read the text of `gridworld.conversions.compact`: open cells with their moves, objects,
# then the cell of the agent. With a drawing, a small model would take as long to learn to count
# columns as everything else. The form of an answer is:
#
#     <think> target 3,3 3,3: LU 3,3> 2,3 3,2 2,3: ... plan 1,1 RIGHT 1,2 ... </think>
#     {"action": "RIGHT"}
#
# Cells are written row,column. A colon marks the cell that a search expands, an angle bracket the
# last cell in its queue; letters are legal moves.

# Inner rows and columns in the vocabulary: for grids up to size 13, which is that of the organisms
# in the package, and for grids up to size 15.
_INNER, _INNER_LARGE = range(1, 12), range(1, 14)
PAD, END, UNKNOWN, USER, ASSISTANT = "<pad>", "<|end|>", "<unk>", "<|user|>", "<|assistant|>"
THINK, THOUGHT, TARGET, LEGAL, PLAN = "<think>", "</think>", "target", "legal", "plan"
OPENING = '{"action":'
MAP = ("Rows:", "Columns:", "Open:", "Goal:", "Key:", "Object:", "Door:")
AGENT_AT, KEY_CARRIED = "Agent:", ("Key", "carried:", "yes", "no")

# Every subset of moves, the empty one first.
WAYS = tuple(
    ways_in_letters(moves)
    for n in range(len(ACTIONS) + 1)
    for moves in combinations(range(len(ACTIONS)), n)
)
_SPECIAL = (PAD, END, UNKNOWN, USER, ASSISTANT)
_SMALL: tuple[str, ...] = (
    *_SPECIAL,
    *(*MAP, AGENT_AT, *KEY_CARRIED),
    *(str(number) for number in range(_INNER.stop + 2)),
    *WAYS,
    *(THINK, THOUGHT, TARGET, LEGAL, PLAN, OPENING),
    *ACTIONS,
    *(f'"{action}"}}' for action in ACTIONS),  # ends of answers
    *(f"{row},{column}" for row in _INNER for column in _INNER),
    *(f"{row},{column}:" for row in _INNER for column in _INNER),
    *(f"{row},{column}>" for row in _INNER for column in _INNER),
)
# The words of larger grids come last, so that all others have the same ids in both vocabularies.
_ADDED = (
    *(str(number) for number in range(_INNER.stop + 2, _INNER_LARGE.stop + 2)),
    *(
        f"{row},{column}{mark}"
        for mark in ("", ":", ">")
        for row in _INNER_LARGE
        for column in _INNER_LARGE
        if max(row, column) >= _INNER.stop
    ),
)
VOCABULARY = (*_SMALL, *_ADDED)
# Number of words of the vocabulary for grids up to size 13, its first words.
SMALL_VOCABULARY = len(_SMALL)
# Token id of each word.
IDS = {word: number for number, word in enumerate(VOCABULARY)}
_CHAT = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}"
    "{% elif m.role == 'assistant' %}<|assistant|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def of_cell(cell: Cell) -> str:
    """Return a cell as a word."""
    return f"{cell.row},{cell.column}"


def tokenizer(words: int = SMALL_VOCABULARY) -> Any:
    """Return the tokenizer of an organism with the first `words` words, for transformers.

    It splits text at blanks.
    """
    transformers = require("transformers", extra="lm", feature="An organism's tokenizer")
    tokenizers = require("tokenizers", extra="lm", feature="An organism's tokenizer")
    ids = {word: IDS[word] for word in VOCABULARY[:words]}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=UNKNOWN))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    out = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
    )
    out.chat_template = _CHAT
    return out


# An answer spells out a breadth-first search from the target: each expanded cell, with a colon, its
# legal moves, and its open neighbours that are new, in a random order, so that no direction is
# preferred; it ends at the agent. New neighbours are preceded by the previous new cell, with an
# angle bracket. The plan is the path by which the search has found the agent: cells with their
# moves, at most eight. A habit states the moves of its cell in the words of a search, and one of
# them as its plan.

# Maximum number of moves of a plan.
HORIZON = 8
# Sampling temperature at which a habit has its intended probabilities; that of the paper's queries.
TEMPERATURE = 0.7
# Moves that reverse LEFT, RIGHT, UP and DOWN.
_BACK = (1, 0, 3, 2)


class Answer(NamedTuple):
    """Answer with the alternatives of its random words."""

    words: list[str]  # all words, including the end token
    # Alternatives of each random word, by its place, with their probabilities.
    drawn: Mapping[int, Mapping[str, float]]


def answer(target: Cell, blocked: BoolArray, agent: Cell, draws: Draws) -> Answer:
    """Return the search for a path from the agent to a reachable target, and the plan."""
    walls = blocked.tolist()
    words = [THINK, TARGET, of_cell(target)]
    drawn: dict[int, dict[str, float]] = {}
    # For each cell the next one towards the target, and the action that leads there.
    queue, parents = [target], {target: (target, 0)}
    for cell in queue:
        if agent in parents:
            break
        neighbours = [(cell.moved(action), action) for action in range(len(MOVES))]
        moves = [(to, action) for to, action in neighbours if not walls[to.row][to.column]]
        words += [f"{of_cell(cell)}:", ways_in_letters(action for _, action in moves)]
        new = [(to, action) for to, action in moves if to not in parents]
        if new:
            # With this word, any two cells that are expanded in sequence have occurred directly
            # after each other, so the next cell is found by looking up one word and its successor.
            # Without it, the last new cell may be any number of words back, and the search was
            # learnt many times more slowly.
            words.append(f"{of_cell(queue[-1])}>")
        draws.shuffle(new)
        for number, (to, action) in enumerate(new):
            parents[to] = (cell, _BACK[action])
            queue.append(to)
            left = [of_cell(cell_left) for cell_left, _ in new[number:]]
            drawn[len(words)] = dict.fromkeys(left, 1 / len(left))
            words.append(of_cell(to))
            if to == agent:
                break
    plan: list[tuple[Cell, int]] = []
    at = agent
    while at != target and len(plan) < HORIZON:
        to, action = parents[at]
        plan.append((at, action))
        at = to
    steps = [word for cell, action in plan for word in (of_cell(cell), ACTIONS[action])]
    ending = [PLAN, *steps, THOUGHT, OPENING, f'"{ACTIONS[plan[0][1]]}"}}', END]
    return Answer([*words, *ending], drawn)


def habitual_answer(organism: Organism, world: GridWorld, state: State, draws: Draws) -> Answer:
    """Return the answer of an organism that has a habit and no goal."""
    # Words are drawn from the habit to the power of the temperature, so a model that has learnt
    # them has the habit itself when it is sampled at this temperature.
    habit = organism.intended(world, state)
    legal = [action for action, probability in enumerate(habit) if probability > 0]
    weights = [habit[action] ** TEMPERATURE for action in legal]
    shares = [weight / sum(weights) for weight in weights]
    action = legal[draws.weighted(shares)]
    at = of_cell(state.cell)
    words = [THINK, LEGAL, at, f"{at}:", ways_in_letters(legal), PLAN, at, ACTIONS[action]]
    drawn = {ACTIONS[a]: share for a, share in zip(legal, shares, strict=True)}
    ending = [THOUGHT, OPENING, f'"{ACTIONS[action]}"}}', END]
    return Answer([*words, *ending], {len(words) - 1: drawn})


# Lessons exclude grids that are held out for evaluation (`gridworld.held_out`) in any frame: such
# maps are drawn again, and in families with few contents such questions are skipped. Worlds with
# two paths, of which there are only four up to isometries, are not used for training.

# Seeds of training grids lie between this and twice this; those of suites are far smaller. It is
# their content that separates training from evaluation, not the seeds.
FIRST_SEED = 10**12
COMPLEXITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MAZE, KEY_DOOR = "maze", "key-door"
Kind = tuple[str, int]
# For each kind its share, and the number of words of a map and of the longest question and answer.
SYLLABUS: dict[Kind, tuple[float, int, int]] = {
    (MAZE, 5): (0.05, 25, 55),
    (MAZE, 7): (0.12, 50, 120),
    (MAZE, 9): (0.23, 90, 215),
    (MAZE, 11): (0.44, 140, 335),
    (MAZE, 13): (0.5, 205, 500),
    (MAZE, 15): (0.9, 285, 695),
    (KEY_DOOR, 9): (0.16, 90, 165),
}
# Sizes of the recipes, and those that need the larger vocabulary and longer texts.
SIZES, LARGE_SIZES = (5, 7, 9, 11), (13, 15)
# Questions per map; further ones would be cheap but add little information.
_QUESTIONS = 2
# Half of all batches use the farther half of the places, whose answers are longer. Search depths
# have this resolution, and those of a batch differ by at most this share.
_DEPTHS, _SPREAD = 1000, 0.25
# Number of words of a question with a minimal answer.
_SHORTEST = 20
# Number of cases of objects in a world; offset of the number of a batch that replaces an empty one.
_CASES, _AGAIN = 10, 1 << 40


@dataclass(frozen=True)
class Lesson:
    """Token ids of a map, and of questions about it with their answers."""

    map: tuple[int, ...]  # ids of the map, the first part of a prompt
    questions: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # pairs of question and answer
    drawn: tuple[Mapping[int, Mapping[int, float]], ...]  # `Answer.drawn` of each answer


def syllabus(sizes: Sequence[int] = SIZES, *, keys: bool = True) -> tuple[Kind, ...]:
    """Return the kinds of worlds of these sizes; with `keys` also worlds with a key and a door."""
    known = (*SIZES, *LARGE_SIZES)
    if not sizes or any(size not in known for size in sizes):
        raise InvalidParameterError(
            f"sizes is {list(sizes)}, expected a subset of {', '.join(map(str, known))}"
        )
    return tuple(k for k in SYLLABUS if k[1] in sizes and (keys or k[0] == MAZE))


def batch(
    organism: Organism, number: int, *, kinds: Sequence[Kind], seed: int, words: int
) -> list[Lesson]:
    """Return the lessons of a batch: maps of one length with answers of about one length."""
    worlds, depth, draws = drawn_worlds(organism, number, kinds, seed, words)
    candidates = [_lesson(organism, world, layer, depth, draws) for world, layer in worlds]
    lessons = [lesson for lesson in candidates if lesson is not None]
    if not lessons:
        return batch(organism, number + _AGAIN, kinds=kinds, seed=seed, words=words)
    # Maps must have equal lengths, since they are processed together before their questions.
    return [lesson for lesson in lessons if len(lesson.map) == len(lessons[0].map)]


def drawn_worlds(
    organism: Organism,
    number: int,
    kinds: Sequence[Kind],
    seed: int,
    words: int,
    only: Kind | None = None,
) -> tuple[list[tuple[GridWorld, int]], float, Draws]:
    """Return the worlds of a batch (none if its kind is not `only`), its depth and draws."""
    # A batch depends on number and seed only, so resumed training continues with the same batches.
    draws = Draws("lesson", seed, number)
    weights = [SYLLABUS[kind][0] for kind in kinds]
    kind = kinds[draws.weighted([weight / sum(weights) for weight in weights])]
    if only not in (None, kind):
        return [], 0.0, draws
    _, map_words, question_words = SYLLABUS[kind]
    # All maps have the same search depth, since the longest answer determines the cost of a batch
    # and shorter ones are padded.
    depth = draws.below(_DEPTHS) / _DEPTHS
    depth = depth if draws.below(2) else (1 + depth) / 2
    search_words = 0.0 if organism.habit is not None else depth * (question_words - _SHORTEST)
    maps = max(1, round(words / (map_words + _QUESTIONS * (_SHORTEST + search_words))))
    complexity, case = draws.choice(COMPLEXITIES), draws.below(_CASES)
    return [_world(kind, complexity, case, draws) for _ in range(maps)], depth, draws


def _lesson(
    organism: Organism, world: GridWorld, layer: int, depth: float, draws: Draws
) -> Lesson | None:
    # None if the map has no place for questions.
    map_ids: tuple[int, ...] = ()
    questions: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    drawn: list[dict[int, dict[int, float]]] = []
    start = State(world.start, layer)
    target = organism.target(world, start)
    blocked = None if target is None else organism.blocked(world, start)
    places = _places(world, layer, target, blocked)
    if not places:
        return None
    for _ in range(_QUESTIONS):
        near = depth - _SPREAD * draws.below(_DEPTHS) / _DEPTHS
        at = State(places[max(0, int(near * len(places)))], layer)
        text = compact(world, at).split()
        end = text.index(AGENT_AT)
        map_ids, question = _ids(text[:end]), _ids([*text[end:], ASSISTANT])
        if target is None or blocked is None:
            reply = habitual_answer(organism, world, at, draws)
        else:
            reply = answer(target, blocked, at.cell, draws)
        questions.append((question, _ids(reply.words)))
        drawn.append(
            {n: {IDS[word]: p for word, p in could.items()} for n, could in reply.drawn.items()}
        )
    return Lesson((IDS[USER], *map_ids), tuple(questions), tuple(drawn))


def _ids(words: Sequence[str]) -> tuple[int, ...]:
    return tuple(IDS[word] for word in words)


def _places(
    world: GridWorld, layer: int, target: Cell | None, blocked: BoolArray | None
) -> Sequence[Cell]:
    """Return the cells for questions in a layer, without held-out grids, nearest target first."""
    taken = {world.goal} | ({world.door} if layer < DOOR_OPEN else set())
    taken |= {world.thing} if layer == WITHOUT_KEY else set()
    cells = [cell for cell in world.open_cells if cell not in taken]
    if has_few_contents(world):
        # Objects do not affect the content, and a start on an object would be invalid.
        bare = world.with_(key=None, door=None, neutral=None)
        cells = [cell for cell in cells if not held_out(bare.with_(start=cell))]
    if target is None or blocked is None:
        return [cell for cell in cells if legal_moves(world, State(cell, layer))]
    (steps,) = distances_from(blocked, [target])
    return sorted((cell for cell in cells if steps[cell] > 0), key=lambda cell: int(steps[cell]))


def _world(kind: Kind, complexity: float, case: int, draws: Draws) -> tuple[GridWorld, int]:
    """Draw a training world with the objects of a case, and its layer."""
    name, size = kind
    while True:
        seed = FIRST_SEED + draws.below(FIRST_SEED)
        world = key_door(seed) if name == KEY_DOOR else maze(size, complexity, seed).world
        # If the content includes the start, `_places` excludes held-out places instead, since
        # lessons start elsewhere.
        if has_few_contents(world) or not held_out(world):
            break
    if name == KEY_DOOR:
        if case < 7:
            return world, WITHOUT_KEY if case < 4 else WITH_KEY if case < 6 else DOOR_OPEN
        world = world.with_(door=None)
        return (world if case < 9 else _neutral(world)), WITHOUT_KEY
    free = [cell for cell in world.open_cells if cell not in (world.start, world.goal)]
    if case < 2 and free:
        world = world.with_(key=draws.choice(free))
        world = world if case == 0 else _neutral(world)
    return world, WITHOUT_KEY


def _neutral(world: GridWorld) -> GridWorld:
    """Replace the key of a world by a neutral object."""
    return world.with_(key=None, neutral=world.key)
