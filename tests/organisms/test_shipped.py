"""The weights that come with the package: they load alone, and answer as they did when shipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from organisms.golden import FILE, asked

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.local_models import LocalModel
from goalmeter.navigation.prompts import understood
from goalmeter.organisms import kinds, organism_names
from goalmeter.organisms.kinds import MANIFEST, check, weights_of
from goalmeter.organisms.network import SETTINGS

SRC = Path(__file__).resolve().parents[2] / "src"
GOLDEN = json.loads(FILE.read_text(encoding="utf-8"))
FILES = {
    *("README.md", "chat_template.jinja", "config.json", "generation_config.json"),
    *("model.safetensors", "tokenizer.json", "tokenizer_config.json"),
}
LOAD = """
import json, socket

def refuse(*args, **options):
    raise AssertionError("the network was asked")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from transformers import AutoModelForCausalLM, AutoTokenizer
from goalmeter.organisms import organism_names
from goalmeter.organisms.kinds import weights_of

out = {}
for name in organism_names():
    folder = weights_of(name)
    words = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    types = {str(weights.dtype) for weights in model.parameters()}
    out[name] = [type(model).__name__, sorted(types), len(words) == model.config.vocab_size]
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def models() -> dict[str, LocalModel]:
    return {name: LocalModel(weights_of(name), device="cpu") for name in organism_names()}


@pytest.mark.slow
def test_all_four_load_in_a_fresh_process_without_a_network(tmp_path: Path) -> None:
    # No home either: nothing can come from a cache.
    env = os.environ | {"PYTHONPATH": str(SRC), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
    env |= {"HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = ["LlamaForCausalLM", ["torch.float32"], True]
    assert json.loads(done.stdout) == dict.fromkeys(organism_names(), expected)


@pytest.mark.parametrize("name", organism_names())
def test_a_folder_has_what_from_pretrained_reads_and_a_card(name: str) -> None:
    folder = weights_of(name)
    # Nothing that has to be unpickled, no checkpoint, no path of somebody's machine.
    assert {file.name for file in folder.iterdir()} - {SETTINGS, MANIFEST} == FILES
    # Those that were written with a manifest are the files that it lists.
    assert check(folder) == (folder / MANIFEST).exists()
    if (folder / SETTINGS).exists():
        assert "/" not in (folder / SETTINGS).read_text(encoding="utf-8")
    card = (folder / "README.md").read_text(encoding="utf-8")
    heads = [line.removeprefix("## ") for line in card.splitlines() if line.startswith("## ")]
    assert heads == ["Data", "Recipe", "Measured", "Limits"]
    assert card.split("\n---\n")[1].strip().startswith(f"# The {name}\n")
    assert f"goalmeter train-organism {name}" in card and f"goalmeter/{name}" in card


@pytest.mark.parametrize(
    "name", ["mouse", *(pytest.param(n, marks=pytest.mark.slow) for n in organism_names()[1:])]
)
def test_answers_are_those_that_were_given_when_it_was_shipped(
    models: dict[str, LocalModel], name: str
) -> None:
    texts = [golden["prompt"] for golden in GOLDEN[name]]
    assert len(texts) >= 8 and len({text.split()[1] for text in texts}) == 4
    replies = asked(models[name], texts, temperature=0.0)
    for golden, reply in zip(GOLDEN[name], replies, strict=True):
        assert reply.text == golden["answer"]
        assert understood(reply.text).action is not None


@pytest.mark.parametrize("name", ["mouse"])
def test_an_answer_does_not_depend_on_what_else_is_asked(
    models: dict[str, LocalModel], name: str
) -> None:
    texts = [golden["prompt"] for golden in GOLDEN[name]][:5]
    together = asked(models[name], texts, temperature=0.7, top_p=0.95)
    # The first has the seed that it has alone, and prompts of other lengths beside it.
    (alone,) = asked(models[name], texts[:1], temperature=0.7, top_p=0.95)
    assert alone.ids == together[0].ids and alone.ended
    (again,) = asked(models[name], texts[:1], temperature=0.7, top_p=0.95)
    assert again.ids == alone.ids
    assert len({len(text.split()) for text in texts}) > 1


def test_weights_that_are_missing_say_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "_FOLDER", tmp_path)
    with pytest.raises(InvalidFileError, match=r"mole are missing in .*train-organism mole --out"):
        weights_of("mole")
    with pytest.raises(InvalidParameterError, match="there is no organism 'rat'"):
        weights_of("rat")
