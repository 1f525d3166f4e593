"""The course outside its repository: the `attncourse` command.

command is that command, check_file checks a class in a file, lessons finds the notebooks.
"""
