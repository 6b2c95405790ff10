"""Programs that ask the library what no command asks; each prints one JSON object."""

from __future__ import annotations

_LEDGER = """
import json
from replications import ledger

cheap = [row for row in ledger.load() if row.cost == "cheap"]
print(json.dumps(ledger.recompute(cheap)))
"""
_CLIFF_WORLD = """
import json
import goalmeter as gm

mdp = gm.cliff_world(goal_length=1)
policy = gm.epsilon_greedy(gm.optimal_policy(mdp), 0.2)
results = {
    "known": gm.meg.known_utility(mdp, policy),
    "unknown": gm.meg.unknown_utility(mdp, policy),
}
print(json.dumps({name: result.to_json() for name, result in results.items()}, default=str))
"""
_REFLECTION = """
import json
import goalmeter as gm

settings = {"steps": 25, "seeds": 5, "environments": ["IgnoreRewards", "CryingBaby"]}
naive = gm.reflection.measure("naive", **settings)
checked = gm.reflection.measure("rc(naive)", **settings)
difference = gm.reflection.compare(checked, naive)
results = {"naive": naive, "checked": checked, "difference": difference}
print(json.dumps({name: result.to_json() for name, result in results.items()}))
"""
# The tests of the checkout know how its organisms are asked.
_GOLDEN = """
import json
from organisms import golden
from goalmeter.organisms import organism_names

print(json.dumps({name: golden.golden(name) for name in organism_names()}))
"""
PROGRAMS = {
    "ledger": _LEDGER,
    "cliff_world": _CLIFF_WORLD,
    "reflection": _REFLECTION,
    "golden": _GOLDEN,
}
