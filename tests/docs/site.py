"""The site built without its gallery's programs, and its pages in a real browser."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..report.browsing import SCHEMES

ROOT = Path(__file__).resolve().parents[2]
# Of the repository, what pages link to or are generated from.
BESIDE = ("src", "benchmarks", "replications", "tests", "README.md", "pyproject.toml")
GENERATED = ("auto_gallery", "reference")


def build_site(folder: Path) -> Path:
    """Build the site in a folder of its own; a warning is an error."""
    ignored = shutil.ignore_patterns(*GENERATED)
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=ignored)
    for name in (*BESIDE, *(path.name for path in ROOT.glob("*.md") if path.name not in BESIDE)):
        (folder / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0"]
    done = subprocess.run(
        [*command, "-b", "html", "docs", "site"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Print no requests."""


def axe() -> str:
    """Return the script of axe-core."""
    package = find_spec("axe_core_python")
    assert package and package.origin, "install axe-core-python, of the extra dev"
    return Path(package.origin).with_name("axe.min.js").read_text("utf-8")


def visit(
    browser: str, site: Path, visits: list[tuple[str, int]], script: str, scheme: str
) -> tuple[dict[str, Any], list[str]]:
    """Open pages one after the other, and return what a script says of each, and what it logs.

    Args:
        browser: its command.
        site: folder of the site; it gets two files more.
        visits: page and width in CSS pixels.
        script: body of a function of `view` (window) and `page` (document), which may await.
        scheme: "light" or "dark".
    """
    (site / "axe.js").write_text(axe(), encoding="utf-8")
    (site / "probe.html").write_text(
        f"""<!DOCTYPE html><meta charset="utf-8"><title></title><link rel="icon" href="data:,">
        <meta name="color-scheme" content="light dark">
        <body><script>
        const visit = (url, width) => new Promise(done => {{
          const frame = document.createElement("iframe");
          frame.style = `width: ${{width}}px; height: 900px; border: 0`;
          frame.onload = async () => {{
            const view = frame.contentWindow, page = frame.contentDocument;
            const answer = await (async () => {{ {script} }})();
            frame.remove();
            done(answer);
          }};
          frame.src = url;
          document.body.append(frame);
        }});
        (async () => {{
          const answers = {{}};
          for (const [url, width] of {json.dumps(visits)})
            answers[`${{url}} at ${{width}}`] = await visit(url, width);
          document.title = "answer " + JSON.stringify(answers);
        }})();
        </script></body>""",
        encoding="utf-8",
    )
    options = (
        *("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        *("hide-scrollbars", f"user-data-dir={site.parent / f'profile-{scheme}'}"),
        *("window-size=1600,900", "enable-logging=stderr", "virtual-time-budget=600000"),
        *(f"blink-settings=preferredColorScheme={SCHEMES[scheme]}", "dump-dom"),
    )
    with served(site) as address:
        done = subprocess.run(
            [browser, *(f"--{option}" for option in options), f"{address}/probe.html"],
            capture_output=True,
            encoding="utf-8",
            timeout=600,
        )
    title = re.search(r"<title>answer (.*?)</title>", done.stdout, re.DOTALL)
    assert title, f"the pages did not load: {done.stderr[-2000:]}"
    logged = re.findall(r":CONSOLE[^\]]*\] (.*)", done.stderr)
    return json.loads(html.unescape(title[1])), logged
