"""Training: the loss by its definition, a small organism from end to end, and going on."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


from goalmeter._errors import (  # noqa: E402
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
)
from goalmeter.agents.local_models import LocalModel, Sampling  # noqa: E402
from goalmeter.gridworld import State  # noqa: E402
from goalmeter.gridworld.conversions import compact  # noqa: E402
from goalmeter.gridworld.generators import maze  # noqa: E402
from goalmeter.gridworld.world import ACTIONS  # noqa: E402
from goalmeter.navigation.prompts import understood  # noqa: E402
from goalmeter.organisms import organism, training  # noqa: E402
from goalmeter.organisms.lessons import (  # noqa: E402
    IDS,
    VOCABULARY,
    batch,
    syllabus,
)
from goalmeter.organisms.network import (  # noqa: E402
    CHECKPOINT,
    SETTINGS,
    new_network,
    with_vocabulary,
)
from goalmeter.organisms.training import (  # noqa: E402
    Settings,
    _has_bfloat16,
    loss_of,
    train,
)

TINY = Settings("moth", rounds=((6, 0.02),), words=200, sizes=(5,), keys=False)


def weights(folder: Path) -> dict[str, Any]:
    return dict(transformers.LlamaForCausalLM.from_pretrained(folder).state_dict())


def same(first: dict[str, Any], second: dict[str, Any], equal: Any = torch.equal) -> bool:
    return all(equal(first[name], value) for name, value in second.items())


@pytest.mark.parametrize("name", ["mouse", "moth"])
def test_the_loss_is_that_of_each_answer_read_by_itself(name: str) -> None:
    lessons = batch(organism(name), 3, kinds=syllabus([5, 7]), seed=0, words=1200)
    model = new_network(0)
    total, count = 0.0, 0
    ways = {IDS["".join(moves) or "-"] for n in range(5) for moves in combinations("LRUD", n)}
    precision = torch.autocast("cpu", torch.bfloat16, enabled=_has_bfloat16(model.device))
    with torch.no_grad(), precision:
        for lesson in lessons:
            for (question, answer), drawn in zip(lesson.questions, lesson.drawn, strict=True):
                ids = torch.tensor([[*lesson.map, *question, *answer]])
                logits = model(input_ids=ids).logits.float()[0, -len(answer) - 1 : -1]
                logprobs = logits.log_softmax(dim=1)
                for n, word in enumerate(answer):
                    # From the plan on each word counts as four, and one after ways as three.
                    searching = IDS["plan"] not in answer[: n + 1]
                    worth = (3 if n and answer[n - 1] in ways else 1) if searching else 4
                    could = drawn.get(n, {word: 1})
                    total -= worth * sum(p * float(logprobs[n, w]) for w, p in could.items())
                    count += worth
        assert len(lessons) > 1 and float(loss_of(model, lessons)) == pytest.approx(
            total / count, rel=2e-3
        )


@pytest.mark.slow
def test_a_small_organism_from_end_to_end(tmp_path: Path) -> None:
    settings = Settings("moth", rounds=((90, 0.03),), words=200, sizes=(5,), keys=False)
    folder = train(settings, tmp_path / "moth", device="cpu")
    assert {file.name for file in folder.iterdir()} >= {"model.safetensors", "tokenizer.json"}
    assert not (folder / CHECKPOINT).exists()
    model = LocalModel(folder)
    worlds = [maze(5, 1.0, seed).world for seed in range(24)]
    prompts = [
        model.prompt(
            model.ids([{"role": "user", "content": compact(world)}]),
            40,
            Sampling(seed=seed, temperature=0.7, top_p=0.95),
        )
        for seed, world in enumerate(worlds)
    ]
    answers = [understood(reply.text) for reply in model.answers(prompts)]
    # It says where it is, does what it planned, and mostly what is legal: of an untrained one, no
    # answer can be read.
    moth = organism("moth")
    planned = legal = 0
    for answer, world in zip(answers, worlds, strict=True):
        if answer.action is not None:
            where = f"{world.start.row},{world.start.column} {ACTIONS[answer.action]}"
            planned += answer.reasoning.endswith(f"plan {where}")
            legal += moth.intended(world, State(world.start))[answer.action] > 0
    assert planned >= 20 and legal >= 16
    lessons = batch(organism("moth"), 1, kinds=syllabus([5]), seed=1, words=900)
    with torch.no_grad():
        untrained = float(loss_of(new_network(0), lessons))
        learnt = float(loss_of(transformers.LlamaForCausalLM.from_pretrained(folder), lessons))
    assert learnt < 0.4 < 5 < untrained
    assert train(settings, folder) == folder  # over, so nothing is done


def test_more_words_change_nothing_of_the_known_ones() -> None:
    lessons = batch(organism("mouse"), 1, kinds=syllabus([5]), seed=0, words=400)
    ids = torch.tensor([list(lessons[0].map)])
    model = new_network(0)
    with torch.no_grad():
        before = model(input_ids=ids).logits
        large = with_vocabulary(model, len(VOCABULARY), seed=0)
        after = large(input_ids=ids).logits
    assert large.config.max_position_embeddings == 1024
    assert after.shape[-1] == len(VOCABULARY) > before.shape[-1]
    assert torch.equal(after[..., : before.shape[-1]], before)
    large_lessons = batch(organism("mouse"), 1, kinds=syllabus([15]), seed=0, words=700)
    assert loss_of(large, large_lessons).item() < 10


@pytest.mark.slow
def test_an_interrupted_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    straight = train(TINY, tmp_path / "straight", device="cpu")
    train(TINY, tmp_path / "broken", device="cpu", until=4)
    assert (tmp_path / "broken" / CHECKPOINT).exists()
    broken = train(TINY, tmp_path / "broken", device="cpu")
    assert same(weights(broken), weights(straight))


@pytest.mark.slow
def test_two_processes_train_the_same_weights_as_one(tmp_path: Path) -> None:
    settings = replace(TINY, name="mouse", rounds=((3, 0.02),))
    alone = train(settings, tmp_path / "alone", device="cpu")
    together = train(settings, tmp_path / "together", device="cpu", workers=2)
    assert same(weights(together), weights(alone))
    with pytest.raises(InvalidParameterError, match=r"workers is 3, expected 1 to 2"):
        train(settings, tmp_path / "three", workers=3)


def test_a_folder_of_another_training_is_refused_and_kept(tmp_path: Path) -> None:
    train(TINY, tmp_path, device="cpu", until=1)
    before = (tmp_path / SETTINGS).read_text()
    with pytest.raises(InvalidFileError, match=r"contains another training; .*training\.json"):
        train(replace(TINY, rounds=((7, 0.02),)), tmp_path)
    assert (tmp_path / SETTINGS).read_text() == before
    assert json.loads(before)["rounds"] == [[6, 0.02]]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_checkpoint_is_an_error_that_says_how_to_mend_it(
    tmp_path: Path, workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    train(TINY, tmp_path, device="cpu", until=1)
    (tmp_path / CHECKPOINT).write_bytes(b"nothing")
    with pytest.raises(InvalidFileError, match=r"cannot be read \(\w+\); remove it"):
        train(TINY, tmp_path, device="cpu", workers=workers)
    # The other process leaves it to the first to say so.
    assert "Traceback" not in capfd.readouterr().err
    assert (tmp_path / CHECKPOINT).read_bytes() == b"nothing"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "rat"}, "there is no organism 'rat'"),
        ({"rounds": ((3, 0.1), (0, 0.1))}, "steps is 0, expected at least 1"),
        ({"rounds": ((3, 0.0),)}, "rate is 0.0, expected a positive number"),
        ({"sizes": (8,)}, "sizes is"),
        ({"seed": 2**63}, r"seed is 9223372036854775808, expected at most"),
        ({"begin_with": "/nowhere"}, "contains no organism"),
        ({"begin_with": "mouze"}, "no folder 'mouze' with initial weights; did you mean mouse"),
    ],
)
def test_settings_that_cannot_be_used_are_errors(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    with pytest.raises((InvalidParameterError, InvalidFileError), match=words):
        train(Settings(**({"name": "moth"} | changes)), tmp_path / "x")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_killed_process_is_an_error_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(TINY, tmp_path, device="cpu", until=2)
    before = (tmp_path / CHECKPOINT).read_bytes()

    def kill(line: str) -> None:
        for helper in active_children():
            helper.kill()

    monkeypatch.setattr(training, "_REPORT_EVERY", 0.0)
    with pytest.raises(GoalmeterError, match="one of the 2 processes of the training has stopped"):
        train(TINY, tmp_path, device="cpu", workers=2, progress=kill)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
