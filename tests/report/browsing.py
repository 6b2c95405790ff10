"""A report's page in a real browser, in a frame of some width and in a scheme of colours."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
# The browser's own words for the schemes that a reader can choose.
SCHEMES = {"light": 1, "dark": 0}


@pytest.fixture(scope="session")
def browser() -> str:
    for name in NAMES:
        if path := shutil.which(name):
            return path
    message = f"no browser: install Chromium, so that one of {', '.join(NAMES)} is on the PATH"
    if os.environ.get("GOALMETER_REQUIRE_BROWSER") == "1":
        pytest.fail(message)
    pytest.skip(message)


def asked(
    browser: str, page: Path, folder: Path, script: str, *, width: int = 1200, scheme: str = "light"
) -> Any:
    """What a script says of the page, as JSON.

    The page allows no script and stands in a frame, which also has the width that a window cannot
    have; the script runs outside and is given the frame's `view` (window) and `page` (document).

    Args:
        browser: its command.
        page: the file.
        folder: for what the browser writes.
        script: the body of a function of `view` and `page`, which may await; what it returns.
        width: of the frame, CSS pixels.
        scheme: "light" or "dark".
    """
    text = html.escape(page.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / "probe.html"
    probe.write_text(
        f"""<!DOCTYPE html><meta charset="utf-8"><title></title>
        <meta name="color-scheme" content="light dark">
        <iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{text}"></iframe>
        <script>
        document.querySelector("iframe").onload = async event => {{
          const view = event.target.contentWindow, page = event.target.contentDocument;
          const answer = await (async () => {{ {script} }})();
          document.title = "answer " + JSON.stringify(answer);
        }};
        </script>""",
        encoding="utf-8",
    )
    options = (
        *("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        *("hide-scrollbars", f"user-data-dir={folder / 'profile'}", "window-size=1600,900"),
        f"blink-settings=preferredColorScheme={SCHEMES[scheme]}",
        *("virtual-time-budget=8000", "dump-dom"),
    )
    command = [browser, *(f"--{option}" for option in options), probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    title = re.search(r"<title>answer (.*?)</title>", done.stdout, re.DOTALL)
    assert title, "the page did not load in the frame"
    return json.loads(html.unescape(title[1]))
