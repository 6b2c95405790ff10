"""The command line. It reads options and prints; the work is in `goalmeter.experiments`.

Results go to standard output, as tables, or with --json as one JSON object and nothing else.
Progress and errors go to standard error. Exit status: 0, or 2 for anything the user can mend.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import goalmeter
from goalmeter._errors import GoalmeterError, MissingExtraError

if TYPE_CHECKING:
    from goalmeter.experiments.outcome import Outcome

# 128 + the number of the signal, as shells give it; and what typer gives for a closed pipe.
INTERRUPTED, PIPE_CLOSED = 130, 1

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
def replicate(
    name: Annotated[str, typer.Argument(help="Which: meg-cliffworld.")],
    out: Annotated[Path | None, typer.Option(help="Folder; default runs/NAME.")] = None,
    seeds: Annotated[int, typer.Option(min=0, help="Neural runs for each policy.")] = 5,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """A published table, ours beside theirs; ends with the path of report.html."""
    from goalmeter.experiments import replication

    run = replication(name)
    folder = Path("runs") / name if out is None else out
    show(run(folder, seeds=seeds, seed=seed, progress=tell), as_json=json)


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
    """Report progress."""
    from goalmeter.report.terminal import printable

    print(printable(line), file=sys.stderr, flush=True)


def main() -> None:
    """The entry point: runs the command and turns errors into one line and a status."""
    # Names and tables hold Greek letters, whatever the locale is.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
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
        # Whoever read our output has closed it. Python would try to flush again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(PIPE_CLOSED)
