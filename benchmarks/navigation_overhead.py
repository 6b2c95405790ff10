"""Walks of a local model cost little more than its own batched generation.

Every walk of a maze suite through Inspect and our provider `goalmeter-local`: prompts, tokens,
batches, answers read, records kept, logs written; against a bare `model.generate` of transformers
on the same prompts, which are tokenised before the clock starts, in full batches of the same size,
with as many new tokens, sampled by the same temperature and top-p. The models are Llamas with
random weights that write 92 tokens and then a move (`talking_model.py`), on the processor in 32-bit
floats with one thread for linear algebra. Both sides take turns; ratios are of one turn each, as
median (least to most). CPU time is that of all threads; in wall-clock time, reading answers and
writing logs overlap with the next batch if there is a second core.

The overhead is some 6 ms of CPU time per question, whatever the model, part of which bare
generation has too. It is small compared with these models; a model of a quarter of a million
weights answers in less time, and ours then took 1.7 times as long. Inspect's own provider for
transformers, `hf`, asks some of the same questions in the same setting.

At temperature 0 a question that was answered is not asked again: the isometries suite, each walk
taken several times, and how many of its steps had to be asked.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import harness
from talking_model import talking_model

BATCH, TOKENS = 32, 96
# Width and layers of each model, grids of each size and complexity, cap on steps, turns.
MODELS = ((192, 3, 4, 6, 3), (384, 4, 3, 3, 2))
QUICK = ((128, 1, 1, 1, 1),)
SUITE: dict[str, Any] = {"sizes": [7, 9], "complexities": [0.0, 0.6], "trajectories": 4}
QUICK_SUITE: dict[str, Any] = {"sizes": [7], "complexities": [0.6], "trajectories": 1}


def measure(quick: bool) -> dict[str, Any]:
    if quick:
        SUITE.update(sizes=[7], complexities=[0.6], trajectories=2)
    with tempfile.TemporaryDirectory(prefix="goalmeter-bench-") as name:
        # Set before Inspect and transformers are loaded, which read them then.
        os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        os.environ |= {"INSPECT_CACHE_DIR": f"{name}/cache", "XDG_DATA_HOME": f"{name}/data"}
        folder = Path(name)
        suite, models = (QUICK_SUITE, QUICK) if quick else (SUITE, MODELS)
        rows = [_row(folder, suite, *settings) for settings in models]
        return {
            "batch": BATCH,
            "tokens": TOKENS,
            "rows": rows,
            "once": _once(folder, quick),
            "libraries": {
                library: version(library) for library in ("inspect_ai", "transformers", "torch")
            },
        }


def _row(
    folder: Path, suite: dict[str, Any], width: int, layers: int, grids: int, cap: int, turns: int
) -> dict[str, Any]:
    """Both sides in turns with one model, and then Inspect's own provider."""
    path = folder / f"model-{width}-{layers}"
    weights = talking_model(path, width=width, layers=layers, tokens=TOKENS)
    size = suite | {"grids": grids, "cap": cap}
    shortest = suite | {"grids": 1, "cap": 1}
    # What is loaded once is loaded before any clock starts.
    _walked(f"goalmeter-local/{path}", folder / f"{path.name}-warm", shortest)
    generate = _bare(path)
    pairs: list[dict[str, Any]] = []
    for turn in range(turns):
        run = folder / f"{path.name}-{turn}"
        with _counted() as batches:
            ours = _timed(partial(_walked, f"goalmeter-local/{path}", run, size))
        prompts = _prompts(ours["result"])
        bare = _timed(partial(generate, prompts))
        pairs.append(
            {"ours": _plain(ours), "bare": _plain(bare), "questions": len(prompts)}
            | {"batches": len(batches)}
        )
        done = f"{weights / 1e6:.1f} M weights, turn {turn + 1} of {turns}"
        print(f"{done}: {_ratios(pairs[-1:], 'cpu_seconds')} of CPU time", file=sys.stderr)
    few = suite | {"grids": 1, "cap": min(cap, 2)}
    stock = _timed(lambda: _walked("hf/local", folder / f"{path.name}-hf", few, model_path=path))
    return {
        "weights": weights,
        "pairs": pairs,
        "stock": _plain(stock) | {"questions": len(_prompts(stock["result"], ids=False))},
    }


def _walked(model: str, run: Path, size: dict[str, Any], **options: Any) -> list[Any]:
    """The trajectories of a suite."""
    from goalmeter.navigation.inspect.models import Server
    from goalmeter.navigation.inspect.run import ask
    from goalmeter.navigation.prompts import Asking

    batch = "batch_size" if model.startswith("hf/") else "batch"
    provider = {"device": "cpu", batch: BATCH} | {k: str(v) for k, v in options.items()}
    asking = Asking(options=provider, max_tokens=TOKENS)
    server = Server(max_connections=2 * BATCH)
    return ask(model, "maze", run, asking=asking, server=server, **size)


def _prompts(trajectories: list[Any], *, ids: bool = True) -> list[Any]:
    """What was asked, the first steps of all walks first, as it came."""
    steps = [(n, step) for walk in trajectories for n, step in enumerate(walk.steps)]
    assert all(step.attempts == 1 for _, step in steps), "every answer can be read"
    asked = [step for _, step in sorted(steps, key=lambda pair: pair[0])]
    return [step.prompt_tokens if ids else step.prompt for step in asked]


def _bare(path: Path) -> Callable[[list[tuple[int, ...]]], None]:
    """What generates answers to prompts, as transformers does it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    model = AutoModelForCausalLM.from_pretrained(path, dtype="auto").eval()
    pad = AutoTokenizer.from_pretrained(path).pad_token_id
    sampled = GenerationConfig(
        do_sample=True, temperature=0.7, top_p=0.95, top_k=0, max_new_tokens=TOKENS
    )

    def generate(prompts: list[tuple[int, ...]]) -> None:
        for begin in range(0, len(prompts), BATCH):
            batch = prompts[begin : begin + BATCH]
            longest = max(map(len, batch))
            ids = torch.tensor([[pad] * (longest - len(p)) + list(p) for p in batch])
            mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in batch])
            with torch.inference_mode():
                out = model.generate(input_ids=ids, attention_mask=mask, generation_config=sampled)
            assert out.shape[1] == longest + TOKENS, "as many tokens as on our side"

    return generate


def _once(folder: Path, quick: bool) -> dict[str, int]:
    """How many questions a suite of repeated walks takes at temperature 0."""
    from goalmeter.navigation.inspect.run import ask
    from goalmeter.navigation.prompts import Asking

    path = folder / "model-once"
    talking_model(path, width=96, layers=1, tokens=8)
    size: dict[str, Any] = {"sizes": [7], "complexities": [0.0, 0.6], "grids": 1 if quick else 5}
    asking = Asking(temperature=0.0, max_tokens=8, options={"device": "cpu", "batch": BATCH})
    with _counted() as batches:
        walks = ask(
            f"goalmeter-local/{path}",
            "isometries",
            folder / "once",
            asking=asking,
            trajectories=2 if quick else 10,
            **size,
        )
    prompts = [step.prompt for walk in walks for step in walk.steps]
    return {
        "walks": len(walks),
        "steps": len(prompts),
        "different": len(set(prompts)),
        "asked": sum(batches),
    }


@contextmanager
def _counted() -> Iterator[list[int]]:
    """Sizes of the batches that local models answer meanwhile."""
    from goalmeter.agents.local_models import LocalModel

    sizes: list[int] = []
    answers = LocalModel.answers

    def counting(self: LocalModel, prompts: Any) -> Any:
        sizes.append(len(prompts))
        return answers(self, prompts)

    LocalModel.answers = counting  # type: ignore[method-assign]
    try:
        yield sizes
    finally:
        LocalModel.answers = answers  # type: ignore[method-assign]


def _timed(call: Callable[[], Any]) -> dict[str, Any]:
    began, used = time.perf_counter(), time.process_time()
    result = call()
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - used,
        "result": result,
    }


def _plain(timed: dict[str, Any]) -> dict[str, float]:
    return {name: timed[name] for name in ("seconds", "cpu_seconds")}


def markdown(result: dict[str, Any]) -> str:
    header = ["weights", "questions", "a batch", "bare, CPU", "ours, CPU", "CPU ratio"]
    header += ["ours adds, CPU", "bare, clock", "clock ratio", "hf, clock", "hf, CPU"]
    rows = []
    for row in result["rows"]:
        pairs, stock = row["pairs"], row["stock"]
        n = pairs[0]["questions"]
        bare = {k: median(p["bare"][k] for p in pairs) / n for k in ("seconds", "cpu_seconds")}
        ours = median(p["ours"]["cpu_seconds"] for p in pairs) / n
        added = median(p["ours"]["cpu_seconds"] - p["bare"]["cpu_seconds"] for p in pairs) / n
        rows.append(
            [
                f"{row['weights'] / 1e6:.1f} M",
                str(n),
                f"{n / pairs[0]['batches']:.1f}",
                harness.short(bare["cpu_seconds"]),
                harness.short(ours),
                _ratios(pairs, "cpu_seconds"),
                harness.short(added) if added > 0 else "nothing",
                harness.short(bare["seconds"]),
                _ratios(pairs, "seconds"),
                harness.short(stock["seconds"] / stock["questions"]),
                harness.short(stock["cpu_seconds"] / stock["questions"]),
            ]
        )
    once = result["once"]
    return "\n\n".join(
        [
            harness.table(header, rows),
            "- Times are of one question, which is one step of a walk; "
            + ", ".join(f"{name} {number}" for name, number in result["libraries"].items())
            + ".\n"
            f"- At temperature 0, {once['walks']} walks of {once['steps']} steps showed "
            f"{once['different']} different prompts and took {once['asked']} questions.",
        ]
    )


def _ratios(pairs: list[dict[str, Any]], measure: str) -> str:
    ratios = [pair["ours"][measure] / pair["bare"][measure] for pair in pairs]
    return f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
