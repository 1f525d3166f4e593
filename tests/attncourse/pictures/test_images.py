"""The diagrams are what the script beside them draws, and can be read."""

import io
import runpy

import pytest
from PIL import Image, ImageChops

from attncourse.pictures.scene import PAGE_WIDTH, Scene
from support.notebook_tools import ROOT
from support.pictures import check_readable

IMAGES = ROOT / "images"
DIAGRAMS = runpy.run_path(str(IMAGES / "draw.py"))["DIAGRAMS"]


@pytest.fixture(scope="module", params=sorted(DIAGRAMS))
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def scene(name) -> Scene:
    return DIAGRAMS[name]()


def test_every_image_is_drawn_by_the_script():
    assert {path.name for path in IMAGES.glob("*.png")} == {f"{name}.png" for name in DIAGRAMS}


def test_it_is_as_stored(name, scene):
    """Pixel by pixel; another processor may round a color differently, but no digit is so pale."""
    images = [Image.open(file).convert("RGB") for file in (IMAGES / f"{name}.png", drawn(scene))]
    assert images[0].size == images[1].size
    largest = max(high for _, high in ImageChops.difference(*images).getextrema())
    assert largest <= 8, f"{name}.png differs: run `make images`"


def test_its_words_can_be_read(scene):
    assert len(scene.alt) > 100
    assert scene.width <= PAGE_WIDTH  # a page shows it as large as it is drawn
    check_readable(scene)


def drawn(scene: Scene) -> io.BytesIO:
    return io.BytesIO(scene.png())
