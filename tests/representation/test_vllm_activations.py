"""Files in the format of a vLLM server give the rows of a capture, and damaged ones none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidFileError, InvalidParameterError

pytest.importorskip("transformers")

import torch
from representation.tiny import ANSWER, CORRIDOR, REASONING, ROOM, sample
from safetensors.torch import load_file, save_file

from goalmeter.organisms.lessons import tokenizer as organism_tokenizer
from goalmeter.representation import activations
from goalmeter.representation.capture import capture
from goalmeter.representation.vllm_activations import Extraction, from_vllm

PLACES = ["pre/end", "post/end"]


def decisions(network: Any) -> list[Any]:
    return [
        sample(network, picture, answer=answer, step=step)
        for step, (picture, answer) in enumerate(
            [(ROOM, REASONING + ANSWER), (CORRIDOR, ANSWER), (CORRIDOR, REASONING + ANSWER)]
        )
    ]


@pytest.fixture
def written(networks: dict[str, Any], tmp_path: Path) -> tuple[Any, list[Any], Extraction]:
    """As a server writes them: a request a file, named by no order of ours."""
    network = networks["llama"]
    samples = decisions(network)
    folder = tmp_path / "server"
    folder.mkdir()
    for number, taken in enumerate(samples):
        streams = network.streams(taken.ids, [0, 1, 2])
        save_file(
            {
                "token_ids": torch.tensor(taken.ids),
                "hidden_states": torch.stack([streams[0], streams[1], streams[2]], dim=1),
            },
            folder / f"cmpl-{9 - number}.safetensors",
        )
    said = Extraction(folder, "a server", "abc", 2, (2, 0, 1), network.width, "float32")
    return network, samples, said


def test_rows_are_those_of_a_capture(
    written: tuple[Any, list[Any], Extraction], tmp_path: Path
) -> None:
    network, samples, said = written
    words = network.local.tokenizer
    told: list[str] = []
    read = from_vllm(
        said,
        samples,
        words,
        tmp_path / "a",
        layers=[2, 0],
        positions=PLACES,
        progress=told.append,
    )
    ours = capture(samples, network, tmp_path / "b", layers=[0, 2], positions=PLACES)
    assert read.rows == ours.rows
    for position in PLACES:
        np.testing.assert_array_equal(read.tokens(position), ours.tokens(position))
        for layer in (0, 2):
            np.testing.assert_allclose(
                read.at(layer, position), ours.at(layer, position), rtol=1e-4, atol=1e-4
            )
    assert (read.manifest["backend"], read.manifest["revision"]) == ("vllm", "abc")
    assert "on disk" in told[0] and "3 of 3" in told[-1]


def test_files_can_be_taken_a_part_at_a_time(
    written: tuple[Any, list[Any], Extraction], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken needs no file any more."""
    network, samples, said = written
    monkeypatch.setattr(activations, "ROWS_OF_A_SHARD", 2)
    late = Path(said.folder) / "cmpl-7.safetensors"
    data = late.read_bytes()
    late.unlink()

    def read() -> Any:
        words, options = network.local.tokenizer, {"layers": [1], "positions": ["pre/end"]}
        return from_vllm(said, samples, words, tmp_path / "a", **options)

    with pytest.raises(InvalidFileError, match="the tokens of 1 of 1 decisions, first step 2"):
        read()
    for path in Path(said.folder).iterdir():
        path.unlink()
    late.write_bytes(data)
    assert read().at(1, "pre/end").shape == (3, 3, network.width)


def damaged(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = folder / "cmpl-8.safetensors"
    arrays = change(load_file(path))
    save_file({name: array.contiguous() for name, array in arrays.items()}, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # With prefix caching the states of the first tokens are missing.
        (
            lambda a: a | {"hidden_states": a["hidden_states"][16:]},
            r"expected \d+ tokens for step 1",
        ),
        (
            lambda a: a | {"hidden_states": a["hidden_states"][:, :2]},
            "expected 3 layers for step 1",
        ),
        (
            lambda a: a | {"hidden_states": a["hidden_states"][..., :9]},
            "expected 32 numbers a token",
        ),
        (
            lambda a: a | {"hidden_states": a["hidden_states"][:, 0]},
            r"expected \d+ tokens for step",
        ),
        (
            lambda a: a | {"hidden_states": a["hidden_states"].half()},
            "type torch.float16, expected f",
        ),
        (lambda a: a | {"hidden_states": a["hidden_states"] * np.nan}, "are no finite numbers"),
        (
            lambda a: a | {"hidden_states": a["hidden_states"].roll(1, dims=0)},
            "two embeddings of one token, so its states are those of another request",
        ),
        (
            lambda a: a | {"token_ids": a["token_ids"][:-1]},
            "the tokens of 1 of 3 decisions, first s",
        ),
        (
            lambda a: a | {"token_ids": a["token_ids"].flip(0)},
            "send the recorded tokens themselves",
        ),
        (lambda a: {"token_ids": a["token_ids"]}, "or has no hidden_states; wait for the server"),
    ],
)
def test_damaged_files_are_refused(
    written: tuple[Any, list[Any], Extraction], tmp_path: Path, change: Any, message: str
) -> None:
    network, samples, said = written
    damaged(Path(said.folder), change)
    with pytest.raises(InvalidFileError, match=message) as refusal:
        from_vllm(
            said, samples, network.local.tokenizer, tmp_path / "a", layers=[1], positions=PLACES
        )
    assert "\n" not in str(refusal.value)
    assert not list((tmp_path / "a").glob("shard-*"))


def test_what_else_is_refused(written: tuple[Any, list[Any], Extraction], tmp_path: Path) -> None:
    network, samples, said = written
    words = network.local.tokenizer

    def read(said: Extraction, layers: list[int], words: Any = words) -> None:
        from_vllm(said, samples, words, tmp_path / "a", layers=layers, positions=["pre/end"])

    with pytest.raises(
        InvalidParameterError, match=r"layers are \[3\], expected some of 0 to 2: a s"
    ):
        read(said, [3])
    with pytest.raises(
        InvalidParameterError, match=r"layers are \[1\], expected some of \[0, 2\], w"
    ):
        read(replace(said, layers=(2, 0)), [1])
    with pytest.raises(InvalidParameterError, match=r"layers are \(2, 0, 1\), .* 0 to 1: "):
        replace(said, blocks=1)
    with pytest.raises(InvalidParameterError, match=r"number type 'float23' does not exist, exp"):
        replace(said, dtype="float23")
    with pytest.raises(InvalidParameterError, match=r"layers are '1', expected a list of integers"):
        read(said, "1")  # type: ignore[arg-type]
    with pytest.raises(InvalidFileError, match="it is not the tokenizer of the model that"):
        read(said, [1], organism_tokenizer())
    cut = Path(said.folder) / "cmpl-7.safetensors"
    cut.write_bytes(cut.read_bytes()[:-10])
    with pytest.raises(InvalidFileError, match=r"cmpl-7.safetensors is damaged, still being writt"):
        read(said, [1])
