// A panel in a page: its controls, its text, and the pictures of the state that they choose. Every
// state arrives drawn, with what the cells of its maps say; nothing is computed here. JupyterLab
// imports this module as a widget, a page without a kernel calls mount() with the same data.

const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const SPEED = 900; // milliseconds a step, when a control plays
const MOST_TEXTS = 12; // the room of so many of the longest texts is reserved

function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
}

// A number: a native range over the indexes of its values, spoken as the value itself.
function range(control, choose) {
    const last = control.words.length - 1;
    const input = element("input", { type: "range", min: 0, max: last, step: 1 });
    const shown = element("output", { "aria-hidden": "true" });
    shown.style.width = `${Math.max(...control.words.map(word => word.length)) + 1}ch`;
    input.addEventListener("input", () => choose(Number(input.value)));
    const label = element("label", {}, control.name, input, shown);
    return {
        box: element("div", { class: "attn-control" }, label),
        show(index) {
            input.value = index;
            input.setAttribute("aria-valuetext", control.words[index]);
            shown.textContent = control.words[index];
        },
    };
}

// A few words: a row of radio buttons. Many: a list.
function radios(control, choose) {
    const inputs = control.words.map((word, index) => {
        const input = element("input", { type: "radio", name: control.name, value: index });
        input.addEventListener("change", () => choose(index));
        return input;
    });
    const labels = inputs.map((input, index) => element("label", {}, input, control.words[index]));
    const legend = element("legend", {}, control.name);
    return {
        box: element("fieldset", { class: "attn-control" }, legend, ...labels),
        show(index) { inputs[index].checked = true; },
    };
}

function list(control, choose) {
    const options = control.words.map((word, index) => element("option", { value: index }, word));
    const select = element("select", {}, ...options);
    select.addEventListener("change", () => choose(Number(select.value)));
    const label = element("label", {}, control.name, select);
    return {
        box: element("div", { class: "attn-control" }, label),
        show(index) { select.value = index; },
    };
}

// A range, with a button that plays it and one that goes a step further.
function player(control, choose) {
    const last = control.words.length - 1;
    const play = element("button", { type: "button" }, "Play");
    const next = element("button", { type: "button" }, "Step");
    let current = 0, timer = null;
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
    const further = () => choose(current < last ? current + 1 : 0);
    next.addEventListener("click", () => { stop(); further(); });
    play.addEventListener("click", () => {
        if (timer !== null) return stop();
        further();
        timer = setInterval(() => { if (current < last) further(); else stop(); }, SPEED);
        play.textContent = "Pause";
    });
    const made = range(control, index => { stop(); choose(index); });
    if (!STILL.matches) made.box.append(play);
    made.box.append(next);
    return { box: made.box, stop, show(index) { current = index; made.show(index); } };
}

const KINDS = { number: range, words: radios, list, player };

// Put boxes into one grid cell, so that its room is that of the largest; all but the first are hidden.
function stack(shown, others) {
    for (const other of others) other.setAttribute("aria-hidden", "true");
    return element("div", { class: "attn-room" }, shown, ...others);
}

// A text that changes, in the room of the longest of all texts.
function textBox(name, attributes, texts) {
    const longest = [...new Set(texts)].sort((one, other) => other.length - one.length);
    const shown = element(name, attributes);
    const box = stack(shown, longest.slice(0, MOST_TEXTS).map(text => element(name, {}, text)));
    box.hidden = !longest[0];
    return { box, show(text) { shown.textContent = text; } };
}

// Put an element over a part of a picture, in pixels of the picture.
function place(over, { width, height }, x, y, wide, high) {
    const percent = share => `${100 * share}%`;
    over.style.left = percent(x / width);
    over.style.top = percent(y / height);
    over.style.width = percent(wide / width);
    over.style.height = percent(high / height);
    return over;
}

// A map of weights: a grid of which one cell is in the page at a time. Pointer or arrow keys move it.
function heatmap(map, picture, say) {
    const count = map.cells.length, side = map.cell * count;
    const cell = element("div", { role: "gridcell", tabindex: 0 });
    const row = element("div", { role: "row" }, cell);
    const counts = { "aria-rowcount": count, "aria-colcount": count };
    const grid = element("div", { role: "grid", "aria-label": map.name, ...counts }, row);
    let query = count - 1, key = 0;
    const move = (...to) => {
        [query, key] = to.map(i => Math.min(Math.max(i, 0), count - 1));
        place(cell, { width: count, height: count }, key, query, 1, 1);
        row.setAttribute("aria-rowindex", query + 1);
        cell.setAttribute("aria-colindex", key + 1);
        const told = map.cells[query][key];
        cell.setAttribute("aria-label", `${map.name}; query ${map.tokens[query]}, key ${map.tokens[key]}: ${told}`);
    };
    const reach = (...to) => { move(...to); say(cell.getAttribute("aria-label")); };
    for (const kind of ["pointermove", "click"]) {
        grid.addEventListener(kind, ({ clientX, clientY }) => {
            const room = grid.getBoundingClientRect(), size = room.width / count;
            reach(Math.floor((clientY - room.y) / size), Math.floor((clientX - room.x) / size));
        });
    }
    cell.addEventListener("focus", () => reach(query, key));
    cell.addEventListener("keydown", event => {
        const ways = {
            ArrowUp: [query - 1, key],
            ArrowDown: [query + 1, key],
            ArrowLeft: [query, key - 1],
            ArrowRight: [query, key + 1],
            Home: [query, 0],
            End: [query, query],
        };
        if (!ways[event.key]) return;
        reach(...ways[event.key]);
        event.preventDefault();
    });
    move(query, key);
    return place(grid, picture, map.x, map.y, side, side);
}

function figure({ width }, ...children) {
    const made = element("div", { class: "attn-figure" }, ...children);
    made.style.setProperty("--attn-width", width);
    return made;
}

// Return what pack() has compressed.
function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed), letter => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).json();
}

// Put a panel into an element; return what ends its motion.
export async function mount(root, packed) {
    const panel = await unpack(packed);
    const chosen = Object.fromEntries(panel.controls.map(c => [c.name, c.start]));
    const index = () => panel.controls.reduce((sum, c) => sum * c.words.length + chosen[c.name], 0);
    const pictures = panel.pages.map(page => page.pictures.map(i => panel.pictures[i]));
    const line = textBox("p", { role: "status" }, panel.pages.map(page => page.line));
    const details = textBox("pre", {}, panel.pages.map(page => page.details));
    const shown = element("div", { class: "attn-pictures" });
    const sizes = new Map(pictures.map(some => [some.map(({ width, height }) => [width, height]).join(" "), some]));
    const room = [...sizes.values()].map(some => element("div", { class: "attn-pictures" }, ...some.map(picture => {
        const made = figure(picture);
        made.style.aspectRatio = `${picture.width} / ${picture.height}`;
        return made;
    })));
    const hasMaps = panel.pictures.some(picture => picture.maps.length);
    const hint = element("p", { class: "attn-hint", "aria-live": "polite" });

    const draw = picture => {
        const made = figure(picture);
        made.innerHTML = picture.svg;
        for (const [name, i, ...where] of picture.choices) { // what is chosen already: back to the start
            const { start } = panel.controls.find(control => control.name === name);
            const over = place(element("div", { class: "attn-choice" }), picture, ...where);
            over.addEventListener("click", () => choose(name, chosen[name] === i ? start : i));
            made.append(over);
        }
        made.append(...picture.maps.map(map => heatmap(map, picture, text => { hint.textContent = text; })));
        return made;
    };
    const show = () => {
        for (const [name, control] of Object.entries(controls)) control.show(chosen[name]);
        line.show(panel.pages[index()].line);
        details.show(panel.pages[index()].details);
        shown.replaceChildren(...pictures[index()].map(draw));
        hint.textContent = hasMaps ? "Point at a cell, or reach it with Tab and the arrow keys." : "";
    };
    const choose = (name, i) => { chosen[name] = i; show(); };
    const controls = Object.fromEntries(panel.controls.map(control =>
        [control.name, KINDS[control.kind](control, i => choose(control.name, i))]));

    root.addEventListener("submit", event => event.preventDefault());
    root.addEventListener("keydown", event => { // JupyterLab has shortcuts without Ctrl: arrows, letters
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) event.stopPropagation();
    });
    root.classList.add("attn-panel");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", panel.name);
    const boxes = Object.values(controls).map(control => control.box);
    root.replaceChildren( // a form, so that the radio buttons of two panels stay apart
        element("form", { class: "attn-controls", autocomplete: "off" }, ...boxes),
        line.box, details.box, stack(shown, room), ...hasMaps ? [hint] : [],
    );
    show();
    return () => { for (const control of Object.values(controls)) control.stop?.(); };
}

// JupyterLab, Notebook, VS Code and Colab call this, by way of anywidget.
export default {
    render({ model, el }) { return mount(el, model.get("packed")); },
};
