"""A reader's copy in JupyterLab: saved, closed and opened again, it still shows its sliders."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import working_copy
from attncourse.panels import STACKED_HEADS
from support.browser_tools import running_jupyterlab
from support.notebook_tools import NOTEBOOKS, ROOT, read
from support.touch_tools import box_of, violations

pytestmark = pytest.mark.browser

CELL = (
    "from attncourse.panels import STACKED_HEADS\n"
    "from attncourse.panels.widgets import PanelBox\n\nPanelBox(STACKED_HEADS)"
)
NAME = "01_lesson.ipynb"


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=reader", "-c", "user.email=reader@example.org")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one short lesson, and the reader's copy of it."""
    if shutil.which("git") is None:
        pytest.skip("no git found")
    folder = tmp_path_factory.mktemp("course")
    (folder / "notebooks").mkdir()
    lesson = read(NOTEBOOKS[0])
    cell = {"cell_type": "code", "id": "c0", "metadata": {}, "outputs": [], "execution_count": None}
    lesson["cells"] = [cell | {"source": CELL}]
    path = folder / "notebooks" / NAME
    path.write_text(json.dumps(lesson), encoding="utf-8")
    shutil.copy(ROOT / ".gitignore", folder)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "The course")
    working_copy.update(folder / "notebooks", folder / "work")
    return folder


@pytest.fixture(scope="module")
def lab(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """JupyterLab with the settings that `make lab` writes."""
    file = tmp_path_factory.mktemp("settings") / "overrides.json"
    working_copy.keep_sliders(file)
    settings = read(file)
    with running_jupyterlab(course, tmp_path_factory.mktemp("home"), settings=settings) as server:
        yield server


@pytest.fixture
def context(browser: Browser, lab: dict) -> Iterator[BrowserContext]:
    context = browser.new_context(
        viewport={"width": 1366, "height": 768},
        base_url=lab["url"],
        extra_http_headers={"Authorization": f"token {lab['token']}"},
    )
    context.set_default_timeout(60_000)
    yield context
    context.close()


def open_lesson(context: BrowserContext, color_scheme: str) -> Page:
    page = context.new_page()
    page.emulate_media(color_scheme=color_scheme)
    page.goto(f"lab/tree/work/{NAME}?reset")
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()
    return page


def stop_kernels(page: Page) -> None:
    for kernel in page.context.request.get("api/kernels").json():
        page.context.request.delete(f"api/kernels/{kernel['id']}")


def test_what_was_saved_is_there_again_with_another_kernel(context, course):
    """And to run and save a copy changes nothing in the repository."""
    page = open_lesson(context, "light")
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    box_of(page, STACKED_HEADS).wait_for()
    page.keyboard.press("Control+s")
    copy = course / "work" / NAME
    for _ in range(300):
        text = copy.read_text(encoding="utf-8")
        if "widget-state" in text and text.endswith("}\n"):  # neither as it was nor half written
            break
        page.wait_for_timeout(100)
    (kept,) = read(copy)["metadata"]["widgets"].values()
    assert any("sheet" in model["state"] for model in kept["state"].values())
    assert git(course, "status", "--porcelain") == ""
    stop_kernels(page)
    page.close()

    page = open_lesson(context, "dark")
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    box = box_of(page, STACKED_HEADS)
    expect(box.get_by_role("status")).to_have_text(
        STACKED_HEADS.page(STACKED_HEADS.default)["line"]
    )
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)
    slider = box.get_by_role("slider", name="num_heads", exact=True)
    slider.press("ArrowRight")
    expect(box.get_by_role("status")).to_have_text(STACKED_HEADS.page({"num_heads": 3})["line"])
    box.get_by_role("gridcell").first.press("ArrowRight")
    expect(box.locator(".attn-hint p")).to_contain_text("head 0 | query step, key journey")
    sheet = box.locator(".attn-sheet").bounding_box()
    assert sheet["y"] + sheet["height"] - box.bounding_box()["y"] < 600
    assert [line for line in violations(page) if "attn-" in line] == []
    assert complaints == []
    stop_kernels(page)
    page.close()


def test_the_settings_keep_what_else_is_set(tmp_path):
    path = tmp_path / "settings" / "overrides.json"
    working_copy.keep_sliders(path)
    assert read(path) == {"@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True}}
    path.write_text('{"other": {"a": 1}, "@jupyter-widgets/jupyterlab-manager:plugin": {"b": 2}}')
    working_copy.keep_sliders(path)
    widgets = {"b": 2, "saveState": True}
    assert read(path) == {"other": {"a": 1}, "@jupyter-widgets/jupyterlab-manager:plugin": widgets}
