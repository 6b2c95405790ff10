"""What the code of an environment says of chance that no generator shows.

A start that `reset` works out from its seed, or a step that asks the operating system, leaves no
generator behind whose state could be compared. What is not visible here either (a compiled
library, a clock) stays the caller's promise: see docs/meg.md.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

# Names of what makes chance, or a generator, out of nothing that is compared.
_SOURCES = frozenset(
    {"urandom", "getrandom", "SystemRandom", "secrets", "token_bytes", "randbelow", "uuid1"}
    | {"uuid4", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"}
    | {"default_rng", "RandomState", "Random", "SeedSequence", "PCG64", "MT19937", "Philox"}
    # These look into a generator, or make another of it, and leave its own state alone.
    | {"spawn", "jumped", "bit_generator", "seed_seq", "PRNGKey"}
)
# A copy of a generator draws, and the generator stays as it was.
_COPYING, _COPIED = "deepcopy", frozenset({"np_random", "_np_random"})
# Where Gymnasium keeps the seed itself.
_SEED_NAMES = frozenset({"np_random_seed", "_np_random_seed"})
_ROOT = "gymnasium"


def layers(env: Any) -> list[Any]:
    """An environment with its wrappers, from the outermost to the bare one."""
    out = [env]
    while out[-1] is not env.unwrapped:
        out.append(out[-1].env)
    return out


def draws_unseen(env: Any) -> bool:
    """Whether what `step` runs names a source of chance that leaves no state to compare."""
    return any(_draws_from_nothing(_names_behind(type(layer), "step")) for layer in layers(env))


def call_draws_unseen(function: Any) -> bool:
    """Whether what a caller's function runs names such a source."""
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, FunctionType):
        return _draws_from_nothing(_names_behind(type(function), "__call__"))
    # A name that no function has, since a lambda has none.
    return _draws_from_nothing(_names_reached("", [{"": plain}, _module_of(plain)]))


def start_seed_is_fixed(env: Any) -> bool:
    """Whether a wrapper resets what it wraps with a seed that stands in its code, whatever it gets.

    Then all that what it wraps draws from that seed is the same in every episode.
    """
    if any(_draws_from_nothing(_names_behind(type(layer), "reset")) for layer in layers(env)):
        return False
    for layer in layers(env)[:-1]:
        resets = [vars(kind)["reset"] for kind in _own_kinds(type(layer)) if "reset" in vars(kind)]
        if len(resets) == 1 and _seed_in_code(resets[0]):
            return True
        if not all(_hands_seed_on(reset, True) for reset in resets):
            return False
    return False


def start_ignores_seed(env: Any) -> bool:
    """Whether `reset` gives its seed to Gymnasium's generator and uses it for nothing else.

    Only then a start that leaves all generators untouched is the same for every seed. False where
    the code cannot be read.
    """
    for layer in layers(env):
        names = _names_behind(type(layer), "reset")
        if _SEED_NAMES & names or _draws_from_nothing(names):
            return False
        for kind in _own_kinds(type(layer)):
            reset = vars(kind).get("reset")
            if reset is not None and not _hands_seed_on(reset, layer is not env.unwrapped):
                return False
    return any(each.__module__.partition(".")[0] == _ROOT for each in type(env.unwrapped).__mro__)


def _draws_from_nothing(names: set[str]) -> bool:
    return bool(_SOURCES & names or (_COPYING in names and _COPIED & names))


def _own_kinds(kind: type) -> list[type]:
    """The classes of an environment that are neither Gymnasium's nor Python's."""
    return [
        each
        for each in kind.__mro__
        if each.__module__.partition(".")[0] not in (_ROOT, "builtins", "typing", "abc")
    ]


def _names_behind(kind: type, method: str) -> set[str]:
    """The names that a method's code and all that it calls by name in its class and module use."""
    scopes = [scope for each in _own_kinds(kind) for scope in (vars(each), _module_of(each))]
    return _names_reached(method, scopes)


def _module_of(thing: Any) -> Mapping[str, Any]:
    """What stands in the module of a class or a function."""
    module = sys.modules.get(thing.__module__)
    return vars(module) if module else {}


def _names_reached(first: str, scopes: Iterable[Mapping[str, Any]]) -> set[str]:
    """The names that a function's code uses, and that of all it calls by name in some scopes."""
    names: set[str] = set()
    known: dict[str, list[FunctionType]] = {}
    for name, value in (each for scope in scopes for each in scope.items()):
        read = value.fget if isinstance(value, property) else value
        if isinstance(read, FunctionType):
            known.setdefault(name, []).append(read)
    waiting = [first]
    while waiting:
        name = waiting.pop()
        for function in known.pop(name, []):
            fresh = set(_names_in(function.__code__)) - names
            names |= fresh
            waiting += fresh
    return names


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _hands_seed_on(reset: Any, is_wrapper: bool) -> bool:
    """Whether a `reset` uses its arguments in calls of the `reset` below it alone."""
    function = _parsed(reset)
    if function is None:
        return False
    allowed: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _is_reset_below(node.func, is_wrapper):
            passed = [*node.args, *(keyword.value for keyword in node.keywords)]
            allowed |= {
                id(each.value if isinstance(each, ast.Starred) else each) for each in passed
            }
        elif isinstance(node, ast.Compare) and all(
            isinstance(each, ast.Constant) and each.value is None for each in node.comparators
        ):
            allowed.add(id(node.left))
    return all(id(node) in allowed for node in _uses_of_arguments(function))


def _seed_in_code(reset: Any) -> bool:
    """Whether a wrapper's `reset` leaves its arguments alone and calls another with a constant."""
    function = _parsed(reset)
    if function is None or _uses_of_arguments(function):
        return False
    calls = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _is_reset_below(node.func, True)
    ]
    seeds = [
        keyword.value
        for call in calls
        for keyword in call.keywords
        if keyword.arg == "seed" and isinstance(keyword.value, ast.Constant)
    ]
    return len(calls) == 1 and len(seeds) == 1 and isinstance(seeds[0].value, int)


def _parsed(reset: Any) -> ast.FunctionDef | None:
    """The code of a function; None where it cannot be read, or looks at itself."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(reset))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return None if names & {"locals", "vars", "eval", "exec"} else tree


def _uses_of_arguments(function: ast.FunctionDef) -> list[ast.Name]:
    """Where its arguments are used, but for `options`, which are never given."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    names = {each.arg for each in every} - {"self", "options"}
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    return [node for node in nodes if node.id in names]


def _is_reset_below(called: ast.expr, is_wrapper: bool) -> bool:
    """Whether an expression is `super().reset`, or `self.env.reset` in a wrapper."""
    if not isinstance(called, ast.Attribute) or called.attr != "reset":
        return False
    owner = called.value
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "super"
    return (
        is_wrapper
        and isinstance(owner, ast.Attribute)
        and owner.attr == "env"
        and isinstance(owner.value, ast.Name)
        and owner.value.id == "self"
    )
