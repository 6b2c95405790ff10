"""`measure`: what the model of a navigation run holds of its worlds, and what of it it acts on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter.gridworld.contents import content
from goalmeter.navigation.playing import load
from goalmeter.navigation.record import Trajectory
from goalmeter.representation.authorship import check_author
from goalmeter.representation.network import Network
from goalmeter.representation.positions import present_positions
from goalmeter.representation.replay import Sample, run_digest, samples_of
from goalmeter.representation.result import FOLDER, Representation
from goalmeter.representation.stages.asked import (
    DECODERS,
    MAPS,
    PARTS,
    PLAN,
    POSITIONS,
    PROBES,
    USE,
    Asked,
    asked,
)
from goalmeter.representation.stages.captures import captured
from goalmeter.representation.stages.held import GROWS, Held
from goalmeter.representation.stages.maps import map_stage
from goalmeter.representation.stages.pictures import picture_stage
from goalmeter.representation.stages.plans import plan_stage
from goalmeter.representation.stages.use import (
    UseResults,
    asked_again,
    believed_stage,
    use_stage,
)
from goalmeter.representation.stages.where import where_stage
from goalmeter.representation.stages.worlds import Decoding, explained_stage
from goalmeter.representation.use.candidates import OPEN, TRIED
from goalmeter.runs import Stages
from goalmeter.runs.progress import Tell

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
