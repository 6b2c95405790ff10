"""Generators that an environment can draw from besides Gymnasium's: Python's, NumPy's and torch's.

Some are global, some are attributes of an environment, of its wrappers or of what these hold, some
stand in the module or the closure of their code. Whoever runs the environment has to know whether
a step drew from any of them, and has to give each draw randomness of its own: a copy that carried
its generator along would repeat the same draw for ever.
"""

from __future__ import annotations

import copy
import pickle
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

_KINDS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_CONTAINERS = (list, tuple, set, frozenset, deque)
# What holds no generator, however large it is.
_ATOMS = (str, bytes, int, float, complex, type(None), type, np.generic, np.dtype)
# Packages whose modules hold no generator of their own that environments draw from.
_KNOWN = frozenset(
    {"builtins", "numpy", "gymnasium", "torch", "collections", "functools", "enum", "random"}
    | {"typing", "abc", "types", "copyreg", "dataclasses", "goalmeter", "minigrid"}
)
_SEEDS = 2**31


def is_generator(thing: Any) -> bool:
    """Whether something is a random number generator of Python, NumPy or torch."""
    kind: Any = type(thing)
    return _is_kind(kind)


@cache
def _is_kind(kind: type) -> bool:
    torch = sys.modules.get("torch")
    return issubclass(kind, _KINDS) or (torch is not None and issubclass(kind, torch.Generator))


def global_generators() -> list[Any]:
    """Those behind `random`, `np.random` and, where it is imported, `torch`."""
    out: list[Any] = [random._inst, np.random.mtrand._rand]
    torch = sys.modules.get("torch")
    return out if torch is None else [*out, torch.default_generator]


def generators_in(root: object) -> list[Any]:
    """All generators that can be reached from an object: attributes, containers, closures, modules.

    Not those that code makes for one call and lets go again.
    """
    out: list[Any] = []
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, _ATOMS) or id(thing) in seen:
            continue
        seen.add(id(thing))
        # Modules are held by much, and only those of an environment's own code are looked into.
        if isinstance(thing, ModuleType) and _is_known(thing.__name__):
            continue
        if is_generator(thing):
            out.append(thing)
        else:
            waiting += _held_by(thing)
    return out


def _held_by(thing: Any) -> Iterable[Any]:
    """What an object refers to."""
    if isinstance(thing, ModuleType):
        return list(filter(is_generator, list(vars(thing).values())))
    if isinstance(thing, dict):
        return list(thing.values())
    if isinstance(thing, _CONTAINERS):
        return thing
    if isinstance(thing, np.ndarray):
        return thing.ravel().tolist() if thing.dtype == object else ()
    if isinstance(thing, partial):
        return (thing.func, thing.args, thing.keywords)
    if isinstance(thing, MethodType):
        return (thing.__self__, thing.__func__)
    if isinstance(thing, FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
        return (*cells, thing.__defaults__, thing.__kwdefaults__, *_modules([thing]))
    kinds = [each for each in type(thing).__mro__ if not _is_known(each.__module__)]
    held = [getattr(thing, name, None) for each in kinds for name in _slots(each)]
    held += list(getattr(thing, "__dict__", {}).values())
    for each in kinds:
        held += filter(is_generator, list(vars(each).values()))
    return held + _modules(kinds)


def _slots(kind: type) -> tuple[str, ...]:
    names = vars(kind).get("__slots__", ())
    return (names,) if isinstance(names, str) else tuple(names)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _modules(things: Iterable[Any]) -> list[Any]:
    """The modules in which classes or functions stand, of which each is looked through once."""
    names = {thing.__module__ for thing in things}
    return [sys.modules[name] for name in names if name in sys.modules and not _is_known(name)]


@cache
def _is_known(module: str | None) -> bool:
    return module is None or module.partition(".")[0] in _KNOWN


def states_of(root: object) -> dict[int, tuple[Any, object]]:
    """Every generator that an environment can reach, global ones included, with its state.

    Two of these are equal if nothing was drawn in between and no generator was made.
    """
    every = [*global_generators(), *generators_in(root)]
    return {id(generator): (generator, _state(generator)) for generator in every}


def other_states(env: Any, more: object = None) -> dict[int, tuple[Any, object]]:
    """The same of an environment, and of more, but for Gymnasium's own generator.

    `reset` makes that one anew.
    """
    gymnasiums = getattr(env.unwrapped, "_np_random", None)
    return {
        place: each for place, each in states_of([env, more]).items() if each[0] is not gymnasiums
    }


def anew(generator: Any, source: np.random.Generator) -> Any:
    """Another generator of the same kind with a seed that is drawn from `source`."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(generator, torch.Generator):
        made = torch.Generator(device=generator.device)
    else:
        made = copy.deepcopy(generator)
    _seed(made, int(source.integers(_SEEDS)))
    return made


@contextmanager
def seeded_from(sequence: np.random.SeedSequence, generators: Iterable[Any]) -> Iterator[None]:
    """Let global and other generators start from a seed, and put them back afterwards.

    So results are a function of the seed, and a caller's own draws go on as if nothing had been.
    """
    every = [each for each in (*global_generators(), *generators) if not _is_system(each)]
    before = [_raw_state(each) for each in every]
    for each, seed in zip(every, sequence.generate_state(len(every)) % _SEEDS, strict=True):
        _seed(each, int(seed))
    try:
        yield
    finally:
        for each, state in zip(every, before, strict=True):
            _put_back(each, state)


def _is_system(generator: Any) -> bool:
    """Whether it draws from the operating system, and so has no state."""
    return isinstance(generator, random.SystemRandom)


def _state(generator: Any) -> object:
    # A generator without a state may draw at any time: equal to nothing, not even to itself.
    return object() if _is_system(generator) else pickle.dumps(_raw_state(generator))


def _raw_state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.BitGenerator):
        return generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    if isinstance(generator, random.Random):
        return generator.getstate()
    # A tensor is pickled slowly, its bytes are not.
    return generator.get_state().numpy().tobytes()


def _put_back(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.BitGenerator):
        generator.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        torch = sys.modules["torch"]
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _seed(generator: Any, seed: int) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
    elif isinstance(generator, np.random.BitGenerator):
        generator.state = type(generator)(seed).state
    elif isinstance(generator, (np.random.RandomState, random.Random)):
        generator.seed(seed)
    else:
        generator.manual_seed(seed)
