"""`python -m attnlib` is the `attnlib` command."""

import sys

from attnlib.classroom.command import main

if __name__ == "__main__":
    sys.exit(main())
