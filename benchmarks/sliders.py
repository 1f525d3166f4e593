"""How long from a key press to changed pixels, ours beside the usual `interact` and pyplot.

    python benchmarks/sliders.py [--moves 40] [panel ...]

Each panel is shown twice in a notebook of its own, in JupyterLab in a real browser, so that no
panel pays for what another left in the page. Arrow keys move each control back and forth between
neighboring values until every head count has been reached `moves` times (any other control makes
`moves` moves in all, up and down its range). The two ways alternate. The clock runs in the page:
from the key's event until the frame with the new picture is painted.

What came before, a slider of ipywidgets over a widget for each state, was measured the same way;
its figures are in results/former-sliders.json. Compared are the times, and the bytes that the
panels of a notebook send to the browser.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from itertools import cycle, islice, pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from playwright.sync_api import BrowserContext, Locator, Page, sync_playwright
from tqdm import tqdm

from attncourse.panels.states import MOST_BUTTONS, Panel
from attncourse.panels.widgets import PanelBox
from machines import machine, machine_name
from support.browser_tools import NO_BROWSER, open_browser, running_jupyterlab
from support.cases import ALL_PANELS
from support.notebook_tools import ROOT

RESULTS = ROOT / "benchmarks" / "results"
FORMER = json.loads((RESULTS / "former-sliders.json").read_text(encoding="utf-8"))["panels"]
IN_NOTEBOOK = {  # which of our panels each shows
    "02": ("stacked heads",),
    "03": ("weight split",),
    "04": ("number steps",),
    "05": ("torch equality",),
    "06": ("gallery",),
    "07": ("tiles",),
}
OURS, PLAIN = "ours", "interact"
SHARE, WORST = 1 / 3, 100.0  # the goals: of the other's median; milliseconds
ERRORS = "[data-mime-type$='.error']"
SETTLE = 30  # milliseconds from one picture to the next key

START = """cell => {
    const look = () => {
        const svg = cell.querySelector(".attn-picture > svg");  // sometimes only the line turns
        if (svg) return cell.querySelector("[role=status]").textContent + svg.outerHTML;
        const image = cell.querySelector("img");
        if (!image || !image.complete) return null;
        return image.closest(".jp-OutputArea").textContent + image.src;  // text, then image
    };
    let changed = false, before = null, start = null;
    const poll = () => {
        if (changed) {
            changed = false;
            const now = look();
            if (now !== null && now !== before) {
                const { port1, port2 } = new MessageChannel();
                port1.onmessage = () => { window.latency = performance.now() - start; };
                port2.postMessage(null);  // it arrives when this frame has been painted
                return;
            }
            changed = now === null;
        }
        requestAnimationFrame(poll);
    };
    new MutationObserver(() => { changed = true; })
        .observe(cell, {subtree: true, childList: true, characterData: true, attributes: true});
    cell.addEventListener("keydown", () => {
        [before, changed, start, window.latency] = [look(), false, performance.now(), null];
        requestAnimationFrame(poll);
    }, true);
}"""

BURST = """cell => {
    const look = () => cell.querySelector(".attn-picture > svg").outerHTML;
    let before = look();
    const seen = {pictures: 0, lastKey: 0, lastPicture: 0};
    new MutationObserver(() => {
        const now = look();
        if (now === before) return;
        before = now;
        seen.pictures += 1;
        seen.lastPicture = performance.now();
    }).observe(cell, {subtree: true, childList: true, characterData: true, attributes: true});
    cell.addEventListener("keydown", () => { seen.lastKey = performance.now(); }, true);
    window.burst = seen;
}"""
TURNED = """cell => {
    let before = null;
    const find = () => cell.querySelector(".attn-picture > svg").outerHTML;
    new MutationObserver(() => {
        if (window.turned === null && find() !== before) window.turned = performance.now();
    }).observe(cell, {subtree: true, childList: true, characterData: true, attributes: true});
    cell.addEventListener("keydown", () => {
        [before, window.pressed, window.turned] = [find(), performance.now(), null];
    }, true);
}"""
KEYS = 30  # pressed as fast as the browser takes them


def notebook(panel: Panel) -> dict:
    """Return a notebook that shows a panel in two cells, our way and the usual one."""
    cells = [
        "%matplotlib inline\nfrom attncourse.panels.widgets import PanelBox\n"
        "from support.cases import ALL_PANELS\nfrom plain import show_plainly\n"
        f"panel = {{p.name: p for p in ALL_PANELS}}[{panel.name!r}]",
        "PanelBox(panel)",
        "show_plainly(panel)",
    ]
    return {
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{i}",
                "metadata": {},
                "source": source,
                "execution_count": None,
                "outputs": [],
            }
            for i, source in enumerate(cells)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def walk(panel: Panel, control: str, moves: int) -> list[list[Any]]:
    """Return the walks over a control's values; each starts where the one before has ended."""
    values = panel.controls[control]
    if control != "num_heads":
        there_and_back = [*values, *values[-2:0:-1]]
        start = values.index(panel.default[control])
        return [list(islice(cycle(there_and_back), start, start + moves + 1))]
    walks, place = [], values.index(panel.default[control])
    for left in [*range(0, len(values) - 1, 2), *([len(values) - 2] if len(values) % 2 else [])]:
        step = 1 if left > place else -1
        way = [*range(place, left, step), *islice(cycle((left, left + 1)), 2 * moves + 1)]
        walks.append([values[i] for i in way])
        place = way[-1]
    return walks


def move(page: Page, cell: Locator, panel: Panel, control: str, way: list[Any]) -> list[float]:
    """Press the keys that lead along the way; return the milliseconds that each took."""
    values = panel.controls[control]
    focus(page, cell, control)
    taken = []
    for here, there in pairwise(map(values.index, way)):
        page.keyboard.press("ArrowRight" if there > here else "ArrowLeft")
        taken.append(page.wait_for_function("window.latency", polling=10).json_value())
        page.wait_for_timeout(SETTLE)
    return taken


def focus(page: Page, cell: Locator, control: str) -> None:
    """Give the focus to a control: our slider, list or chosen button, or the slider of interact."""
    slider = cell.get_by_role("slider", name=control, exact=True)
    words = cell.get_by_role("combobox", name=control, exact=True)
    buttons = cell.get_by_role("group", name=control, exact=True).locator("input:checked")
    label = page.locator(".widget-label").get_by_text(control, exact=True)  # not a value's word
    plain = cell.locator(".widget-slider", has=label)
    slider.or_(words).or_(buttons).or_(plain.get_by_role("slider")).focus()


def measure(page: Page, panel: Panel, moves: int) -> list[dict]:
    """Return one row for every value of every control: the latencies of both ways."""
    rows: dict[tuple, dict] = {}
    cells = {OURS: cell_of(page, 1), PLAIN: cell_of(page, 2)}
    for cell in cells.values():
        cell.scroll_into_view_if_needed()
        cell.evaluate(START)
    for control in panel.controls:
        for way in walk(panel, control, moves):
            for name, cell in cells.items():
                taken = move(page, cell, panel, control, way)
                for value, milliseconds in zip(way[1:], taken, strict=True):
                    start = {"panel": panel.name, "control": control, "value": value}
                    row = rows.setdefault((control, value), {**start, OURS: [], PLAIN: []})
                    row[name].append(round(milliseconds, 1))
        for cell in cells.values():
            move(page, cell, panel, control, way_back(panel, control, way[-1]))
    return list(rows.values())


def cell_of(page: Page, number: int) -> Locator:
    """Return a cell of the notebook, counted from 0."""
    return page.locator(".jp-Notebook .jp-Cell").nth(number)


def drag(page: Page, cell: Locator, panel: Panel) -> dict:
    """Press many keys at once; return how many pictures came, and how late the last one."""
    control = next(iter(panel.controls))
    values = panel.controls[control]
    cell.evaluate(BURST)
    focus(page, cell, control)
    place = values.index(panel.default[control])
    buttons = isinstance(values[0], str) and len(values) <= MOST_BUTTONS  # these go round
    for i in range(KEYS):
        up = (i // (len(values) - 1)) % 2 == 0
        page.keyboard.press("ArrowRight" if up else "ArrowLeft")
        place += 1 if up else -1
        place = place % len(values) if buttons else min(max(place, 0), len(values) - 1)
    page.wait_for_timeout(1500)
    state = {**panel.default, control: values[place]}
    line = panel.readout(panel.compute(**state))
    seen = page.evaluate("window.burst")
    return {
        "panel": panel.name,
        "keys": KEYS,
        "pictures": seen["pictures"],
        "last_picture_ms": round(seen["lastPicture"] - seen["lastKey"], 1),
        "last_value_shown": cell.get_by_role("status").text_content() == line,
    }


def profile(page: Page, cell: Locator, panel: Panel) -> dict[str, float]:
    """Return where the milliseconds of a move go, as medians over ten moves to and fro."""
    control, values = next(iter(panel.controls.items()))
    here = panel.default[control]
    place = values.index(here)
    there = values[place + 1 if place + 1 < len(values) else place - 1]
    cell.evaluate(TURNED)
    turned, painted = [], []
    for _ in range(5):
        for way in ([here, there], [there, here]):
            (whole,) = move(page, cell, panel, control, way)
            taken = page.evaluate("window.turned - window.pressed")
            turned.append(taken)
            painted.append(whole - taken)
    start = perf_counter()
    PanelBox(panel)
    return {
        "until the page has turned": round(median(turned), 1),
        "until it is painted": round(median(painted), 1),
        "to draw all states, once": round(1000 * (perf_counter() - start), 1),
    }


def way_back(panel: Panel, control: str, value: Any) -> list[Any]:
    """Return the values from one value to the default."""
    values = panel.controls[control]
    here, there = values.index(value), values.index(panel.default[control])
    step = 1 if there >= here else -1
    return [values[i] for i in range(here, there + step, step)]


def summary(rows: list[dict]) -> list[dict]:
    """Return one line for every head count, and one for each other control."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        value = row["value"] if row["control"] == "num_heads" else "all"
        groups.setdefault((row["panel"], row["control"], value), []).append(row)
    lines = []
    for (panel, control, value), members in groups.items():
        ours = [x for row in members for x in row[OURS]]
        plain = [x for row in members for x in row[PLAIN]]
        lines.append(
            {
                "panel": panel,
                "control": f"{control} = {value}" if value != "all" else control,
                "moves": len(ours),
                "median": median(ours),
                "worst": max(ours),
                "plain_median": median(plain),
                "plain_worst": max(plain),
                "holds": median(ours) <= SHARE * median(plain) and max(ours) <= WORST,
            }
        )
    return lines


def table(lines: list[dict]) -> str:
    """Return the lines as text, with what holds."""
    rows = [
        f"goal: median at most 1/3 of interact + pyplot, worst at most {WORST:g} ms",
        f"{'panel':<16} {'control':<16} {'moves':>5} {'median':>7} {'worst':>6} "
        f"{'interact':>9} {'worst':>6} {'ratio':>6}  goal",
    ]
    for line in lines:
        ratio = line["median"] / line["plain_median"]
        rows.append(
            f"{line['panel']:<16} {line['control']:<16} {line['moves']:>5} {line['median']:>7.0f} "
            f"{line['worst']:>6.0f} {line['plain_median']:>9.0f} {line['plain_worst']:>6.0f} "
            f"{ratio:>6.2f}  {'holds' if line['holds'] else 'does not hold'}"
        )
    held = sum(line["holds"] for line in lines)
    return "\n".join([*rows, f"holds on {held} of {len(lines)} lines"])


def payload(panel: Panel) -> int:
    """Return the bytes of a panel that the browser gets, its module and its style included."""
    return len(json.dumps(PanelBox(panel).get_state()))


def against_former(rows: list[dict], payloads: dict[str, int]) -> str:
    """Return as text the times and the bytes beside those of the former sliders."""
    ours: dict[str, list[float]] = {}
    for row in rows:
        ours.setdefault(row["panel"], []).extend(row[OURS])
    lines = [
        "beside the former sliders, from key to picture, in milliseconds",
        f"{'panel':<16} {'median':>7} {'worst':>6} {'former':>9} {'worst':>6}",
    ]
    for name, taken in ours.items():
        was = FORMER.get(name)
        told = f"{was['median_ms']:>9.0f} {was['worst_ms']:>6.0f}" if was else f"{'new':>9}"
        lines.append(f"{name:<16} {median(taken):>7.0f} {max(taken):>6.0f} {told}")
    known = [name for name in ours if name in FORMER]
    if known:
        taken = [x for name in known for x in ours[name]]
        was_median = median(FORMER[name]["median_ms"] for name in known)
        was_worst = max(FORMER[name]["worst_ms"] for name in known)
        now_median = median(median(ours[name]) for name in known)
        slower = now_median > was_median or max(taken) > was_worst
        lines.append(
            f"all of these: median {now_median:.1f}, formerly {was_median:.1f}; worst "
            f"{max(taken):.0f}, formerly {was_worst:.0f}: {'slower' if slower else 'not slower'}"
        )
    lines.append("bytes that the panels of a notebook send, now and formerly")
    for notebook, names in IN_NOTEBOOK.items():
        if not set(names) <= set(payloads):
            continue
        now = sum(payloads[name] for name in names)
        was = sum(old["payload_bytes"] for old in FORMER.values() if old["notebook"] == notebook)
        verdict = "no larger" if now <= was else "LARGER"
        lines.append(f"notebook {notebook} {now:>10,} {was:>10,}  {verdict}")
    return "\n".join(lines)


def details(profiles: dict[str, dict[str, float]], bursts: list[dict]) -> str:
    """Return as text where the milliseconds of a move go, and what many keys at once lead to."""
    lines = ["where a move's milliseconds go (medians):"]
    for name, parts in profiles.items():
        *steps, ahead = (f"{part:.0f} {what}" for what, part in parts.items())
        lines.append(f"{name}: {' + '.join(steps)}; {ahead}")
    for seen in bursts:
        shown = "the last value" if seen["last_value_shown"] else "NOT the last value"
        lines.append(
            f"{seen['panel']}: {seen['keys']} keys at once, {seen['pictures']} pictures; the last "
            f"came {seen['last_picture_ms']:.0f} ms after the last key and shows {shown}"
        )
    return "\n".join(lines)


def measure_all(context: BrowserContext, folder: Path, panels: list[Panel], moves: int) -> dict:
    """Return all that is measured of the panels, each in a notebook that lies in the folder."""
    rows, profiles, bursts = [], {}, []
    for panel in tqdm(panels, unit="panel", file=sys.stdout):
        path = folder / f"{panel.name}.ipynb"
        path.write_text(json.dumps(notebook(panel)), encoding="utf-8")
        page = context.new_page()
        page.goto(f"lab/tree/{path.name}?reset")
        run_all(page)
        rows += measure(page, panel, moves)
        profiles[panel.name] = profile(page, cell_of(page, 1), panel)
        bursts.append(drag(page, cell_of(page, 1), panel))
        page.close()
        for kernel in context.request.get("api/kernels").json():
            context.request.delete(f"api/kernels/{kernel['id']}")
    return {"rows": rows, "profiles": profiles, "bursts": bursts}


def main(arguments: list[str]) -> int:
    """Measure the named panels, or all; print the table, and store every sample of all panels."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("panels", nargs="*", help="names of panels; without any, all")
    parser.add_argument("--moves", type=int, default=40)
    chosen = parser.parse_args(arguments)
    panels = [panel for panel in ALL_PANELS if not chosen.panels or panel.name in chosen.panels]
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        folder = Path(home, "notebooks")
        folder.mkdir()
        browser = open_browser(playwright)
        if browser is None:
            print(NO_BROWSER, file=sys.stderr)
            return 1
        with running_jupyterlab(folder, Path(home, "jupyter")) as server:
            context = browser.new_context(
                viewport={"width": 1400, "height": 1000},
                base_url=server["url"],
                extra_http_headers={"Authorization": f"token {server['token']}"},
            )
            context.set_default_timeout(60_000)
            measured = measure_all(context, folder, panels, chosen.moves)
            version = browser.version
        browser.close()
    print(table(summary(measured["rows"])))
    print(details(measured["profiles"], measured["bursts"]))
    payloads = {panel.name: payload(panel) for panel in panels}
    print(against_former(measured["rows"], payloads))
    if not chosen.panels:
        found = machine()
        goal = {"share": SHARE, "worst_ms": WORST}
        stored = {
            "machine": found,
            "browser": version,
            "goal": goal,
            "payloads": payloads,
            **measured,
        }
        path = RESULTS / f"sliders-{machine_name(found)}.json"
        path.write_text(json.dumps(stored) + "\n", encoding="utf-8")
    return 0


def run_all(page: Page) -> None:
    """Run all cells and wait until both pictures stand."""
    idle = page.locator("#jp-main-statusbar").get_by_text("| Idle")
    idle.wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    both = ".attn-picture > svg", ".jp-OutputArea img"
    have_run = " && ".join(f"document.querySelector({what!r})" for what in both)
    page.wait_for_function(f"({have_run}) || document.querySelector({ERRORS!r})")
    errors = page.locator(ERRORS).all_text_contents()
    if errors:
        raise RuntimeError("\n".join(errors))
    idle.wait_for()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
