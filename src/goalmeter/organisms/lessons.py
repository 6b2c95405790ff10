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

# Organisms read `gridworld.conversions.compact`: open cells with the ways from them, things, then
# where the agent is. A drawing would do, but a small model takes as long to learn to count
# columns as all the rest. They answer:
#
#     <think> target 3,3 3,3: LU 3,3> 2,3 3,2 2,3: ... plan 1,1 RIGHT 1,2 ... </think>
#     {"action": "RIGHT"}
#
# Cells are written row,column; a cell with a colon is one whose turn it is in a search, one with an
# angle the last that waits for its turn; letters are the moves that lead on (`thoughts`).

# Inner rows and columns that have words: up to grids of size 13.
_INNER = range(1, 12)
PAD, END, UNKNOWN, USER, ASSISTANT = "<pad>", "<|end|>", "<unk>", "<|user|>", "<|assistant|>"
THINK, THOUGHT, TARGET, LEGAL, PLAN = "<think>", "</think>", "target", "legal", "plan"
OPENING = '{"action":'
MAP = ("Rows:", "Columns:", "Open:", "Goal:", "Key:", "Object:", "Door:")
AGENT_AT, KEY_CARRIED = "Agent:", ("Key", "carried:", "yes", "no")

# Every choice of moves, none first.
WAYS = tuple(
    ways_in_letters(moves)
    for n in range(len(ACTIONS) + 1)
    for moves in combinations(range(len(ACTIONS)), n)
)
_SPECIAL = (PAD, END, UNKNOWN, USER, ASSISTANT)
VOCABULARY: tuple[str, ...] = (
    *_SPECIAL,
    *(*MAP, AGENT_AT, *KEY_CARRIED),
    *(str(number) for number in range(_INNER.stop + 2)),
    *WAYS,
    *(THINK, THOUGHT, TARGET, LEGAL, PLAN, OPENING),
    *ACTIONS,
    *(f'"{action}"}}' for action in ACTIONS),  # as answers end
    *(f"{row},{column}" for row in _INNER for column in _INNER),
    *(f"{row},{column}:" for row in _INNER for column in _INNER),
    *(f"{row},{column}>" for row in _INNER for column in _INNER),
)
# Number of each word that organisms read and write.
IDS = {word: number for number, word in enumerate(VOCABULARY)}
_CHAT = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}"
    "{% elif m.role == 'assistant' %}<|assistant|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def of_cell(cell: Cell) -> str:
    """Return a cell as a word."""
    return f"{cell.row},{cell.column}"


def tokenizer() -> Any:
    """Return the tokenizer that all organisms share: words between blanks, of transformers."""
    transformers = require("transformers", extra="lm", feature="An organism's tokenizer")
    tokenizers = require("tokenizers", extra="lm", feature="An organism's tokenizer")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(IDS, unk_token=UNKNOWN))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    out = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
    )
    out.chat_template = _CHAT
    return out


# An answer tells a search, breadth-first from the target: each cell whose turn it is, with a colon,
# the moves that lead on from it, and those of its open neighbours that were not said before, in a
# random order, so that no direction is preferred; it ends at the agent. Before new neighbours
# stands, with an angle, the cell that was new last. The plan is the way by which the search has
# found the agent: cells with the moves from them, at most eight. A habit says the moves from its
# cell in the words of a search, and its plan is one of them.

# Moves of a stated plan.
HORIZON = 8
# The temperature at which a habit is as it should be: the paper's, which questions are asked with.
TEMPERATURE = 0.7
# The moves that undo LEFT, RIGHT, UP and DOWN.
_BACK = (1, 0, 3, 2)


class Answer(NamedTuple):
    """An answer, and what it could have been."""

    words: list[str]  # its end included
    # At the places of words that were drawn, all that could have been, with their probabilities.
    drawn: Mapping[int, Mapping[str, float]]


def answer(target: Cell, blocked: BoolArray, agent: Cell, draws: Draws) -> Answer:
    """Return what is said before the way to a target, which can be reached, and that way."""
    shut = blocked.tolist()
    words = [THINK, TARGET, of_cell(target)]
    drawn: dict[int, dict[str, float]] = {}
    # For each cell the next one towards the target, and the action that leads there.
    queue, came = [target], {target: (target, 0)}
    for cell in queue:
        if agent in came:
            break
        around = [(cell.moved(action), action) for action in range(len(MOVES))]
        ways = [(to, action) for to, action in around if not shut[to.row][to.column]]
        words += [f"{of_cell(cell)}:", ways_in_letters(action for _, action in ways)]
        new = [(to, action) for to, action in ways if to not in came]
        if new:
            # So of any two cells that have their turns one after the other the second was once said
            # right behind the first, and to know whose turn is next takes a look for a word and
            # what followed it. A search without these angles, where the last new cell may lie any
            # number of words back, was learnt many times more slowly.
            words.append(f"{of_cell(queue[-1])}>")
        draws.shuffle(new)
        for number, (to, action) in enumerate(new):
            came[to] = (cell, _BACK[action])
            queue.append(to)
            left = [of_cell(cell_left) for cell_left, _ in new[number:]]
            drawn[len(words)] = dict.fromkeys(left, 1 / len(left))
            words.append(of_cell(to))
            if to == agent:
                break
    plan: list[tuple[Cell, int]] = []
    at = agent
    while at != target and len(plan) < HORIZON:
        to, action = came[at]
        plan.append((at, action))
        at = to
    stated = [word for cell, action in plan for word in (of_cell(cell), ACTIONS[action])]
    ended = [PLAN, *stated, THOUGHT, OPENING, f'"{ACTIONS[plan[0][1]]}"}}', END]
    return Answer([*words, *ended], drawn)


def habitual_answer(organism: Organism, world: GridWorld, state: State, draws: Draws) -> Answer:
    """Return what an organism says that has a habit and no goal."""
    # Drawn from the habit to the power of the temperature: sampled at that temperature, a model
    # that has learnt these words has the habit itself.
    meant = organism.intended(world, state)
    legal = [action for action, probability in enumerate(meant) if probability > 0]
    weights = [meant[action] ** TEMPERATURE for action in legal]
    shares = [weight / sum(weights) for weight in weights]
    action = legal[draws.weighted(shares)]
    at = of_cell(state.cell)
    words = [THINK, LEGAL, at, f"{at}:", ways_in_letters(legal), PLAN, at, ACTIONS[action]]
    drawn = {ACTIONS[a]: share for a, share in zip(legal, shares, strict=True)}
    ended = [THOUGHT, OPENING, f'"{ACTIONS[action]}"}}', END]
    return Answer([*words, *ended], {len(words) - 1: drawn})


# No lesson has a content that is held out for evaluation (`gridworld.contents`), in any frame: such
# maps are drawn again, and in families with few contents such questions are not asked. Worlds with
# two paths, of which there are only four up to isometries, are not taught at all.

# Grids of lessons have seeds from here to twice this; those of suites lie far below. What keeps
# lessons and evaluation apart is their contents, not these.
FIRST_SEED = 10**12
COMPLEXITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MAZE, KEY_DOOR = "maze", "key-door"
Kind = tuple[str, int]
# Which worlds, how often, and how many words a map and the longest question with its answer take.
SYLLABUS: dict[Kind, tuple[float, int, int]] = {
    (MAZE, 5): (0.05, 25, 55),
    (MAZE, 7): (0.12, 50, 120),
    (MAZE, 9): (0.23, 90, 215),
    (MAZE, 11): (0.44, 140, 335),
    (KEY_DOOR, 9): (0.16, 90, 165),
}
SIZES = (5, 7, 9, 11)
# Questions about a map; more would be cheap to read and tell little that is new.
_QUESTIONS = 2
# Half of all batches ask from the farther half of the places, where more is to be said. Depths of
# search are drawn in so many steps, and those of a batch lie within this share of each other.
_DEPTHS, _SPREAD = 1000, 0.25
# Words of a question whose answer has hardly a search, or none.
_SHORTEST = 20
# Kinds of what there is in a world; and a batch without a question is made anew with this number.
_CASES, _AGAIN = 10, 1 << 40


@dataclass(frozen=True)
class Lesson:
    """A map, and questions about it with answers; ids of words."""

    map: tuple[int, ...]  # what is read first
    questions: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # words before an answer, and it
    drawn: tuple[Mapping[int, Mapping[int, float]], ...]  # of each answer, as `Answer.drawn`


def syllabus(sizes: Sequence[int] = SIZES, *, keys: bool = True) -> tuple[Kind, ...]:
    """Return the kinds of worlds of these sizes; with `keys` also those with a key and a door."""
    if not sizes or any(size not in SIZES for size in sizes):
        raise InvalidParameterError(
            f"sizes is {list(sizes)}, expected some of {', '.join(map(str, SIZES))}"
        )
    return tuple(k for k in SYLLABUS if k[1] in sizes and (keys or k[0] == MAZE))


def batch(
    organism: Organism, number: int, *, kinds: Sequence[Kind], seed: int, words: int
) -> list[Lesson]:
    """Return the lessons of a batch: maps of one length with answers of about one length."""
    worlds, depth, draws = drawn_worlds(organism, number, kinds, seed, words)
    made = [_lesson(organism, world, layer, depth, draws) for world, layer in worlds]
    lessons = [lesson for lesson in made if lesson is not None]
    if not lessons:
        return batch(organism, number + _AGAIN, kinds=kinds, seed=seed, words=words)
    # All maps are read together once, and the questions about them go on from there.
    return [lesson for lesson in lessons if len(lesson.map) == len(lessons[0].map)]


def drawn_worlds(
    organism: Organism,
    number: int,
    kinds: Sequence[Kind],
    seed: int,
    words: int,
    only: Kind | None = None,
) -> tuple[list[tuple[GridWorld, int]], float, Draws]:
    """Return the worlds of a batch, none if it is of another kind than `only`; depth and draws."""
    # The number and the seed make it: training that was interrupted goes on with the batches that
    # it would have seen.
    draws = Draws("lesson", seed, number)
    weights = [SYLLABUS[kind][0] for kind in kinds]
    kind = kinds[draws.weighted([weight / sum(weights) for weight in weights])]
    if only not in (None, kind):
        return [], 0.0, draws
    _, of_map, of_question = SYLLABUS[kind]
    # The same depth of search is asked for on all maps: the longest answer decides what a batch
    # costs, and what the others lack of it is padding.
    depth = draws.below(_DEPTHS) / _DEPTHS
    depth = depth if draws.below(2) else (1 + depth) / 2
    searched = 0.0 if organism.habit is not None else depth * (of_question - _SHORTEST)
    maps = max(1, round(words / (of_map + _QUESTIONS * (_SHORTEST + searched))))
    complexity, case = draws.choice(COMPLEXITIES), draws.below(_CASES)
    return [_world(kind, complexity, case, draws) for _ in range(maps)], depth, draws


def _lesson(
    organism: Organism, world: GridWorld, layer: int, depth: float, draws: Draws
) -> Lesson | None:
    # None if there is nowhere to ask questions from.
    known: tuple[int, ...] = ()
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
        known, question = _ids(text[:end]), _ids([*text[end:], ASSISTANT])
        if target is None or blocked is None:
            reply = habitual_answer(organism, world, at, draws)
        else:
            reply = answer(target, blocked, at.cell, draws)
        questions.append((question, _ids(reply.words)))
        drawn.append(
            {n: {IDS[word]: p for word, p in could.items()} for n, could in reply.drawn.items()}
        )
    return Lesson((IDS[USER], *known), tuple(questions), tuple(drawn))


def _ids(words: Sequence[str]) -> tuple[int, ...]:
    return tuple(IDS[word] for word in words)


def _places(
    world: GridWorld, layer: int, target: Cell | None, blocked: BoolArray | None
) -> Sequence[Cell]:
    """Where an agent may stand in this layer and may be taught, nearer to its target first."""
    taken = {world.goal} | ({world.door} if layer < DOOR_OPEN else set())
    taken |= {world.thing} if layer == WITHOUT_KEY else set()
    cells = [cell for cell in world.open_cells if cell not in taken]
    if has_few_contents(world):
        # A world in which the agent stood on its thing could not be made; things do not count.
        bare = world.with_(key=None, door=None, neutral=None)
        cells = [cell for cell in cells if not held_out(bare.with_(start=cell))]
    if target is None or blocked is None:
        return [cell for cell in cells if legal_moves(world, State(cell, layer))]
    (steps,) = distances_from(blocked, [target])
    return sorted((cell for cell in cells if steps[cell] > 0), key=lambda cell: int(steps[cell]))


def _world(kind: Kind, complexity: float, case: int, draws: Draws) -> tuple[GridWorld, int]:
    """A world to learn from, with in it what the case says, and a layer: key taken, door open."""
    name, size = kind
    while True:
        seed = FIRST_SEED + draws.below(FIRST_SEED)
        world = key_door(seed) if name == KEY_DOOR else maze(size, complexity, seed).world
        # Where the start is part of the content nothing is drawn again: an agent starts elsewhere
        # in a lesson, and `_places` leaves out the places that are held out.
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
    """The same world with a neutral object in place of the key."""
    return world.with_(key=None, neutral=world.key)
