"""What makes the lessons: checks, panels, pictures, tracing, models, and the `attncourse` command.

Import from its folders, each of which has the one list of its names. It imports attnlib, never the
other way round. It is a distribution of its own: attncourse/pyproject.toml.
"""
