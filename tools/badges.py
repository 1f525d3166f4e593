"""Where the public copy of this repository is, and the links that run its notebooks from there.

On a code host a workflow says in its environment where it runs; elsewhere git knows `origin`.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOST = "https://github.com"
COLAB_BRANCH = "colab"  # the workflow `site` keeps the copies for Colab there
REMOTE = re.compile(r"(?:https://|ssh://git@|git@)([\w.-]+)[:/](.+?)(?:\.git)?/?")


def address(root: Path = ROOT) -> str | None:
    """Return the address of the public copy, such as https://github.com/owner/name, or None."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', HOST)}/{name}"
    asked = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:  # no git here
        return None
    found = REMOTE.fullmatch(told)
    return f"https://{found[1]}/{found[2]}" if found else None


def site(at: str | None) -> str | None:
    """Return where the workflow `site` puts the book of a public copy, or None.

    >>> site("https://github.com/owner/name"), site("https://elsewhere.org/owner/name")
    ('https://owner.github.io/name/', None)
    """
    if not at or not at.startswith(f"{HOST}/"):
        return None
    owner, _, name = at.removeprefix(f"{HOST}/").partition("/")
    return f"https://{owner}.github.io/{name}/"


def badges(notebook: str, at: str | None) -> str:
    """Return links, as Markdown, that open a notebook on Colab and on Binder, if it is anywhere."""
    if not at or not at.startswith(f"{HOST}/"):  # they know no other host
        return ""
    name = at.removeprefix(f"{HOST}/")
    colab = f"https://colab.research.google.com/github/{name}/blob/{COLAB_BRANCH}/{notebook}"
    binder = f"https://mybinder.org/v2/gh/{name}/HEAD?urlpath=lab/tree/notebooks/{notebook}"
    return f"Run it: [Colab]({colab}) · [Binder]({binder})"
