"""The command line. It reads options and prints; the work is in `goalmeter.experiments`.

Results go to standard output, as tables, or with --json as one JSON object and nothing else.
Progress and errors go to standard error. Exit status: 0, 2 for anything the user can mend, or 1 for
a result that could not be written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import goalmeter
from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter.runs import streams

if TYPE_CHECKING:
    from goalmeter.experiments.outcome import Outcome

# 128 + the number of the signal, as shells give it; and what typer gives for a closed pipe.
INTERRUPTED, PIPE_CLOSED = 130, 1
UNWRITTEN = 1

app = typer.Typer(
    help="Measure how goal-directed an agent is: towards what, and how strongly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
meg = typer.Typer(
    help="Maximum entropy goal-directedness of one agent.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(meg, name="meg")

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes that work at once; default one a core.")
]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Measure how goal-directed an agent is: towards what, and how strongly."""
    if version:
        print(f"goalmeter {goalmeter.__version__}")
        raise typer.Exit


@meg.callback()
def meg_root() -> None:
    """Maximum entropy goal-directedness of one agent."""


@meg.command("mdp")
def meg_mdp(
    mdp: Annotated[Path, typer.Argument(metavar="MDP.npz", help="The world.")],
    policy: Annotated[
        Path | None, typer.Option(metavar="POLICY.npz", help="The policy to measure.")
    ] = None,
    trajectories: Annotated[
        Path | None, typer.Option(metavar="T.npz", help="Or the logged trajectories to measure.")
    ] = None,
    unknown: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="Towards the best utility of a class instead of the reward: state, state-action, "
            "time-state, network, or a features file.",
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="POLICY.npz", help="The policy that scores 0; default uniform."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """MEG of a policy, or of logged trajectories, in an MDP."""
    from goalmeter.experiments.measure_mdp import measure_mdp

    outcome = measure_mdp(
        mdp,
        policy=policy,
        trajectories=trajectories,
        unknown=unknown,
        reference=reference,
        seed=seed,
        progress=tell,
    )
    show(outcome, as_json=json)


@meg.command("causal")
def meg_causal(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL.bif", help="The network: .bif, .xmlbif, or packed.")
    ],
    decision: Annotated[
        list[str],
        typer.Option(
            metavar="D", help="A candidate decision, its policy the model's CPD; repeat for more."
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="T", help="A variable that the goal may be about; repeat for more."),
    ] = None,
    utility: Annotated[
        Path | None, typer.Option(metavar="UTILITY.json", help="Or a known utility.")
    ] = None,
    sensitivity: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="Or a table of every set of up to K targets."),
    ] = None,
    do: Annotated[
        list[str] | None,
        typer.Option(metavar="X=x", help="Measure under this intervention; repeat to set more."),
    ] = None,
    shift: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X=x[,Y=y]",
            help="Does the goal predict in this changed world too? Repeat for more worlds.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE.csv", help="Observed outcomes, to measure instead of the model's policy."
        ),
    ] = None,
    drawing: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the diagram to this file.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """MEG of variables of a causal model, towards others or towards a utility."""
    from goalmeter.experiments.measure_causal import measure_causal

    outcome = measure_causal(
        model,
        decisions=decision,
        targets=target or (),
        utility=utility,
        sensitivity=sensitivity,
        do=do or (),
        shift=shift or (),
        data=data,
        drawing=drawing,
        seed=seed,
        progress=tell,
    )
    show(outcome, as_json=json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("goalmeter-demo"),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure the embedded agents; ends with the path of report.html."""
    from goalmeter.experiments.demo import demo as run

    show(run(out, seed=seed, progress=tell), as_json=json)


@app.command()
def reflect(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT", help="A name, such as rc(naive), or your own: FILE.py:NAME."
        ),
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Play this and its opposite, or opposite(NAME) alone; FILE.py:NAME for your own; "
            "repeat for more. Default: the paper's battery.",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Length of each trial, in percepts.")] = 500,
    seeds: Annotated[int, typer.Option(min=1, help="How many times each is played.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Folder to keep the trials in, or to continue from."),
    ] = None,
    workers: Workers = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds for a trial, 0 for no limit; default 60 for your own code."
        ),
    ] = None,
    opposite_reading: Annotated[
        str, typer.Option(metavar="literal|unnegated", help="What an opposite is.")
    ] = "literal",
    step_counting: Annotated[
        str, typer.Option(metavar="percepts|actions", help="What a step is.")
    ] = "percepts",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT",
            help="Compare with this agent on the same trials; with --out RUN they are kept in the "
            "folder RUN.against.",
        ),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="Show the environments and agents that have names.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    json: Json = False,
) -> None:
    """Self-reflection of an agent: how it does in environments that simulate it."""
    if list_all:
        from goalmeter.experiments.reflect_list import catalogue

        show(catalogue(), as_json=json)
        return
    from goalmeter.experiments.reflect import reflect as run

    try:
        outcome = run(
            agent,
            environments=environment or (),
            steps=steps,
            seeds=seeds,
            seed=seed,
            out=out,
            workers=workers,
            timeout=timeout,
            opposite_reading=opposite_reading,
            step_counting=step_counting,
            against=against,
            progress=tell,
        )
    except KeyboardInterrupt:
        tell(
            "goalmeter: nothing is kept; with --out RUN the finished trials would have been"
            if out is None
            else f"goalmeter: {out} keeps what is finished; the same command continues it"
        )
        raise
    show(outcome, as_json=json)


@app.command()
def navigate(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", help="A reference agent, such as greedy or boltzmann(2)."),
    ] = None,
    suite: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Which worlds: maze, isometries, key-door, key-no-door or two-path.",
        ),
    ] = "maze",
    sizes: Annotated[
        str | None, typer.Option(metavar="7,9", help="Rows of the grids, odd.")
    ] = None,
    complexities: Annotated[
        str | None,
        typer.Option(metavar="0,0.5,1", help="Of mazes: from 0, a room, to 1, a perfect maze."),
    ] = None,
    grids: Annotated[
        int | None, typer.Option(min=1, help="Grids of each size and complexity.")
    ] = None,
    trajectories: Annotated[int | None, typer.Option(min=1, help="Walks through each.")] = None,
    transforms: Annotated[
        str | None,
        typer.Option(metavar="reflect,swap", help="Frames of isometries; default all."),
    ] = None,
    distance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOW-HIGH", help="Mazes by their shortest path; repeat for more strata."
        ),
    ] = None,
    detour: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOW-HIGH",
            help="Mazes by how much longer it is than as the crow flies; repeat for more.",
        ),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's scale and caps, where none is given.")
    ] = False,
    cap: Annotated[
        int | None, typer.Option(min=1, help="Steps after which a walk is ended.")
    ] = None,
    meg_too: Annotated[
        bool,
        typer.Option("--meg", help="Goal-directedness towards goal and key too; takes a while."),
    ] = False,
    cap_factor: Annotated[
        float | None,
        typer.Option(min=1, help="The same as a multiple of the shortest path; default 3."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Folder to keep the walks in, or to continue from."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that walk at once.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the grids and of the walks.")] = 0,
    json: Json = False,
) -> None:
    """Behaviour of an agent in grid worlds, beside agents that plan, follow a compass, or err."""
    from goalmeter.experiments.navigate import bounds, numbers, words
    from goalmeter.experiments.navigate import navigate as run

    try:
        outcome = run(
            agent,
            suite=suite,
            sizes=numbers("--sizes", sizes, int),
            complexities=numbers("--complexities", complexities, float),
            grids=grids,
            trajectories=trajectories,
            transforms=words(transforms),
            distances=bounds("--distance", distance),
            detours=bounds("--detour", detour),
            paper=paper,
            cap=cap,
            cap_factor=cap_factor,
            meg=meg_too,
            out=out,
            workers=workers,
            seed=seed,
            progress=tell,
        )
    except KeyboardInterrupt:
        if out is not None:
            tell(f"goalmeter: {out} keeps what is finished; the same command continues it")
        raise
    show(outcome, as_json=json)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of finished runs.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    seed: Annotated[int, typer.Option(min=0, help="Not used: nothing here is random.")] = 0,
    json: Json = False,
) -> None:
    """One page about finished runs; ends with its path."""
    from goalmeter.experiments.report_runs import report_runs

    show(report_runs(runs, out, progress=tell), as_json=json)


@app.command()
def replicate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Which: meg-cliffworld, reflection-table-1, tempting-button, lm-navigation.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Folder; default runs/NAME.")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=0, help="How many; default as the experiment has it.")
    ] = None,
    workers: Workers = None,
    agents: Annotated[
        str | None,
        typer.Option(
            metavar="scripted|neural|all",
            help="Rows of reflection-table-1; or names, with commas between them.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Length of the trials, where it can be chosen.")
    ] = None,
    run_folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--run", metavar="RUN", help="A run to show in lm-navigation; repeat for more."
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """A published table, ours beside theirs; ends with the path of report.html."""
    from goalmeter.experiments import replication
    from goalmeter.runs import cores

    given = {"agents": agents, "steps": steps, "run": run_folders}
    own = {option: value for option, value in given.items() if value is not None}
    run = replication(name, own)
    folder = Path("runs") / name if out is None else out
    outcome = run(folder, seeds=seeds, seed=seed, workers=workers or cores(), progress=tell, **own)
    show(outcome, as_json=json)


def show(outcome: Outcome, *, as_json: bool) -> None:
    """Print a result: JSON, or its text, its tables and then the report's path."""
    if as_json:
        from goalmeter.experiments.outcome import json_text

        print(json_text(outcome.json))
        return
    from goalmeter.report.terminal import print_tables, printable

    if outcome.text:
        print(f"{printable(outcome.text)}\n")
    print_tables(outcome.tables)
    if outcome.report is not None:
        print(outcome.report)


def tell(line: str) -> None:
    """Report progress, if somebody can hear it."""
    from goalmeter.report.terminal import printable

    if sys.stderr is not None:  # print would take standard output for it
        print(printable(line), file=sys.stderr, flush=True)


def main() -> None:
    """The entry point: runs the command and turns errors into one line and a status."""
    streams.prepare()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except (GoalmeterError, MissingExtraError) as error:
        tell(f"goalmeter: {error}")
        sys.exit(2)
    except MemoryError as error:
        tell(f"goalmeter: this takes more memory than there is ({error}); use a smaller world")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        streams.leave(PIPE_CLOSED)  # whoever read our output has closed it
    except streams.UnwrittenError as error:
        tell(f"goalmeter: the result cannot be written to standard output: {error}")
        streams.leave(UNWRITTEN)
