"""The `attncourse` command, which is also `python -m attncourse`."""

import sys

from attncourse.classroom.command import main

if __name__ == "__main__":
    sys.exit(main())
