"""The `attnlib` command, which is also `python -m attncourse`."""

import sys


def main() -> int:
    """Run the command, or say what to install where the course is missing."""
    try:
        from attncourse.classroom.command import main as run

        return run()
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("attn"):
            raise
        print(
            f"The course needs {missing.name}, which is not installed here; "
            'try: pip install "attnlib[course]"',
            file=sys.stderr,
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())
