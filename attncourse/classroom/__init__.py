"""The course in a class: copies for learners, notebooks without solutions, answers graded.

exercises finds the exercises of a notebook, lessons the notebooks themselves, sandbox runs what may
be hostile, grade turns a folder of notebooks into a table, command is the `attnlib` command.
"""
