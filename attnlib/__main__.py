"""`python -m attnlib` is the `attnlib` command."""

import sys

from attnlib.classroom.command import main

sys.exit(main())
