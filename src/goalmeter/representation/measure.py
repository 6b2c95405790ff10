"""Measure what the model of a navigation run encodes of its worlds and what it uses."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter.gridworld.world import content
from goalmeter.navigation.rollouts import load
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.representation.activations import CaptureRows
from goalmeter.representation.capture import BATCH_TOKENS
from goalmeter.representation.network import Network, padded
from goalmeter.representation.options import MAPS, PARTS, PLAN, USE, ProbeOptions
from goalmeter.representation.plans.comparison import along
from goalmeter.representation.replay import Sample, present_positions, run_digest, samples_of
from goalmeter.representation.result import FOLDER, Representation, has_result
from goalmeter.representation.stages.decoding import (
    ACTIVATIONS,
    FIRST_DECISIONS,
    RANDOM_WEIGHTS,
    Decoding,
    captured,
    explained_stage,
    map_stage,
    picture_stage,
    plan_stage,
)
from goalmeter.representation.stages.use import (
    UseResults,
    believed_stage,
    select_decisions,
    stream_stage,
    use_stage,
)
from goalmeter.representation.use.trials import OPEN
from goalmeter.runs import Stages, keys_in
from goalmeter.runs.forecast import Forecast, Span
from goalmeter.runs.progress import Tell

# Options whose values may grow in a later call; every other change makes another probe.
GROWS = ("parts", "probes")
_ELSEWHERE = "probe a copy of the run's folder"
# Fields of the result by part. Pictures and believed worlds are based on decoded maps.
_FIELDS = {
    MAPS: ("maps", "places", "chosen", "explained", "states", "believed"),
    USE: ("use", "verdict", "doses", "spans", "moved", "subspaces"),
    PLAN: ("plan", "decided", "settled"),
}


def measure(
    run: str | Path, *, model: str | None = None, progress: Tell | None = None, **options: Any
) -> Representation:
    """Measure which maps and plans a model's activations encode, and what of them it uses.

    Every stage is stored in the folder "probe" of the run when it is finished: an interrupted call
    is resumed, and a finished one returns at once. A call with fewer parts or probes returns those
    that were finished before, too.

    Args:
        run: the folder of a navigation run of a language model that ran on this machine.
        model: its name; None for the one that the run names.
        progress: called with each step.
        options: the fields of `ProbeOptions`: `layers`, `positions`, `probes`, `parts`,
            `interventions`, `use_decisions`, `draws`, `decoders` and `seed`.

    Returns:
        The result, which is also stored as result.json in that folder.

    Raises:
        InvalidFileError: no navigation run, too little disk, or a folder with another probe.
        InvalidTrajectoryError: its decisions were recorded without their tokens, or the model would
            hardly have written them.
        InvalidParameterError: an option that cannot be used, or too few grids for any map.
        MissingAbilityError: the model does not run on this machine.
        MissingExtraError: torch or transformers is not installed.
    """
    walked = load(run)
    # Before the model is loaded, which takes longer.
    samples = samples_of(walked.trajectories)
    network = Network.open(model or walked.plan.agent)
    folder = Path(run) / FOLDER
    if not folder.exists():
        asking = walked.plan.asking
        check_author(samples, network, 1.0 if asking is None else asking.temperature)
    wanted = ProbeOptions.of(options).for_network(network)
    digest = run_digest(walked.trajectories)
    what = {"run": digest, "model": network.name, "revision": network.revision}
    what |= {"kind": "probe"} | wanted.to_json()
    with Stages(folder, what, grows=GROWS, tell=progress, elsewhere=_ELSEWHERE) as stages:
        earlier = EarlierResult.of(run, wanted, network, digest)
        probe = _Probe(stages, walked.trajectories, samples, network, wanted, earlier)
        result = probe.result(Path(run), digest)
        result.save(run)
    return result


# --- Author of the answers ------------------------------------------------------------------------
# Activations are those of the recorded tokens, whoever wrote them: read by another model, or by one
# whose weights have changed since, they would be taken for the reasons of walks that it never made.
#
# Tokens drawn from a model have a mean surprise, -log p, equal to the entropy of its distributions;
# drawn at a temperature below 1, or from likely tokens only, it is less. So answers whose surprise
# is far higher were written by another model. Small changes of weights, and models that would have
# written the same, are not detected.

_ANSWERS = 16
# Other kernels and precisions change the surprise by far less than this.
_SPREADS = 10.0
_LEAST = 0.02  # nats per token


def check_author(samples: Sequence[Sample], network: Network, temperature: float = 1.0) -> None:
    """Refuse a model that would hardly have written the answers, drawn at a temperature."""
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
        # The logits of a token predict the next one.
        heated = logits[len(sample.prompt) - 1 : -1].double() / max(temperature, 1.0)
        logs = torch.log_softmax(heated, dim=-1)
        if not torch.isfinite(logits).all():
            raise InvalidTrajectoryError(
                f"{network.name} gives numbers that are not finite at step {sample.step} of "
                f"{sample.walk!r}: its weights are broken, or its precision is too low; take the "
                f"model that walked, in the precision in which it walked"
            )
        probabilities = logs.exp()
        chosen = logs.gather(1, torch.tensor(sample.answer, device=logs.device)[:, None])
        expected = -(probabilities * logs).sum(dim=1)
        surprise -= float(chosen.sum())
        entropy += float(expected.sum())
        variance += float(((probabilities * logs**2).sum(dim=1) - expected**2).clamp(min=0).sum())
        tokens += len(sample.answer)
    if surprise - entropy > max(_SPREADS * variance**0.5, _LEAST * tokens):
        raise InvalidTrajectoryError(
            f"{network.name} has not written these answers: {len(places)} of them have a surprise "
            f"of {surprise / tokens:.3g} nats a token, expected about {entropy / tokens:.3g} of "
            f"answers of its own; take the model that walked, with the weights of then"
        )


# --- Earlier results ------------------------------------------------------------------------------
@dataclass(frozen=True)
class EarlierResult:
    """The result of an earlier call with the same options, or None.

    A finished part is taken over as it is, even where its activations were deleted since. A part
    that was never finished is not begun unless it is among the options.
    """

    result: Representation | None

    @classmethod
    def of(
        cls, run: str | Path, options: ProbeOptions, network: Network, digest: str
    ) -> EarlierResult:
        """Load the result of a run if it has the same options and model."""
        if not has_result(run):
            return cls(None)
        result = Representation.load(run, digest)
        about = {name: value for name, value in options.to_json().items() if name not in GROWS}
        same = result.revision == network.revision and about.items() <= dict(result.about).items()
        return cls(result if same else None)

    @property
    def parts(self) -> tuple[str, ...]:
        """Its finished parts."""
        return tuple(part for part in self._about("parts") if part not in self._reasons)

    def together(self, options: ProbeOptions) -> ProbeOptions:
        """Return the options of the joint result: earlier parts and probes, and those wanted now.

        Probes belong to the maps alone, so without these no further probe is begun.
        """
        before = self._about("probes") if MAPS in self.parts else ()
        added = options.probes if MAPS in options.parts or not before else ()
        return replace(
            options,
            parts=tuple(part for part in PARTS if part in {*self._about("parts"), *options.parts}),
            probes=tuple(dict.fromkeys([*before, *added])),
        )

    def to_make(self, parts: Collection[str]) -> tuple[str, ...]:
        """Return the parts to compute, in their order.

        The believed world needs maps and use: where only maps exist, they are opened again.
        """
        opened = USE in parts and MAPS in self.parts and not getattr(self.result, "believed", {})
        return tuple(part for part in PARTS if part in parts or (part == MAPS and opened))

    def fields(self, made: Collection[str]) -> dict[str, Any]:
        """Return the fields of the parts that are not computed."""
        taken = [part for part in self.parts if part not in made]
        return {name: getattr(self.result, name) for part in taken for name in _FIELDS[part]}

    def left_out(self, made: Collection[str]) -> dict[str, str]:
        """Return why something is missing of the parts that are not computed."""
        return {name: reason for name, reason in self._reasons.items() if name not in made}

    def _about(self, name: str) -> tuple[str, ...]:
        return () if self.result is None else tuple(self.result.about.get(name, ()))

    @property
    def _reasons(self) -> dict[str, str]:
        return {} if self.result is None else dict(self.result.left_out)


# --- Parts ----------------------------------------------------------------------------------------
@dataclass
class _Probe:
    """The parts of a probe in their order; later ones use what earlier ones leave behind."""

    stages: Stages
    trajectories: Sequence[Trajectory]
    samples: tuple[Sample, ...]
    network: Network
    options: ProbeOptions
    earlier: EarlierResult
    fields: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    decoding: Decoding | None = None
    use: UseResults | None = None

    def result(self, run: Path, digest: str) -> Representation:
        """Compute all parts; what cannot be computed is left out with the reason."""
        made = self.earlier.to_make(self.options.parts)
        self.fields |= self.earlier.fields(made)
        self.left_out |= self.earlier.left_out(made)
        together = self.earlier.together(self.options)
        tokenizer = self.network.local.tokenizer
        positions = present_positions(self.samples, tokenizer, self.options.positions)
        for name in self.options.positions:
            if name not in positions:
                self.left_out[name] = "no decision has this position"
        present = replace(together, positions=positions)
        makers = {MAPS: self._maps, USE: self._use, PLAN: self._plan}
        for part in made:
            try:
                self.fields |= makers[part](present)
            except (InvalidParameterError, InvalidTrajectoryError) as cause:
                self.left_out[part] = str(cause)
        return Representation(
            run=run.resolve().name,
            model=self.network.name,
            revision=self.network.revision,
            decisions=len(self.samples),
            grids=len({content(sample.world) for sample in self.samples}),
            about={"run": digest} | together.to_json(),
            left_out=self.left_out,
            **(self.fields | self._joint(present)),
        )

    def _maps(self, options: ProbeOptions) -> dict[str, Any]:
        captures = captured(
            self.samples,
            self.network,
            self.stages.folder,
            layers=options.chosen_layers,
            positions=options.positions,
            seed=options.seed,
            tell=self.stages.tell,
        )
        maps, places, chosen, without = map_stage(self.stages, captures, options)
        self.left_out |= without
        decoding = Decoding(captures, self.trajectories, chosen, options.seed)
        shares = explained_stage(self.stages, decoding, options.positions)
        self.left_out |= shares.get("left_out", {})
        self.decoding = decoding
        return {"maps": maps, "places": places, "chosen": chosen, "explained": shares}

    def _use(self, options: ProbeOptions) -> dict[str, Any]:
        # Selected once, and not at all where every answer is cached.
        again = cache(partial(select_decisions, self.samples, options.use_decisions, options.seed))
        self.use = use_stage(self.stages, again, self.network, options)
        where = stream_stage(self.stages, self.samples, again, self.network, options)
        self.left_out |= where.left_out
        if OPEN in options.interventions and not any(
            row.intervention.startswith(OPEN) for row in self.use.rows
        ):
            self.left_out[OPEN] = (
                "no wall that is open in other grids would be a shorter way in decisions of both "
                "halves; take more grids"
            )
        return {
            "use": self.use.rows,
            "verdict": self.use.verdict,
            "doses": self.use.doses,
            "spans": where.spans,
            "moved": where.moved,
            "subspaces": where.subspaces,
        }

    def _plan(self, options: ProbeOptions) -> dict[str, Any]:
        fields, without = plan_stage(self.stages, self.samples, self.network, options)
        self.left_out |= without
        return fields

    def _joint(self, options: ProbeOptions) -> dict[str, Any]:
        """Return what needs decoded maps, and with the use of cells the believed world."""
        if self.decoding is None:
            return {}
        if self.use is None and USE in self.earlier.parts and self.stages.kept("use") is not None:
            self.use = use_stage(self.stages, tuple, self.network, options)
        shares = {} if self.use is None else self.use.shares
        out: dict[str, Any] = {"states": picture_stage(self.stages, self.decoding, shares)}
        if self.use is not None:
            out["believed"] = believed_stage(self.stages, self.decoding, self.use)
        return out


# --- Forecast -------------------------------------------------------------------------------------
def forecast(
    run: str | Path, *, model: str | None = None, token_rate: float | None = None, **options: Any
) -> Forecast:
    """Count what `measure` with these arguments has left to do; nothing is stored.

        passes          decisions read by the model, by random weights, and first ones for plans
        tokens read     of these passes: prompt and answer
        hours           tokens read / tokens that the model reads a second
        disk            rows * layers * tokens * width * bytes of a number, with headers
        map fits        probes * layers * positions, each with its controls
        plan fits       (layers + decoders) * positions, each with its baselines

    Args:
        run: as in `measure`.
        model: its name; None for the one that the run names. It is loaded.
        token_rate: tokens that the model reads a second; None to measure it in one batch.
        options: the fields of `ProbeOptions`.
    """
    import torch

    walked = load(run)
    samples = samples_of(walked.trajectories)
    network = Network.open(model or walked.plan.agent)
    wanted = ProbeOptions.of(options).for_network(network)
    layers, folder, tokenizer = wanted.chosen_layers, Path(run) / FOLDER, network.local.tokenizer
    positions = present_positions(samples, tokenizer, wanted.positions)
    every = CaptureRows.of(samples, tokenizer, positions)
    captures = []
    if MAPS in wanted.parts:
        captures += [(every, folder / ACTIVATIONS, (0, *layers))]
        captures += [(every, folder / RANDOM_WEIGHTS, layers)]
    if PLAN in wanted.parts:
        first = [sample for sample in samples if sample.step == 0]
        places = list(dict.fromkeys([*positions, *along()]))
        captures += [(CaptureRows.of(first, tokenizer, places), folder / FIRST_DECISIONS, layers)]
    read = [
        s for rows, path, _ in captures for n in rows.missing(path) for s in rows.shard(n).samples
    ]
    size = getattr(torch, network.pinned["dtype"]).itemsize
    disk = sum(
        rows.missing_bytes(path, read_at, network.width, size) for rows, path, read_at in captures
    )
    finished = set(keys_in(folder))
    maps = {f"maps/{p}/layer-{k}/{at}" for p in wanted.probes for k in layers for at in positions}
    plans = {"plan/linear": len(layers)} | {f"plan/decoder({d})": 1 for d in wanted.decoders}
    plan_fits = len(positions) * sum(n for key, n in plans.items() if key not in finished)
    tokens = sum(len(sample.ids) for sample in read)
    rate = token_rate or _tokens_per_second(network, samples)
    left = {(sample.walk, sample.step) for sample in read}
    asked = 0 if USE not in wanted.parts or "use" in finished else wanted.use_decisions
    return Forecast(
        name=f"probe of {network.name}",
        noun="decision",
        trials=len(samples),
        kept=len(samples) - len(left),
        left=len(left),
        slots=1,
        hours=Span.of(tokens / rate / 3600),
        disk=Span.of(disk),
        counted={
            "grids": len({content(sample.world) for sample in samples}),
            "passes": len(read),
            "tokens read": tokens,
            "map fits": len(maps - finished) if MAPS in wanted.parts else 0,
            "plan fits": plan_fits if PLAN in wanted.parts else 0,
            "decisions answered again, at most": min(asked, len(samples)),
        },
        assumed=(
            f"the model reads {rate:,.0f} tokens a second"
            + ("" if token_rate else ", measured in one batch on this machine"),
            "the time is that of passes over recorded decisions; fits, and answers under "
            "interventions, take time besides: their number depends on the answers",
            "disk is that of activations; results and answers take little besides",
        ),
    )


def _tokens_per_second(network: Network, samples: Sequence[Sample]) -> float:
    """Measure how many tokens a network reads in one batch."""
    middle = sorted(samples, key=lambda sample: len(sample.ids))[len(samples) // 2].ids
    rows = [middle] * max(1, min(len(samples), BATCH_TOKENS // len(middle)))
    network.forward([middle])  # the first pass pays for loading
    begun = time.perf_counter()
    network.forward(rows)
    return len(rows) * len(middle) / max(time.perf_counter() - begun, 1e-9)
