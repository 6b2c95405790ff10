"""A process that has imported goalmeter once, and forks for each command that it reads.

Importing takes longer than most of the commands do. Each line of standard input is a JSON object:
`words` (what follows `goalmeter`) or `program` (a text of Python), and `folder`; the answer is the
exit status. What the command prints is in the files `.out` and `.err` of the folder.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

# What most commands import sooner or later; a package that is missing is imported by none.
PACKAGES = ("numpy", "scipy.stats", "scipy.optimize", "opt_einsum", "jinja2", "matplotlib.figure")


def main() -> None:
    """Answer until standard input ends."""
    for package in (*PACKAGES, "goalmeter.cli"):
        try:
            importlib.import_module(package)
        except ModuleNotFoundError:
            if package == "goalmeter.cli":
                raise
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(task: dict[str, Any]) -> None:
    folder = Path(task["folder"])
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDONLY)
    flags = os.O_WRONLY | os.O_CREAT
    out, err = (os.open(folder / name, flags, 0o600) for name in (".out", ".err"))
    for number, stream in enumerate((nothing, out, err)):
        os.dup2(stream, number)
    status: object = 0
    try:
        if "program" in task:
            exec(compile(task["program"], "program", "exec"), {"__name__": "program"})
        else:
            from goalmeter import cli

            sys.argv = ["goalmeter", *task["words"]]
            cli.main()
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the handlers of the process that was forked, which are its own.
    os._exit(status if isinstance(status, int) else 1)


main()
