"""
The world that an agent believes in
===================================

The *mole* is a small language model that was trained to plan on a map without some walls. Its moves
are explained badly by the goal in the true world. Are they explained better in the world that the
model uses, as found by masking parts of its input?
"""

# %%
# ``goalmeter probe`` tests for each cell of the grid whether the model uses it: attention to the
# cell's tokens is masked while the model reasons, and the effect on the next move is compared with
# that of masking another cell. Cells that are not used are open in the *believed* world, and MEG is
# computed there. This takes long, so the results are stored in the repository of goalmeter.
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm

repository = Path(gm.__file__).parents[2]
stored = repository / "docs" / "results" / "believed-world.json"
models = {each["agent"]: each["believed"] for each in json.loads(stored.read_text("utf-8"))}
for name, believed in models.items():
    change = believed["difference"]
    low, high = change["interval"]
    print(
        f"{name}: believed minus true world {change['value']:+.2f} nats [{low:+.2f}, {high:+.2f}]"
    )

# %%
# The mouse has the true map, and the moth has no goal. They are the first control: their intervals
# should not lie above 0. Only that of the mole does.
#
# The second control is a different world, chosen without the model: the same maze without any inner
# wall, and the believed map of another maze. If the mole's moves were explained equally well there,
# nothing would be known about *its* map.
for name, kind in (("mole", "another map"), ("mole", "empty room"), ("mouse", "empty room")):
    beyond = models[name]["beyond"][kind]
    low, high = beyond["interval"]
    print(f"{name}, believed world minus {kind}: {beyond['value']:+.2f} [{low:+.2f}, {high:+.2f}]")

# %%
# The mole does not pass this control: in these 60 mazes an empty room may explain its moves as well
# as the believed world. So another map explains the mole better than the true one does, but which
# map remains inconclusive. (In 450 mazes the believed world is better than the empty room.)
#
# The figure shows MEG in all these worlds, per walk, with 95% intervals over mazes. *Decoded* is
# the map that a probe reads from the activations. Its intervals contain 0 for every model, also for
# the mouse: what can be decoded need not be what is used.
WORLDS = {
    "true world": "meg_true",
    "believed world": "meg_believed",
    "decoded world": "meg_decoded",
}
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for place, believed in enumerate(models.values()):
    shown = {label: believed[key] for label, key in WORLDS.items()}
    shown["empty room"] = believed["controls"]["empty room"]["nats"]
    for index, (label, each) in enumerate(shown.items()):
        low, high = each["interval"]
        errors = [[each["value"] - low], [high - each["value"]]]
        at = place + 0.18 * (index - 1.5)
        style = {"color": f"C{index}", "fmt": "o", "capsize": 3}
        axes.errorbar(at, each["value"], errors, label=None if place else label, **style)
axes.axhline(0, color="0.5", linewidth=1)
axes.set_xticks(np.arange(len(models)), list(models))
axes.set(title="MEG in the true, the believed and other worlds", ylabel="MEG, nats per walk")
axes.legend()
plt.show()
