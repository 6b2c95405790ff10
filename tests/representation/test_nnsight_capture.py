"""nnsight reads the same residual stream, bit for bit."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from goalmeter._errors import MissingExtraError

pytest.importorskip("transformers")

installed = importlib.util.find_spec("nnsight") is not None

# In a process of its own: importing nnsight changes every object of a process.
SCRIPT = """
import sys
from pathlib import Path

import numpy as np
from representation.tiny import ANSWER, CORRIDOR, REASONING, ROOM, sample, saved_networks

from goalmeter.representation.capture import capture
from goalmeter.representation.use.answers import answer_all
from goalmeter.representation.use.interventions import knock_out

folder = Path(sys.argv[1])
for name, network in saved_networks(folder).items():
    samples = [
        sample(network, ROOM), sample(network, CORRIDOR, answer=ANSWER), sample(network, CORRIDOR)
    ]
    last = len(network.blocks)
    options = {"layers": [0, 1, last], "positions": ["pre/end", "post/end"]}
    changed = [knock_out([40, 41], [1])]
    before = answer_all(network, samples[:1], changed, tokens=4)
    ours = capture(samples, network, folder / f"{name}-hooks", **options)
    theirs = capture(samples, network, folder / f"{name}-nnsight", backend="nnsight", **options)
    assert theirs.manifest["backend"] == "nnsight" and theirs.rows == ours.rows
    for layer in options["layers"]:
        for position in options["positions"]:
            a, b = (each.at(layer, position) for each in (ours, theirs))
            np.testing.assert_array_equal(a, b)
            assert np.isfinite(a[0]).all()
    # Nothing of it is left in the model, which hooks and signatures would stumble over.
    assert answer_all(network, samples[:1], changed, tokens=4) == before
    assert not any("forward" in module.__dict__ for module in network.local.model.modules())
    print(name)
"""


@pytest.mark.skipif(not installed, reason="nnsight is not installed")
def test_both_backends_read_the_same(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    script = f"import sys; sys.path.insert(0, {str(tests)!r})\n{SCRIPT}"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["llama", "gpt-oss", "gpt2", "qwen"]


@pytest.mark.skipif(installed, reason="nnsight is installed")
def test_without_nnsight_it_says_so(networks: dict[str, object], tmp_path: Path) -> None:
    from representation.tiny import sample

    from goalmeter.representation.capture import capture

    network = networks["llama"]
    with pytest.raises(MissingExtraError, match=r"needs the package 'nnsight', .*\[nnsight\]"):
        capture(
            [sample(network)],
            network,
            tmp_path,
            layers=[1],
            positions=["pre/end"],
            backend="nnsight",
        )
