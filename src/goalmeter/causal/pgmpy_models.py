"""Networks from and to the model objects of pgmpy (1.x, `DiscreteBayesianNetwork`).

A model is read by what it offers, so reading one does not import pgmpy; making one does. States
and their types stay as they are. pgmpy takes columns that miss 1 by up to 0.01; here the rule of
files holds (`model_files`): up to 1e-3 they are divided by their sum, more is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidModelError, require
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.mechanism import Value
from goalmeter.causal.model_files import NO_NAMES, NetworkParts, within_rounding

if TYPE_CHECKING:
    from goalmeter.causal.network import CausalBayesianNetwork


def read_pgmpy(model: Any) -> NetworkParts:
    """What a pgmpy `DiscreteBayesianNetwork` says of a network.

    Variables keep pgmpy's order; names that are no text (pgmpy allows numbers) become text.

    Args:
        model: the model, with a `TabularCPD` for each variable.
    """
    if not all(hasattr(model, part) for part in ("nodes", "get_cpds", "get_parents")):
        raise InvalidModelError(
            f"the model is a {type(model).__name__}, expected a pgmpy DiscreteBayesianNetwork"
        )
    nodes = list(model.nodes())
    # pgmpy allows any hashable name; here and in files names are text.
    names = {node: str(node) for node in nodes}
    if len(set(names.values())) < len(nodes):
        raise InvalidModelError("two variables have names that read the same, expected one each")
    cpds = {node: _cpd(model, node) for node in nodes}
    domains = {node: _states(cpds[node], node) for node in nodes}
    parents = {node: list(cpds[node].variables)[1:] for node in nodes}
    for node in nodes:
        if set(parents[node]) != set(model.get_parents(node)):
            raise InvalidModelError(
                f"the CPD of {names[node]!r} is given {listed(parents[node]) or 'nothing'}, "
                f"expected the parents in the model, {listed(model.get_parents(node)) or 'none'}"
            )
    name = str(getattr(model, "name", None) or "")
    return NetworkParts(
        {names[node]: domains[node] for node in nodes},
        {names[node]: [names[parent] for parent in parents[node]] for node in nodes},
        {names[node]: _table(cpds[node], names[node], domains) for node in nodes},
        name="" if name in NO_NAMES else name,
    )


def to_pgmpy(network: CausalBayesianNetwork) -> Any:
    """The same network as a pgmpy `DiscreteBayesianNetwork`, states under their names."""
    feature = "Making a pgmpy model"
    models = require("pgmpy.models", extra="pgmpy", feature=feature)
    factors = require("pgmpy.factors.discrete", extra="pgmpy", feature=feature)
    model = models.DiscreteBayesianNetwork()
    model.name = network.name
    model.add_nodes_from(network.variables)
    model.add_edges_from(network.edges())
    for x in network.variables:
        parents = network.parents(x)
        model.add_cpds(
            factors.TabularCPD(
                x,
                network.size(x),
                # pgmpy puts own states in rows and values of the parents in columns.
                network.cpd(x).reshape(-1, network.size(x)).T,
                evidence=list(parents) or None,
                evidence_card=[network.size(parent) for parent in parents] or None,
                state_names={v: list(network.domain(v)) for v in (x, *parents)},
            )
        )
    return model


def _cpd(model: Any, node: Any) -> Any:
    cpd = model.get_cpds(node)
    if cpd is None:
        raise InvalidModelError(
            f"{str(node)!r} has no CPD, expected one for each variable; add it with "
            f"model.add_cpds, or fit the model"
        )
    if not all(hasattr(cpd, part) for part in ("variables", "values", "state_names")):
        raise InvalidModelError(
            f"the CPD of {str(node)!r} is a {type(cpd).__name__}, expected a TabularCPD: every "
            f"variable needs finitely many states"
        )
    return cpd


def _states(cpd: Any, node: Any) -> list[Value]:
    """The states of a variable, as its own CPD lists them."""
    # pgmpy keeps NumPy's scalars where states come from data.
    return [s.item() if isinstance(s, np.generic) else s for s in cpd.state_names[node]]


def _table(cpd: Any, x: str, domains: dict[Any, list[Value]]) -> FloatArray:
    """The CPD as [*sizes of parents, own size], states in the order of each one's own CPD."""
    values = np.asarray(cpd.values, dtype=np.float64)
    for axis, node in enumerate(cpd.variables):
        named, wanted = _states(cpd, node), domains[node]
        if named != wanted:
            if len(named) != len(wanted) or set(named) != set(wanted):
                raise InvalidModelError(
                    f"the CPD of {x!r} names the states {listed(named)} of {str(node)!r}, expected "
                    f"those of its own CPD, {listed(wanted)}; give state_names to both"
                )
            values = values.take([named.index(state) for state in wanted], axis=axis)
    table = np.moveaxis(values, 0, -1)

    def complain(row: int, problem: str) -> InvalidModelError:
        places = np.unravel_index(row, table.shape[:-1]) if table.ndim > 1 else ()
        pairs = [
            f"{node} = {domains[node][i]}"
            for node, i in zip(cpd.variables[1:], places, strict=True)
        ]
        where = f" given {', '.join(pairs)}" if pairs else ""
        return InvalidModelError(f"the CPD of {x!r}{where} {problem}")

    rows = within_rounding(table.reshape(-1, table.shape[-1]), complain)
    return rows.reshape(table.shape)
