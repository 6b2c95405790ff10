"""Captured rows are the decisions that they say, and a capture goes on where it was broken off."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidFileError, InvalidParameterError

pytest.importorskip("transformers")

from representation.tiny import ANSWER, ARCHITECTURES, REASONING, sample

from goalmeter.representation import activations
from goalmeter.representation.activations import Activations, capture
from goalmeter.representation.network import Network

PLACES = ["pre/end", "post/end", "post/answer"]
# Answers of different lengths; the third has no reasoning, so it lacks a position.
ANSWERS = [REASONING + ANSWER, f"Hm. {REASONING}{ANSWER}", ANSWER, f"No. No. {REASONING}{ANSWER}"]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "ROWS_OF_A_SHARD", 3)


def decisions(network: Network) -> list[Any]:
    return [sample(network, answer=answer, step=step) for step, answer in enumerate(ANSWERS)]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rows_are_those_of_plain_transformers(
    networks: dict[str, Any], tmp_path: Path, name: str
) -> None:
    """Each row is computed alone by transformers, and cut out at the position by hand."""
    import torch

    network = networks[name]
    samples = decisions(network)
    kept_rows = capture(samples, network, tmp_path / "a", layers=[1, 0], positions=PLACES)
    assert kept_rows.manifest["layers"] == [0, 1]
    assert kept_rows.manifest["positions"] == {"pre/end": 3, "post/end": 3, "post/answer": 1}
    assert [row.digest for row in kept_rows.rows] == [decision.digest for decision in samples]
    assert [row.lacks for row in kept_rows.rows] == [(), (), ("post/end",), ()]
    for layer in (0, 1):
        before, ends = kept_rows.at(layer, "pre/end"), kept_rows.at(layer, "post/end")
        assert before.shape == ends.shape == (4, 3, network.width) and before.dtype == np.float32
        assert np.isnan(ends[2]).all() and not np.isnan(ends[[0, 1, 3]]).any()
        for row, decision in enumerate(samples):
            with torch.inference_mode():
                ids = torch.tensor([decision.ids])
                states = network.local.model(ids, output_hidden_states=True).hidden_states
            last = len(decision.prompt)
            expected = states[layer][0, last - 3 : last].numpy()
            np.testing.assert_allclose(before[row], expected, rtol=1e-3, atol=1e-4)
    assert kept_rows.tokens("post/end")[2].tolist() == [-1, -1, -1]
    marker = kept_rows.tokens("post/end")[0].tolist()
    assert ">" in network.local.tokenizer.decode(marker)
    assert kept_rows.manifest["padded_against_single"] < 1e-3
    assert kept_rows.manifest["attention"] and kept_rows.manifest["revision"] == network.revision


def test_an_interrupted_capture_goes_on(
    networks: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shards that are there are not made again; the result is that of one go."""
    network, folder = networks["llama"], tmp_path / "a"
    samples = decisions(network)
    whole = capture(samples, network, tmp_path / "whole", layers=[1], positions=PLACES)
    written = activations.write_bytes

    def stops(path: Path, data: bytes) -> None:
        # Its checksum is written first, and overwritten afterwards.
        if path.name != "shard-00000.safetensors":
            raise KeyboardInterrupt
        written(path, data)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(activations, "write_bytes", stops)
        capture(samples, network, folder, layers=[1], positions=PLACES)
    with pytest.raises(InvalidFileError, match="lacks 1 of 2 shards, such as shard-00001"):
        Activations.open(folder).at(1, "pre/end")
    before = (folder / "shard-00000.safetensors").stat().st_mtime_ns
    again = capture(samples, network, folder, layers=[1], positions=PLACES)
    assert (folder / "shard-00000.safetensors").stat().st_mtime_ns == before
    np.testing.assert_array_equal(again.at(1, "pre/end"), whole.at(1, "pre/end"))
    assert again.rows == whole.rows


def test_another_capture_is_not_continued(networks: dict[str, Any], tmp_path: Path) -> None:
    network = networks["llama"]
    samples = decisions(network)
    capture(samples, network, tmp_path, layers=[1], positions=["pre/end"])
    with pytest.raises(InvalidFileError, match=r"capture whose layers is \[1\], expected \[0\]"):
        capture(samples, network, tmp_path, layers=[0], positions=["pre/end"])
    with pytest.raises(InvalidFileError, match="capture whose model is"):
        capture(samples, networks["qwen"], tmp_path, layers=[1], positions=["pre/end"])
    with pytest.raises(InvalidFileError, match="contains decisions of another run"):
        capture(samples[::-1], network, tmp_path, layers=[1], positions=["pre/end"])


def test_what_is_refused(
    networks: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = networks["llama"]
    samples = decisions(network)
    with pytest.raises(InvalidParameterError, match="none of 1 decisions has the position 'post/e"):
        capture(samples[2:3], network, tmp_path, layers=[1], positions=["post/end"])
    with pytest.raises(InvalidParameterError, match="expected numbers from 0 to 2"):
        capture(samples, network, tmp_path, layers=[7], positions=["pre/end"])
    with monkeypatch.context() as patch:
        usage = type("Usage", (), {"free": 10})
        patch.setattr(activations.shutil, "disk_usage", lambda path: usage)
        with pytest.raises(InvalidFileError, match=r"need [\d.]+ kB, but .* has 10 B free, \d"):
            capture(samples, network, tmp_path / "b", layers=[1], positions=["pre/end"])
    kept_rows = capture(samples, network, tmp_path / "c", layers=[1], positions=["pre/end"])
    with pytest.raises(InvalidParameterError, match="no activations at layer 2, expected one of 1"):
        kept_rows.at(2, "pre/end")
    with pytest.raises(InvalidParameterError, match="no activations at position 'post/end'"):
        kept_rows.at(1, "post/end")


def spoilt(network: Network, weights: str, row: int | None = None) -> Network:
    """A copy of a network with NaN in some of its weights."""
    local = copy.copy(network.local)
    local.model = copy.deepcopy(local.model)
    weight = local.model.get_parameter(weights)
    weight.data = weight.data.clone()  # which may be tied to others
    weight.data[slice(None) if row is None else row] = float("nan")
    return Network("spoilt", local)


def test_a_decision_whose_numbers_are_not_finite_is_named(
    networks: dict[str, Any], tmp_path: Path
) -> None:
    """It is neither the shortest nor the longest, which are looked at first."""
    samples = decisions(networks["llama"])
    (token, *_) = set(samples[1].ids) - {token for row in (0, 2, 3) for token in samples[row].ids}
    assert len(samples[2].ids) < len(samples[1].ids) < len(samples[3].ids)
    network = spoilt(networks["llama"], "model.embed_tokens.weight", token)
    with pytest.raises(InvalidFileError, match="first at layer 0, for step 1 of 'a walk'"):
        capture(samples, network, tmp_path, layers=[1], positions=["post/end"])
    assert not list(tmp_path.glob("shard-*"))


def test_a_network_that_reads_fillings_is_refused(networks: dict[str, Any], tmp_path: Path) -> None:
    """As libraries do that fill up on the left and count positions from there."""

    class FilledOnTheLeft(Network):
        def forward(self, rows: Any) -> Any:
            longest = max(map(len, rows))
            return super().forward([[0] * (longest - len(row)) + list(row) for row in rows])

    network = FilledOnTheLeft("left", networks["llama"].local)
    with pytest.raises(InvalidFileError, match="a row in a batch differ from those of the same"):
        capture(decisions(network), network, tmp_path, layers=[1], positions=["pre/end"])


def test_a_damaged_shard_is_refused_until_it_is_deleted(
    networks: dict[str, Any], tmp_path: Path
) -> None:
    """Other signs are finite numbers too: only the checksum tells."""
    network = networks["llama"]
    samples = decisions(network)

    def again() -> Activations:
        return capture(samples, network, tmp_path, layers=[1], positions=["pre/end"])

    whole = again().at(1, "pre/end")
    shard = tmp_path / "shard-00001.safetensors"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 0x80  # the sign of the last number, or of the last token
    shard.write_bytes(data)
    message = r"shard-00001.safetensors is corrupt: its SHA-256 .*; delete this file and capture"
    with pytest.raises(InvalidFileError, match=message):
        Activations.open(tmp_path)
    with pytest.raises(InvalidFileError, match=message):
        again()
    shard.unlink()
    np.testing.assert_array_equal(again().at(1, "pre/end"), whole)
    np.testing.assert_array_equal(Activations.open(tmp_path).at(1, "pre/end"), whole)


@pytest.mark.parametrize("damage", [{"shards": 10**9}, {"format": 1}, {"layers": None}])
def test_a_damaged_manifest(
    networks: dict[str, Any], tmp_path: Path, damage: dict[str, Any]
) -> None:
    network = networks["llama"]
    capture(decisions(network), network, tmp_path, layers=[1], positions=["pre/end"])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | damage))
    (name,) = damage
    with pytest.raises(InvalidFileError, match=f"is not a manifest .*: its {name} is"):
        Activations.open(tmp_path)
    with pytest.raises(InvalidFileError, match="contains no activations"):
        Activations.open(tmp_path / "nowhere")
