"""Builds the wheel: the settings are in pyproject.toml; here, the notebooks come in as well."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithCourse(build_py):
    """Put the notebooks and their images where attncourse.classroom.lessons finds them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        here, course = Path(__file__).parent, Path(self.build_lib) / "attncourse/classroom/course"
        for folder, pattern in (("notebooks", "*.ipynb"), ("images", "*.png")):
            (course / folder).mkdir(parents=True, exist_ok=True)
            for file in (here / folder).glob(pattern):
                shutil.copy2(file, course / folder / file.name)


setup(cmdclass={"build_py": BuildWithCourse})
