"""Put what a release has into build/release, where its wheel is: the book, the PDFs, its text.

    python tools/release.py v0.2.0

The tag must be the version of pyproject.toml, and CHANGELOG.md must have a section of that version,
which becomes the text of the release.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
ATTACHED = ("site", "pdf")  # folders of build/


def notes(changelog: str, version: str) -> str:
    """Return what a changelog says of a version.

    Raises:
        ValueError: it says nothing of it.
    """
    _, *sections = re.split(r"^## \[(.+?)\].*\n", changelog, flags=re.MULTILINE)
    said = dict(zip(sections[::2], sections[1::2], strict=True)).get(version, "").strip()
    if not said:
        raise ValueError(
            f"CHANGELOG.md says nothing under ## [{version}]; give [Unreleased] that name first"
        )
    return f"{said}\n"


def version_of(tag: str, settings: str) -> str:
    """Return the version that a tag names, which pyproject.toml must have.

    Raises:
        ValueError: it has another.
    """
    version = tomllib.loads(settings)["project"]["version"]
    if tag != f"v{version}":
        raise ValueError(
            f"the tag {tag!r} is not the version of pyproject.toml, {version}; tag v{version}, or "
            "change the version and commit it first"
        )
    return str(version)


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the text and the archives of a release."""
    (tag,) = arguments
    try:
        version = version_of(tag, (root / "pyproject.toml").read_text(encoding="utf-8"))
        said = notes((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    except ValueError as error:
        print(error)
        return 1
    build = root / "build"
    release = build / "release"
    release.mkdir(parents=True, exist_ok=True)
    (release / "notes.md").write_text(said, encoding="utf-8")
    for folder in ATTACHED:
        shutil.make_archive(str(release / f"attention-{version}-{folder}"), "zip", build / folder)
    print(release)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
