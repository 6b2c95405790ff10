"""The kinds of runs: their commands, what these need, and what of them is compared.

Each is as small as it can be and still have many trials or stages. Three have a scale that no
option makes so small; it is set in the process that runs the command, before it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from faults.running import learnt


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    Attributes:
        name: as the table has it.
        words: what follows `goalmeter`, without where its trials run.
        places: what is added to say where, by a name; the results are the same for all of them.
            {address} stands for that of a Ray cluster.
        imports: modules without which it cannot be run.
        runs: folders, each with a run.json and a trials.jsonl.
        files: patterns of all other files that are compared, byte for byte.
        inputs: what has to be there first: commands, by the folder that they make.
        texts: files that have to be there first, by their names.
        weight: how often it is drawn, beside the others.
        smaller: called before the command begins.
    """

    name: str
    words: str
    places: Mapping[str, str]
    imports: tuple[str, ...] = ()
    runs: tuple[str, ...] = ("run",)
    files: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    weight: int = 1
    smaller: Callable[[], None] = lambda: None

    def where(self, *, ray: bool, others: int | None = None) -> Kind:
        """The same in fewer places: with a Ray cluster or without; of the others the first few."""
        names = [name for name in self.places if name != RAY][:others]
        names += [RAY] * (ray and RAY in self.places)
        return replace(self, places={name: self.places[name] for name in names})

    @property
    def is_possible(self) -> bool:
        """Whether everything that it needs is installed."""
        try:
            for module in self.imports:
                import_module(module)
        except ImportError:
            return False
        return True

    def prepare(self, folder: Path) -> None:
        """Make its inputs, once, in a folder that is then copied."""
        folder.mkdir(parents=True)
        for name, text in self.texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        for words in self.inputs.values():
            ended = learnt(words.split(), folder, self.smaller)
            if ended.status != 0:
                raise RuntimeError(f"goalmeter {words} has no result: {ended.err[-2000:]}")


_SWEEP = """
[[worlds]]
generator = "cliff_world"
goal_length = [1, 2, 3, 4]
horizon = {from = 5, count = 10}

[[policies]]
policy = "epsilon_greedy"
epsilon = [0, 0.1]

[[utilities]]
utility = "reward"

[[utilities]]
unknown = "state"
"""
_HERE = "here"
PROCESSES = {_HERE: "--on here"} | {f"processes:{n}": f"--workers {n}" for n in (2, 1, 4)}
RAY, SLURM = "ray", "slurm"
_CLUSTERS = {RAY: "--on ray:{address}", SLURM: "--on slurm:cluster=local,jobs=2"}
_ALONE = {"here": ""}
# Places in which the command works itself.
WITHOUT_WORKERS = ("here", "1 process")
_LM = ("inspect_ai", "goalmeter.agents.inspect_providers")
_TORCH = ("torch", "transformers", "safetensors.torch")
_MAZES = "--sizes 5,7 --complexities 0,1 --grids 4 --trajectories 2"


def _frequent_checkpoints() -> None:
    from goalmeter.organisms import training

    training._SAVE_EVERY = training._TELL_EVERY = 0.0


def _impatient_jobs() -> None:
    from goalmeter.runs.backends import slurm

    # Seconds after which the jobs of a killed command leave.
    setattr(slurm, "PATIENCE", 12.0)  # noqa: B010 (a name that it imports)


def _small_chunks() -> None:
    from goalmeter.meg.sweeps import plan

    setattr(plan, "MOST_STATES", 120)  # noqa: B010 (a name that it imports)
    _impatient_jobs()


def _small_populations() -> None:
    from replications.calibration import study
    from replications.calibration.population.evidence import PopulationScale

    study.POPULATION = PopulationScale(
        agents=20, grids=2, sizes=(7,), complexities=(0.0, 0.9), walks=1
    )


KINDS = (
    Kind(
        "reflect",
        "reflect naive --steps 25 --seeds 2 --out run",
        PROCESSES | _CLUSTERS,
        weight=4,
        smaller=_impatient_jobs,
    ),
    Kind(
        "navigate",
        f"navigate greedy {_MAZES} --out run",
        PROCESSES | _CLUSTERS,
        weight=4,
        smaller=_impatient_jobs,
    ),
    Kind(
        "navigate, by Inspect",
        "navigate goalmeter/boltzmann(2) --sizes 5 --complexities 0,1 --grids 4 --trajectories 2 "
        "--out run",
        _ALONE,
        imports=_LM,
        weight=2,
    ),
    Kind(
        "sweep",
        "meg sweep sweep.toml --out run --csv rows.csv",
        PROCESSES | _CLUSTERS,
        files=("rows.csv",),
        texts={"sweep.toml": _SWEEP},
        smaller=_small_chunks,
        weight=2,
    ),
    Kind(
        "calibration",
        "replicate calibration --agents none --out out",
        PROCESSES,
        imports=("jinja2", "matplotlib"),
        runs=(),
        files=("out/*.json", "out/*.md", "out/*.html", "out/figures/*"),
        smaller=_small_populations,
    ),
    Kind(
        "probe",
        "probe run --parts maps --layers 1 --positions post/end",
        _ALONE,
        imports=(*_LM, *_TORCH),
        runs=("run/probe",),
        files=("run/probe/*.json", "run/probe/*.md", "run/probe/*/*"),
        inputs={
            "run": "navigate goalmeter/mouse --sizes 7 --complexities 0.6 --grids 6 "
            "--trajectories 1 --cap-factor 1 --out run"
        },
    ),
    Kind(
        "train-organism",
        "train-organism moth --steps 3 --sizes 5 --no-keys --device cpu --out weights",
        {"1 process": "--workers 1", "2 processes": "--workers 2"},
        imports=_TORCH,
        runs=(),
        files=("weights/*",),
        smaller=_frequent_checkpoints,
    ),
    Kind(
        "report",
        "report naive greedy --out page.html",
        _ALONE,
        imports=("jinja2", "matplotlib"),
        runs=(),
        files=("page.html",),
        inputs={
            "naive": "reflect naive --steps 25 --seeds 2 --out naive",
            "greedy": f"navigate greedy {_MAZES} --out greedy",
        },
        weight=2,
    ),
)
