"""Probe the model of a navigation run: what its activations encode and what it uses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter.gridworld.world import content
from goalmeter.navigation.rollouts import load
from goalmeter.representation import activations as stored
from goalmeter.representation import stages as staged
from goalmeter.representation.network import Network, padded
from goalmeter.representation.plans.comparison import along
from goalmeter.representation.replay import Sample, present_positions, run_digest, samples_of
from goalmeter.representation.result import FOLDER, Representation, has_result
from goalmeter.representation.result_rows import row_from
from goalmeter.representation.stages import MAPS, PARTS, PLAN, USE, ProbeOptions
from goalmeter.runs import Stages, keys_in
from goalmeter.runs.forecast import Forecast, Span
from goalmeter.runs.progress import Tell

# Options that a later call may extend; changing any other option starts a new probe.
GROWS = ("parts", "probes")
# Result fields by part. Pictures and believed worlds are computed from decoded maps.
_FIELDS = {
    MAPS: ("maps", "places", "chosen", "explained", "states", "believed"),
    USE: ("use", "verdict", "doses", "spans", "moved", "subspaces"),
    PLAN: ("plan", "decided", "settled"),
}


def measure(
    run: str | Path, *, model: str | None = None, progress: Tell | None = None, **options: Any
) -> Representation:
    """Measure which maps and plans a model's activations encode, and which of them it uses.

    Each finished stage is stored in the folder "probe" of the run directory: an interrupted call
    is resumed, and a completed one returns at once. A call with fewer parts or probes also returns
    those completed earlier. The result is stored as result.json in the same folder.

    The run must be of a language model on this machine; by default, `model` is the model named in
    the run. `options` are the fields of `ProbeOptions`; `progress` is called with each step.
    """
    navigation = load(run)
    # Validate the run before the model is loaded, which takes longer.
    samples = samples_of(navigation.trajectories)
    network = Network.open(model or navigation.plan.agent)
    folder, digest = Path(run) / FOLDER, run_digest(navigation.trajectories)
    if not folder.exists():
        query = navigation.plan.asking
        check_author(samples, network, 1.0 if query is None else query.temperature)
    wanted = ProbeOptions.for_network(network, options)
    blank = Representation(
        run=Path(run).resolve().name,
        model=network.name,
        revision=network.revision,
        decisions=len(samples),
        grids=len({content(sample.world) for sample in samples}),
        about={"run": digest},
    )
    what = {"run": digest, "model": network.name, "revision": network.revision}
    what |= {"kind": "probe"} | wanted.to_json()
    elsewhere = "probe a copy of the run's folder"
    with Stages(folder, what, grows=GROWS, tell=progress, elsewhere=elsewhere) as stages:
        earlier = Representation.load(run, digest) if has_result(run) else blank
        fixed = {name: value for name, value in wanted.to_json().items() if name not in GROWS}
        if earlier.revision != network.revision or not fixed.items() <= earlier.about.items():
            earlier = blank
        # A finished part is reused even if its activations were deleted since. A part that was
        # never finished is computed only if it is among the options.
        before = earlier.about.get("parts", ())
        finished = [part for part in before if part not in earlier.left_out]
        # The believed world needs maps and use: existing maps are loaded again for it.
        opened = USE in wanted.parts and MAPS in finished and not earlier.believed
        computed = [part for part in PARTS if part in wanted.parts or (part == MAPS and opened)]
        # Probes concern only the maps, so a call without maps fits no further probe.
        probes = earlier.about.get("probes", ()) if MAPS in finished else ()
        added = wanted.probes if MAPS in wanted.parts or not probes else ()
        together = replace(
            wanted,
            parts=tuple(part for part in PARTS if part in {*before, *wanted.parts}),
            probes=tuple(dict.fromkeys([*probes, *added])),
        )
        positions = present_positions(samples, network.local.tokenizer, wanted.positions)
        lacking = [name for name in wanted.positions if name not in positions]
        work = staged.ProbeRun(
            stages,
            samples,
            network,
            replace(together, positions=positions),
            navigation.trajectories,
            {name: reason for name, reason in earlier.left_out.items() if name not in computed}
            | dict.fromkeys(lacking, "no decision has this position"),
        )
        fields, old = blank.to_json(), earlier.to_json()
        for part in finished:
            fields |= {name: old[name] for name in _FIELDS[part] if part not in computed}
        fields |= _measured(work, computed, USE in finished)
        fields |= {"about": {"run": digest} | together.to_json(), "left_out": work.left_out}
        result = row_from(Representation, fields)
        result.save(run)
    return result


def _measured(run: staged.ProbeRun, parts: Sequence[str], use_finished: bool) -> dict[str, Any]:
    """Compute the fields of the result; record why a part could not be computed."""
    fields: dict[str, Any] = {}
    stages = {MAPS: staged.map_stage, USE: staged.use_stage, PLAN: staged.plan_stage}
    for part in parts:
        try:
            fields |= stages[part](run)
        except (InvalidParameterError, InvalidTrajectoryError) as cause:
            run.left_out[part] = str(cause)
    if "maps" in fields:
        use = run.stages.values.get("use") if use_finished or USE in parts else None
        fields["states"] = staged.picture_stage(run, use)
        fields |= {} if use is None else {"believed": staged.believed_stage(run, use)}
    return fields


# --- Author of the answers ------------------------------------------------------------------------
# Activations can be computed for recorded tokens of any author. Tokens sampled from a model have a
# mean surprise, -log p, equal to the entropy of its distributions; sampling at a temperature below
# 1 or from the likeliest tokens lowers it. Answers of far higher surprise were therefore written by
# another model. Small changes of the weights are not detected.
_ANSWERS = 16
_SPREADS, _LEAST = 10.0, 0.02  # nats per token; kernels and precisions change far less than this


def check_author(samples: Sequence[Sample], network: Network, temperature: float = 1.0) -> None:
    """Refuse a model that is unlikely to have written the answers, sampled at a temperature."""
    import torch

    answered = [sample for sample in samples if sample.answer]
    places = np.unique(np.linspace(0, len(answered) - 1, min(_ANSWERS, len(answered))).astype(int))
    surprise = entropy = variance = 0.0
    tokens = 0
    for place in places.tolist():
        sample = answered[place]
        with torch.inference_mode():
            inputs = padded([sample.ids], network.local.model.device)
            logits = network.local.model(**inputs, use_cache=False).logits[0]
        if not torch.isfinite(logits).all():
            raise InvalidTrajectoryError(
                f"{network.name} has logits that are not finite at step {sample.step} of "
                f"{sample.walk!r}: its weights are corrupt or its precision is too low; use the "
                f"model of the run, in the precision of the run"
            )
        # The logits of a token predict the next one.
        heated = logits[len(sample.prompt) - 1 : -1].double() / max(temperature, 1.0)
        token: Any = torch.distributions.Categorical(logits=heated, validate_args=False)
        surprise -= float(token.log_prob(torch.tensor(sample.answer, device=logits.device)).sum())
        entropy += float(token.entropy().sum())
        squares = (token.probs * token.logits**2).sum(dim=1)
        variance += float((squares - token.entropy() ** 2).clamp(min=0).sum())
        tokens += len(sample.answer)
    if surprise - entropy > max(_SPREADS * variance**0.5, _LEAST * tokens):
        raise InvalidTrajectoryError(
            f"{network.name} has not written these answers: {len(places)} of them have a surprise "
            f"of {surprise / tokens:.3g} nats per token, expected about {entropy / tokens:.3g} for "
            f"its own answers; use the model of the run, with its weights at that time"
        )


# --- Forecast -------------------------------------------------------------------------------------
def forecast(
    run: str | Path, *, model: str | None = None, token_rate: float | None = None, **options: Any
) -> Forecast:
    """Forecast the remaining work of `measure`; a rate (tokens/s) of None is measured."""
    navigation = load(run)
    samples = samples_of(navigation.trajectories)
    network = Network.open(model or navigation.plan.agent)
    wanted = ProbeOptions.for_network(network, options)
    layers, folder, tokenizer = wanted.chosen_layers, Path(run) / FOLDER, network.local.tokenizer
    positions = present_positions(samples, tokenizer, wanted.positions)
    captures: list[tuple[Sequence[int], list[stored.Shard]]] = []  # layers, and shards to be made
    if MAPS in wanted.parts:
        shards = stored.shards_of(samples, tokenizer, positions)
        captures += [((0, *layers), stored.missing(shards, folder / stored.TRAINED_FOLDER))]
        captures += [(layers, stored.missing(shards, folder / stored.RANDOM_FOLDER))]
    if PLAN in wanted.parts:
        first = [sample for sample in samples if sample.step == 0]
        shards = stored.shards_of(first, tokenizer, list(dict.fromkeys([*positions, *along()])))
        captures += [(layers, stored.missing(shards, folder / staged.FIRST_DECISIONS))]
    read = [sample for _, shards in captures for shard in shards for sample in shard.samples]
    disk = sum(shard.size(at, network) for at, shards in captures for shard in shards)
    remaining = len({(sample.walk, sample.step) for sample in read})
    tokens = sum(len(sample.ids) for sample in read)
    rate = token_rate
    if rate is None:
        middle = sorted(samples, key=lambda sample: len(sample.ids))[len(samples) // 2].ids
        rows = [middle] * max(1, min(len(samples), stored.BATCH_TOKENS // len(middle)))
        network.forward([middle])  # warm-up
        begun = time.perf_counter()
        network.forward(rows)
        rate = len(rows) * len(middle) / max(time.perf_counter() - begun, 1e-9)
    finished = keys_in(folder)
    maps = {f"maps/{p}/layer-{k}/{at}" for p in wanted.probes for k in layers for at in positions}
    plans = {"plan/linear": len(layers)} | {f"plan/decoder({d})": 1 for d in wanted.decoders}
    # The controls and baselines of each fit are not counted.
    plan_fits = len(positions) * sum(n for key, n in plans.items() if key not in finished)
    reanswered = 0 if USE not in wanted.parts or "use" in finished else wanted.use_decisions
    return Forecast(
        name=f"probe of {network.name}",
        noun="decision",
        trials=len(samples),
        kept=len(samples) - remaining,
        left=remaining,
        slots=1,
        hours=Span.of(tokens / rate / 3600),
        disk=Span.of(disk),
        counted={
            "grids": len({content(sample.world) for sample in samples}),
            "passes": len(read),
            "tokens read": tokens,
            "map fits": len(maps.difference(finished)) if MAPS in wanted.parts else 0,
            "plan fits": plan_fits if PLAN in wanted.parts else 0,
            "decisions answered again, at most": min(reanswered, len(samples)),
        },
        assumed=(
            f"the model reads {rate:,.0f} tokens per second"
            + ("" if token_rate else ", measured in one batch on this machine"),
            "the time covers forward passes over recorded decisions; fits and answers under "
            "interventions take additional time, which depends on the answers",
            "disk space covers activations; results and answers need little more",
        ),
    )
