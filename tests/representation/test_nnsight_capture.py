"""nnsight reads the same residual stream, bit for bit."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

installed = importlib.util.find_spec("nnsight") is not None

# In a process of its own: importing nnsight changes every object of a process.
SCRIPT = """
import sys
from functools import partial
from pathlib import Path

import torch
from oracles.nnsight_capture import read_by_nnsight
from representation.tiny import ANSWER, CORRIDOR, REASONING, ROOM, sample, saved_networks

from goalmeter.representation.use.interventions import answer_all
from goalmeter.representation.use.interventions import knock_out

for name, network in saved_networks(Path(sys.argv[1])).items():
    samples = [sample(network, ROOM), sample(network, CORRIDOR, answer=ANSWER)]
    rows, layers = [each.ids for each in samples], [0, 1, len(network.blocks)]
    changed = [knock_out([40, 41], [1])]
    before = answer_all(network, samples[:1], changed, tokens=4)
    ours, theirs = {}, {}
    with network.changed({layer: partial(ours.__setitem__, layer) for layer in layers}):
        network.forward(rows)
    read_by_nnsight(network, rows, layers, theirs.__setitem__)
    for layer in layers:
        assert torch.equal(ours[layer], theirs[layer]) and torch.isfinite(ours[layer]).all()
    # Nothing of it is left in the model, which hooks and signatures would stumble over.
    assert answer_all(network, samples[:1], changed, tokens=4) == before
    assert not any("forward" in module.__dict__ for module in network.local.model.modules())
    print(name)
"""


@pytest.mark.slow
@pytest.mark.skipif(not installed, reason="nnsight is not installed")
def test_both_backends_read_the_same(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    script = f"import sys; sys.path.insert(0, {str(tests)!r})\n{SCRIPT}"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["llama", "gpt-oss", "gpt2", "qwen"]
