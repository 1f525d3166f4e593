"""Shared by all tests. Nothing is seeded here: a test that draws numbers sets its own seed."""

import os

os.environ.pop("MPLBACKEND", None)  # a kernel chooses its own
pytest_plugins = ["support.nbval_plugin"]
