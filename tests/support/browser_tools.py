"""A JupyterLab of our own, and a browser to open it in."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import STDOUT, Popen, TimeoutExpired
from time import monotonic, sleep

import pytest
from playwright.sync_api import Browser, Error, Playwright, sync_playwright

BROWSERS = (
    "chromium-headless-shell",  # has no windows, so it needs two thirds of the time
    "chromium",
    "chromium-browser",
    "google-chrome",
)
NO_BROWSER = (
    "no browser found: install Chromium (Debian: apt-get install chromium), or run "
    "`python -m playwright install chromium`, or put the path of one in ATTNLIB_CHROMIUM"
)
START = 60.0  # seconds in which JupyterLab must answer
QUIET = {  # JupyterLab asks nothing and calls nobody
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}


def open_browser(playwright: Playwright) -> Browser | None:
    """Open the browser that ATTNLIB_CHROMIUM names, or one that is installed, or none."""
    path = os.environ.get("ATTNLIB_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), "")
    if path:
        return playwright.chromium.launch(executable_path=path)
    for channel in (None, "chrome", "msedge"):  # Playwright's own, then the system's
        try:
            return playwright.chromium.launch(channel=channel)
        except Error:
            continue
    return None


@contextmanager
def found_browser() -> Iterator[Browser]:
    """Open a browser; where there is none, skip the test, or fail it in CI."""
    with sync_playwright() as playwright:
        found = open_browser(playwright)
        if found is None and os.environ.get("CI") == "true":
            pytest.fail(NO_BROWSER)
        if found is None:
            pytest.skip(NO_BROWSER)
        yield found
        found.close()


@contextmanager
def running_jupyterlab(folder: Path, home: Path, settings: dict) -> Iterator[dict]:
    """Run JupyterLab in a folder; what it writes for itself goes to `home`, not to the user's.

    Yields what the server says of itself: its url (on a free port of this machine) and the token
    that it drew at random.
    """
    overrides = home / "config" / "labconfig" / "default_setting_overrides.json"
    overrides.parent.mkdir(parents=True)
    overrides.write_text(json.dumps(QUIET | settings), encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")} | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),  # settings and workspaces lie in it too
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "IPYTHONDIR": str(home / "ipython"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0"]
    if hasattr(os, "getuid") and os.getuid() == 0:
        command.append("--allow-root")
    log = home / "jupyterlab.log"
    with (
        log.open("wb") as out,
        Popen(command, cwd=folder, env=environment, stdout=out, stderr=STDOUT) as server,
    ):
        try:
            yield _address(server, home / "runtime", log)
        finally:
            server.terminate()
            try:
                server.wait(timeout=20)
            except TimeoutExpired:
                server.kill()


def _address(server: Popen, runtime: Path, log: Path) -> dict:
    """Return what the server writes down about itself once it listens."""
    deadline = monotonic() + START
    while monotonic() < deadline and server.poll() is None:
        for path in runtime.glob("jpserver-*.json"):
            with suppress(json.JSONDecodeError):  # only half written
                return json.loads(path.read_text(encoding="utf-8"))
        sleep(0.1)
    said = log.read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"JupyterLab did not start in {START:g} s:\n{said}")
