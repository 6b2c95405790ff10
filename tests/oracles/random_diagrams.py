"""Small diagrams for the oracles: the paper's examples, and random ones of every recall."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .causal_model import Array, Factor, Model, descendants, has_sufficient_recall

# The paper's examples


def table(
    model_sizes: Mapping[str, int], parents: Sequence[str], size: int, rule: Callable[..., int]
) -> Array:
    """The deterministic CPD ``x = rule(*parents)``."""
    out = np.zeros([*(model_sizes[p] for p in parents), size])
    for values in itertools.product(*(range(model_sizes[p]) for p in parents)):
        out[(*values, rule(*values))] = 1.0
    return out


def mouse(to_cheese: float, position: bool = False) -> Model:
    """Example 1.  S: cheese left, right; D: go left, right; T: 0 none, 1 cheese; utility -1, +1.

    With ``position``, M = D is where the mouse ends, and T looks at M instead of D.
    """
    end = "M" if position else "D"
    sizes = {"S": 2, "D": 2, **({"M": 2} if position else {}), "T": 2}
    parents: dict[str, tuple[str, ...]] = {"S": (), "D": ("S",), "T": ("S", end)}
    cpds = {
        "S": np.array([0.5, 0.5]),
        "D": np.array([[to_cheese, 1 - to_cheese], [1 - to_cheese, to_cheese]]),
        "T": table(sizes, parents["T"], 2, lambda s, d: int(s == d)),
    }
    if position:
        parents["M"] = ("D",)
        cpds["M"] = np.eye(2)
    return Model(sizes, parents, cpds, ("D",), ((("T",), np.array([-1.0, 1.0])),))


def mechanised_mouse(to_cheese: float) -> Model:
    """Figure 4 (b).  T~: how the cheese depends on the mouse's side; D~: how the mouse moves.

    The mechanism D~ adapts to the mechanism T~; D and T follow their mechanisms.  The decision that
    corresponds to Example 1's D is D~ (it sees T~ as D saw S).
    """
    sizes = {"T~": 2, "D~": 2, "D": 2, "T": 2}
    parents = {"T~": (), "D~": ("T~",), "D": ("D~",), "T": ("T~", "D")}
    cpds = {
        "T~": np.array([0.5, 0.5]),
        "D~": np.array([[to_cheese, 1 - to_cheese], [1 - to_cheese, to_cheese]]),
        "D": np.eye(2),
        "T": table(sizes, parents["T"], 2, lambda s, d: int(s == d)),
    }
    return Model(sizes, parents, cpds, ("D~",), ((("T",), np.array([-1.0, 1.0])),))


CELLS = 5


def smelling_mouse(first: float, second: float | None = None) -> Model:
    """Example 2, Figure 2.  S_t = 2 position + side of the cheese (0 far left, 1 far right).

    O_t: 0 the smell comes from the left, 1 from the right (on the cheese: from its own side).
    D_t: 0 go left, 1 right, within the grid.  U_t = 1 on the cheese, and the utility is U_3.  The
    policy follows the smell with probability ``first`` at D_1 and ``second`` (the same) at D_2.
    """
    states = 2 * CELLS
    sizes = {"S1": states, "U1": 2, "O1": 2, "D1": 2, "S2": states, "U2": 2, "O2": 2, "D2": 2}
    sizes |= {"S3": states, "U3": 2}
    parents: dict[str, tuple[str, ...]] = {"S1": ()}
    cpds = {"S1": np.zeros(states)}
    centre = CELLS // 2
    cpds["S1"][[2 * centre, 2 * centre + 1]] = 0.5

    def cheese(s: int) -> int:
        return 0 if s % 2 == 0 else CELLS - 1

    def smell(s: int) -> int:
        return s % 2 if s // 2 == cheese(s) else int(cheese(s) > s // 2)

    def move(s: int, d: int) -> int:
        return 2 * min(max(s // 2 + (1 if d else -1), 0), CELLS - 1) + s % 2

    for t, follow in ((1, first), (2, first if second is None else second), (3, None)):
        if t > 1:
            parents[f"S{t}"] = (f"S{t - 1}", f"D{t - 1}")
            cpds[f"S{t}"] = table(sizes, parents[f"S{t}"], states, move)
        parents[f"U{t}"] = (f"S{t}",)
        cpds[f"U{t}"] = table(sizes, (f"S{t}",), 2, lambda s: int(s // 2 == cheese(s)))
        if follow is not None:
            parents[f"O{t}"], parents[f"D{t}"] = (f"S{t}",), (f"O{t}",)
            cpds[f"O{t}"] = table(sizes, (f"S{t}",), 2, smell)
            cpds[f"D{t}"] = np.array([[follow, 1 - follow], [1 - follow, follow]])
    utility: tuple[Factor, ...] = ((("U3",), np.array([0.0, 1.0])),)
    return Model(sizes, parents, cpds, ("D1", "D2"), utility)


def without_idle(model: Model, *names: str) -> Model:
    """The model without these childless variables (so that its joint is smaller)."""
    return model._replace(
        sizes={x: n for x, n in model.sizes.items() if x not in names},
        parents={x: p for x, p in model.parents.items() if x not in names},
        cpds={x: c for x, c in model.cpds.items() if x not in names},
    )


def goal_conditional(obeys: float = 1.0) -> Model:
    """I: the instruction; D sees it; O = D.  Follows the instruction with this probability."""
    sizes = {"I": 2, "D": 2, "O": 2}
    cpds = {
        "I": np.array([0.5, 0.5]),
        "D": np.array([[obeys, 1 - obeys], [1 - obeys, obeys]]),
        "O": np.eye(2),
    }
    return Model(sizes, {"I": (), "D": ("I",), "O": ("D",)}, cpds, ("D",))


def two_peaks(gap: float) -> Model:
    """Two binary decisions that do not see each other; utility 1 at (0, 0), 1 - gap at (1, 1).

    The policy is (1, 1) for certain: a strict local optimum that is not the global one.
    """
    sizes = {"D1": 2, "D2": 2, "X": 3}  # X: 0 both chose 0, 1 both chose 1, 2 they differ
    parents = {"D1": (), "D2": (), "X": ("D1", "D2")}
    cpds = {
        "D1": np.array([0.0, 1.0]),
        "D2": np.array([0.0, 1.0]),
        "X": table(sizes, ("D1", "D2"), 3, lambda a, b: a if a == b else 2),
    }
    return Model(sizes, parents, cpds, ("D1", "D2"), ((("X",), np.array([1.0, 1.0 - gap, 0.0])),))


def parity_team(bias: float) -> Model:
    """Three binary decisions that do not see each other; utility 1 for an even number of ones less
    1 for an odd one.  Each takes 0 with probability ``bias``."""
    names = ("D1", "D2", "D3")
    sizes = {**dict.fromkeys(names, 2), "X": 2}
    parents: dict[str, tuple[str, ...]] = {**dict.fromkeys(names, ()), "X": names}
    cpds = {d: np.array([bias, 1 - bias]) for d in names}
    cpds["X"] = table(sizes, names, 2, lambda *ones: sum(ones) % 2)
    return Model(sizes, parents, cpds, names, ((("X",), np.array([1.0, -1.0])),))


# Random pieces


def random_cpd(rng: np.random.Generator, shape: Sequence[int], zeros: float = 0.3) -> Array:
    """Rows at random; with probability ``zeros`` each, a row is deterministic or has a zero."""
    out = rng.dirichlet(np.ones(shape[-1]), size=tuple(shape[:-1])).reshape(shape)
    for index in np.ndindex(*shape[:-1]):
        if rng.random() < zeros:
            if rng.random() < 0.5:
                out[index] = np.eye(shape[-1])[rng.integers(shape[-1])]
            elif shape[-1] > 2:
                out[index][rng.integers(shape[-1])] = 0.0
                out[index] /= out[index].sum()
    return out


POLICIES = ("random", "deterministic", "uniform", "mixed")


def random_policy(rng: np.random.Generator, shape: Sequence[int], kind: str) -> Array:
    """One of ``POLICIES``; mixed has deterministic rows among random ones."""
    if kind == "uniform":
        return np.full(shape, 1.0 / shape[-1])
    if kind == "deterministic":
        return np.eye(shape[-1])[rng.integers(shape[-1], size=tuple(shape[:-1]))]
    return random_cpd(rng, shape, 0.4 if kind == "mixed" else 0.0)


def filled(
    rng: np.random.Generator,
    sizes: dict[str, int],
    parents: dict[str, tuple[str, ...]],
    decisions: Sequence[str],
    groups: Sequence[tuple[str, ...]],
    policy: str,
) -> Model:
    """The diagram with random CPDs, this kind of policy, and a random utility for every group."""
    cpds = {}
    for x, ps in parents.items():
        shape = [*(sizes[p] for p in ps), sizes[x]]
        cpds[x] = random_policy(rng, shape, policy) if x in decisions else random_cpd(rng, shape)
    factors = tuple((g, rng.normal(size=[sizes[x] for x in g])) for g in groups)
    return Model(sizes, parents, cpds, tuple(decisions), factors)


def groups_of(model: Model) -> list[tuple[str, ...]]:
    """The variables of each factor: the class of utilities that the random utility is from."""
    return [xs for xs, _ in model.factors]


def recall(model: Model) -> bool:
    """Sufficient recall for the model's own utility?"""
    return has_sufficient_recall(model.parents, model.decisions, groups_of(model))


def _sizes(rng: np.random.Generator, names: Sequence[str], most: int = 3) -> dict[str, int]:
    return {x: int(rng.integers(2, most + 1)) for x in names}


# (i) one decision


def one_decision(rng: np.random.Generator, policy: str = "random") -> Model:
    """A random graph of 3 to 6 variables; the utility is of 1 or 2 of them, some influenced."""
    n = int(rng.integers(3, 7))
    names = [f"X{i}" for i in range(n)]
    parents = {
        x: tuple(str(p) for p in rng.permutation(names[:i])[:3] if rng.random() < 0.6)
        for i, x in enumerate(names)
    }
    at = int(rng.integers(n - 1))
    d = names[at]
    if not descendants(parents, d):
        parents[names[-1]] = (*parents[names[-1]][:2], d)
    target = str(rng.choice(sorted(descendants(parents, d))))
    below = str(rng.choice([x for x in names if x != d]))
    group = (target,) if below == target or rng.random() < 0.5 else (target, below)
    # The listing of variables is no topological order, so nothing may depend on that.
    shuffled = [str(x) for x in rng.permutation(names)]
    sizes = _sizes(rng, shuffled)
    model = filled(rng, sizes, {x: parents[x] for x in shuffled}, [d], [group], policy)
    assert recall(model)
    return model


# (ii) perfect recall


def perfect_recall(rng: np.random.Generator, policy: str = "random") -> Model:
    """Two or three decisions; each sees all earlier decisions and what they saw, and not all of the
    state: O is a noisy view of a hidden H."""
    three = rng.random() < 0.3
    names = ["H", "O1", "D1", "O2", "D2", *(["D3"] if three else []), "T"]
    sizes = {x: 2 if three else n for x, n in _sizes(rng, names).items()}
    parents: dict[str, tuple[str, ...]] = {"H": (), "O1": ("H",), "D1": ("O1",)}
    parents["O2"] = ("H", "D1")
    parents["D2"] = ("D1", "O2", "O1")
    if three:
        parents["D3"] = ("O1", "O2", "D1", "D2")
    parents["T"] = ("D2", "D3", "H") if three else ("D1", "H", "D2")
    decisions = [x for x in names if x.startswith("D")]
    group = ("T",) if rng.random() < 0.5 else ("O2", "T")
    model = filled(rng, sizes, parents, decisions, [group], policy)
    assert recall(model)
    return model


# (iii) sufficient but not perfect recall


def chain(rng: np.random.Generator, policy: str = "random") -> Model:
    """An MDP of two or three steps: D_t sees S_t only.  Utility of the last states, or of each."""
    steps = int(rng.integers(2, 4))
    names = ["S1"]
    parents: dict[str, tuple[str, ...]] = {"S1": ()}
    for t in range(1, steps + 1):
        names += [f"D{t}", f"S{t + 1}"]
        parents[f"D{t}"] = (f"S{t}",)
        parents[f"S{t + 1}"] = (f"S{t}", f"D{t}")
    last = f"S{steps + 1}"
    choices: list[list[tuple[str, ...]]] = [
        [(last,)],
        [(f"S{steps}", last)],
        [(f"S{t}",) for t in range(2, steps + 2)],
    ]
    groups = choices[int(rng.integers(3))]
    sizes = _sizes(rng, names, 3 if steps == 2 else 2)
    decisions = [f"D{t}" for t in range(1, steps + 1)]
    model = filled(rng, sizes, parents, decisions, groups, policy)
    assert recall(model)
    return model


def branches(rng: np.random.Generator, policy: str = "random") -> Model:
    """D0, then D1 and D2, which see its effect X and not each other; each has its own utility."""
    names = ["S", "D0", "X", "D1", "D2", "Y1", "Y2"]
    sizes = dict.fromkeys(names, 2) | {str(rng.choice(names)): 3}
    parents = {"S": (), "D0": ("S",), "X": ("S", "D0"), "D1": ("X",), "D2": ("X",)}
    parents |= {"Y1": ("D1", "X"), "Y2": ("X", "D2")}
    model = filled(rng, sizes, parents, ["D0", "D1", "D2"], [("Y1",), ("Y2",)], policy)
    assert recall(model)
    # As a joint target, Y1 and Y2 make D1 and D2 rely on each other.
    assert not has_sufficient_recall(parents, model.decisions, [("Y1", "Y2")])
    return model


def idle_decision(rng: np.random.Generator, policy: str = "random") -> Model:
    """D1 acts on the target; E comes between and influences a side effect Z only; F nothing."""
    names = ["S", "D1", "X", "E", "Z", "F", "T"]
    sizes = dict.fromkeys(names, 2) | {str(rng.choice(names)): 3}
    parents = {"S": (), "D1": ("S",), "X": ("D1", "S"), "E": ("X",), "Z": ("E", "S")}
    parents |= {"F": ("S",), "T": ("X",)}
    model = filled(rng, sizes, parents, ["F", "D1", "E"], [("T",)], policy)
    assert recall(model)
    return model


# (iv) no sufficient recall; decisions binary, at most two contexts each


def forgetful(rng: np.random.Generator, policy: str = "random") -> Model:
    """As Figure 2: D2 sees the new observation and has forgotten what D1 saw and did."""
    names = ["S1", "O1", "D1", "S2", "O2", "D2", "T"]
    sizes = dict.fromkeys(names, 2) | {"S2": 3, "T": int(rng.integers(2, 4))}
    parents = {"S1": (), "O1": ("S1",), "D1": ("O1",), "S2": ("S1", "D1"), "O2": ("S2",)}
    parents |= {"D2": ("O2",), "T": ("S2", "D2")}
    model = filled(rng, sizes, parents, ["D1", "D2"], [("T",)], policy)
    assert not recall(model)
    return model


def team(rng: np.random.Generator, policy: str = "random") -> Model:
    """Two decisions with a private signal each (one of them perhaps blind), and a joint outcome."""
    names = ["S", "O1", "O2", "D1", "D2", "T"]
    sizes = dict.fromkeys(names, 2) | {"S": 3, "T": int(rng.integers(2, 4))}
    blind = rng.random() < 0.3
    parents = {"S": (), "O1": ("S",), "O2": ("S",), "D1": ("O1",), "D2": () if blind else ("O2",)}
    parents["T"] = ("D1", "D2", "S")
    model = filled(rng, sizes, parents, ["D1", "D2"], [("T",)], policy)
    assert not recall(model)
    return model


SUFFICIENT = (one_decision, perfect_recall, chain, branches, idle_decision)
INSUFFICIENT = (forgetful, team)
