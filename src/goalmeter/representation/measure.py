"""Measure what the model of a navigation run encodes of its worlds and what it uses."""

from __future__ import annotations

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
from goalmeter.representation.network import Network, padded
from goalmeter.representation.replay import Sample, present_positions, run_digest, samples_of
from goalmeter.representation.result import FOLDER, Representation, has_result
from goalmeter.representation.stages.decoding import (
    DECODERS,
    MAPS,
    PARTS,
    PLAN,
    POSITIONS,
    PROBES,
    USE,
    Asked,
    Decoding,
    asked,
    captured,
    explained_stage,
    map_stage,
    picture_stage,
    plan_stage,
)
from goalmeter.representation.stages.use import (
    UseResults,
    asked_again,
    believed_stage,
    use_stage,
    where_stage,
)
from goalmeter.representation.use.trials import OPEN, TRIED
from goalmeter.runs import Stages
from goalmeter.runs.progress import Tell

# --- Authorship -----------------------------------------------------------------------------------
# Activations are those of the recorded tokens, whoever wrote them: read by another model, or by one
# whose weights have changed since, they would be taken for the reasons of walks that it never made.

_ANSWERS = 16
# A model's own answers are as surprising as it expects, give or take their spread; other kernels
# and precisions move that by far less than this.
_SPREADS = 10.0
_LEAST = 0.02  # nats a token


def check_author(samples: Sequence[Sample], network: Network, temperature: float = 1.0) -> None:
    """Refuse a model that would hardly have written the answers.

    Of tokens that are drawn from a model the mean surprise, -log p, is the entropy of its
    distributions; drawn at a temperature below 1, or from likely tokens only, it is less. So
    answers whose surprise lies far above were written by another model. Small changes of weights,
    and models that would have said the same, are not told apart.

    Args:
        samples: decisions with the tokens of their answers; some of them are read.
        network: the model.
        temperature: of the answers.
    """
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
        # The token before tells of the next.
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


# --- Held -----------------------------------------------------------------------------------------
# A part that was finished is taken over as the result has it: nothing of it is made again, even
# where its activations were deleted since. A part that was never finished is not begun either.

# What more can be asked for of the same probe; all else would be another one.
GROWS = ("parts", "probes")
_FIELDS = {
    # Decoded maps are what is drawn, and what believed worlds are of.
    MAPS: ("maps", "places", "chosen", "explained", "states", "believed"),
    USE: ("use", "verdict", "doses", "spans", "moved", "subspaces"),
    PLAN: ("plan", "decided", "settled"),
}


@dataclass(frozen=True)
class Held:
    """The result that a probe had before it was asked again.

    Attributes:
        result: None where there is none of this probe.
    """

    result: Representation | None

    @classmethod
    def of(cls, run: str | Path, wanted: Asked, network: Network, digest: str) -> Held:
        """What is kept in the folder of a run, if it is of the same questions to the same model."""
        if not has_result(run):
            return cls(None)
        result = Representation.load(run, digest)
        about = {name: value for name, value in wanted.what().items() if name not in GROWS}
        same = result.revision == network.revision and about.items() <= dict(result.about).items()
        return cls(result if same else None)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that it has."""
        return tuple(part for part in self._asked if part not in self._reasons)

    def together(self, wanted: Asked) -> Asked:
        """What the result is to be of: all parts that were asked for, and the probes of the maps.

        Probes are of the maps alone, so where these are not asked for the others' are not begun.
        """
        before: tuple[str, ...] = ()
        if self.result is not None and MAPS in self.parts:
            before = tuple(self.result.about.get("probes", ()))
        asked = wanted.probes if MAPS in wanted.parts or not before else ()
        return replace(
            wanted,
            parts=tuple(part for part in PARTS if part in {*self._asked, *wanted.parts}),
            probes=tuple(dict.fromkeys([*before, *asked])),
        )

    def to_make(self, parts: Collection[str]) -> tuple[str, ...]:
        """The parts to be made for some that are asked for, in their order.

        The believed world is of maps and use together: where only the maps are there, they are
        opened again.
        """
        joined = USE in parts and MAPS in self.parts and not self._field("believed")
        return tuple(part for part in PARTS if part in parts or (part == MAPS and joined))

    def fields(self, made: Collection[str]) -> dict[str, Any]:
        """The fields of the parts that are not made."""
        kept = [part for part in self.parts if part not in made]
        return {name: self._field(name) for part in kept for name in _FIELDS[part]}

    def left_out(self, made: Collection[str]) -> dict[str, str]:
        """Why something is missing of the parts that are not made."""
        return {name: reason for name, reason in self._reasons.items() if name not in made}

    @property
    def _asked(self) -> tuple[str, ...]:
        return () if self.result is None else tuple(self.result.about.get("parts", ()))

    @property
    def _reasons(self) -> dict[str, str]:
        return {} if self.result is None else dict(self.result.left_out)

    def _field(self, name: str) -> Any:
        return getattr(self.result, name)


# --- Measure --------------------------------------------------------------------------------------
# A probe lies in the folder of its run.
_ELSEWHERE = "probe a copy of the run's folder"


def measure(
    run: str | Path,
    *,
    model: str | None = None,
    layers: Sequence[int] | None = None,
    positions: Sequence[str] = POSITIONS,
    probes: Sequence[str] = PROBES,
    parts: Sequence[str] = PARTS,
    interventions: Sequence[str] = TRIED,
    use_decisions: int = 120,
    draws: int = 0,
    decoders: Sequence[int] = DECODERS,
    seed: int = 0,
    progress: Tell | None = None,
) -> Representation:
    """Read the maps and plans of the model of a navigation run, and see what of them it acts on.

    Everything is kept in the folder "probe" of the run as soon as it is finished: called again, it
    goes on where it was interrupted, and returns at once when all is there. Asked for fewer parts
    or probes, the result still has those that were finished before.

    Args:
        run: the folder of a navigation run of a language model that ran on this machine.
        model: its name; None for the one that the run names.
        layers: which of 1 to L; None for all of a model of at most eight blocks, and else for a
            third, two thirds and the end of the way. The embedding is read beside them.
        positions: names of tokens, see `positions`; positions that no decision has are left out,
            and the result says so.
        probes: names in `PROBES`.
        parts: "maps", "use" and "plan"; the believed world needs the first two.
        interventions: which kinds are tried of "knock-out", "patch", "windows" (patches of several
            layers), "write", "ablate" and "open"; all but "windows" unless it is said.
        use_decisions: decisions whose prompts are asked again under interventions, at most.
        draws: answers for each of them, by which the effect in nats is measured; 0 for none.
        decoders: numbers of layers of the transformers that read plans; each takes minutes.
        seed: of everything random.
        progress: told what is being done.

    Returns:
        The result, which is also kept as result.json in that folder.

    Raises:
        InvalidFileError: no navigation run, too little disk, or a folder with another probe.
        InvalidTrajectoryError: its decisions were recorded without their tokens, or the model would
            hardly have written them.
        InvalidParameterError: an option that cannot be used, or too few grids for any map.
        MissingAbilityError: the model does not run on this machine.
        MissingExtraError: torch or transformers is not installed.
    """
    tell = progress or (lambda line: None)
    walked = load(run)
    # Before the model is loaded, which takes longer.
    samples = samples_of(walked.trajectories)
    network = Network.open(model or walked.plan.agent)
    if not (Path(run) / FOLDER).exists():
        asking = walked.plan.asking
        check_author(samples, network, 1.0 if asking is None else asking.temperature)
    wanted = asked(
        network,
        layers=layers,
        positions=positions,
        probes=probes,
        parts=parts,
        interventions=interventions,
        use_decisions=use_decisions,
        draws=draws,
        decoders=decoders,
        seed=seed,
    )
    folder = Path(run) / FOLDER
    digest = run_digest(walked.trajectories)
    what = {"run": digest, "model": network.name, "revision": network.revision}
    what |= {"kind": "probe"} | wanted.what()
    with Stages(folder, what, grows=GROWS, tell=tell, elsewhere=_ELSEWHERE) as stages:
        held = Held.of(run, wanted, network, digest)
        parts_of = _Parts(stages, walked.trajectories, samples, network, wanted, held)
        result = parts_of.result(Path(run), digest)
        result.save(run)
    return result


@dataclass
class _Parts:
    """The parts of a probe, one after the other: what one leaves behind another may need."""

    stages: Stages
    trajectories: Sequence[Trajectory]
    samples: tuple[Sample, ...]
    network: Network
    wanted: Asked
    held: Held
    fields: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    decoding: Decoding | None = None
    use: UseResults | None = None

    def result(self, run: Path, digest: str) -> Representation:
        """Everything that was asked for, now or before; what cannot be had, with the reason."""
        made = self.held.to_make(self.wanted.parts)
        self.fields |= self.held.fields(made)
        self.left_out |= self.held.left_out(made)
        together = self.held.together(self.wanted)
        positions = present_positions(
            self.samples, self.network.local.tokenizer, self.wanted.positions
        )
        for name in self.wanted.positions:
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
            about={"run": digest} | together.what(),
            left_out=self.left_out,
            **(self.fields | self._joint(present)),
        )

    def _maps(self, wanted: Asked) -> dict[str, Any]:
        captures = captured(
            self.samples,
            self.network,
            self.stages.folder,
            layers=wanted.layers,
            positions=wanted.positions,
            seed=wanted.seed,
            tell=self.stages.tell,
        )
        maps, places, chosen, without = map_stage(self.stages, captures, wanted)
        self.left_out |= without
        decoding = Decoding(captures, self.trajectories, chosen, wanted.seed)
        shares = explained_stage(self.stages, decoding, wanted.positions)
        self.left_out |= shares.get("left_out", {})
        self.decoding = decoding
        return {"maps": maps, "places": places, "chosen": chosen, "explained": shares}

    def _use(self, wanted: Asked) -> dict[str, Any]:
        # Looked for once, and not at all where every answer is kept.
        again = cache(partial(asked_again, self.samples, wanted.use_decisions, wanted.seed))
        self.use = use_stage(self.stages, again, self.network, wanted)
        where = where_stage(self.stages, self.samples, again, self.network, wanted)
        self.left_out |= where.left_out
        if OPEN in wanted.interventions and not any(
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

    def _plan(self, wanted: Asked) -> dict[str, Any]:
        fields, without = plan_stage(self.stages, self.samples, self.network, wanted)
        self.left_out |= without
        return fields

    def _joint(self, wanted: Asked) -> dict[str, Any]:
        """What needs both the decoded maps and the use of cells; the maps alone are pictures."""
        if self.decoding is None:
            return {}
        if self.use is None and USE in self.held.parts and self.stages.kept("use") is not None:
            self.use = use_stage(self.stages, tuple, self.network, wanted)
        shares = {} if self.use is None else self.use.shares
        out: dict[str, Any] = {"states": picture_stage(self.stages, self.decoding, shares)}
        if self.use is not None:
            out["believed"] = believed_stage(self.stages, self.decoding, self.use)
        return out
