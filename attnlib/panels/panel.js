// A panel in a page: its controls, one line that says in words what they show, and the picture.
// Every state arrives drawn; nothing is computed here. JupyterLab imports this module as a widget,
// a page without a kernel calls mount() with the same data.

const SPEED = 900; // milliseconds a step, when a control that is time plays

function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
}

// A number: a native range over the places of its values, spoken as the value itself.
function range(control, choose) {
    const last = control.words.length - 1;
    const input = element("input", { type: "range", min: 0, max: last, step: 1 });
    const shown = element("output", { "aria-hidden": "true" });
    shown.style.width = `${Math.max(...control.words.map(word => word.length)) + 1}ch`;
    input.addEventListener("input", () => choose(Number(input.value)));
    const label = element("label", {}, control.name, input, shown);
    return {
        box: element("div", { class: "attn-control" }, label),
        show(place) {
            input.value = place;
            input.setAttribute("aria-valuetext", control.words[place]);
            shown.textContent = control.words[place];
        },
    };
}

// A few words: a row of radio buttons. Many: a list.
function radios(control, choose) {
    const inputs = control.words.map((word, place) => {
        const input = element("input", { type: "radio", name: control.name, value: place });
        input.addEventListener("change", () => choose(place));
        return input;
    });
    const labels = inputs.map((input, place) => element("label", {}, input, control.words[place]));
    const legend = element("legend", {}, control.name);
    return {
        box: element("fieldset", { class: "attn-control" }, legend, ...labels),
        show(place) { inputs[place].checked = true; },
    };
}

function list(control, choose) {
    const options = control.words.map((word, place) => element("option", { value: place }, word));
    const select = element("select", {}, ...options);
    select.addEventListener("change", () => choose(Number(select.value)));
    const label = element("label", {}, control.name, select);
    return {
        box: element("div", { class: "attn-control" }, label),
        show(place) { select.value = place; },
    };
}

// Time: a range, with a button that plays it and one that goes a step further.
function player(control, choose) {
    const last = control.words.length - 1;
    const play = element("button", { type: "button" }, "Play");
    const next = element("button", { type: "button" }, "Step");
    let here = 0, timer = null;
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
    const further = () => choose(here < last ? here + 1 : 0);
    next.addEventListener("click", () => { stop(); further(); });
    play.addEventListener("click", () => {
        if (timer !== null) return stop();
        further();
        timer = setInterval(() => { if (here < last) further(); else stop(); }, SPEED);
        play.textContent = "Pause";
    });
    const made = range(control, place => { stop(); choose(place); });
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) made.box.append(play);
    made.box.append(next);
    return { box: made.box, stop, show(place) { here = place; made.show(place); } };
}

const KINDS = { number: range, words: radios, list, time: player };

// Put a panel into an element. `ask` is called with the place of a state that is not drawn yet.
export function mount(root, panel, ask = () => {}) {
    const places = Object.fromEntries(panel.controls.map(c => [c.name, c.start]));
    const index = () => panel.controls.reduce((sum, c) => sum * c.words.length + places[c.name], 0);
    const line = element("p", { role: "status" });
    // all lines lie under the one that is shown, unseen: so its room is that of the longest
    const room = panel.pages.filter(Boolean).map(page => element("p", { "aria-hidden": "true" }, page.line));
    const picture = element("div", { class: "attn-picture" });
    const turn = () => {
        for (const control of panel.controls) made[control.name].show(places[control.name]);
        const page = panel.pages[index()];
        if (!page) return ask(index());
        line.textContent = page.line;
        picture.innerHTML = page.picture;
        const svg = picture.firstElementChild;
        for (const side of ["width", "height"]) {
            panel[side] = Math.max(panel[side], Number(svg.getAttribute(side)));
            picture.style.setProperty(`--attn-${side}`, panel[side]);
        }
        picture.style.setProperty("--attn-share", Number(svg.getAttribute("width")) / panel.width);
    };
    const made = Object.fromEntries(panel.controls.map(control => {
        const choose = place => { places[control.name] = place; turn(); };
        return [control.name, KINDS[control.kind](control, choose)];
    }));
    // a form, so that the radio buttons of two panels stay apart
    const controls = element(
        "form",
        { class: "attn-controls", autocomplete: "off" },
        ...Object.values(made).map(control => control.box),
    );
    controls.addEventListener("submit", event => event.preventDefault());
    controls.addEventListener("keydown", event => { // JupyterLab has shortcuts without Ctrl: arrows, letters
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) event.stopPropagation();
    });
    root.classList.add("attn-panel");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", panel.name);
    root.replaceChildren(
        controls,
        element("div", { class: "attn-line" }, ...room, line),
        element("div", { class: "attn-sheet", tabindex: 0, role: "group", "aria-label": "picture" }, picture),
    );
    turn();
    return {
        draw(place, page) { panel.pages[place] = page; if (place === index()) turn(); },
        remove() { for (const control of Object.values(made)) control.stop?.(); },
    };
}

// JupyterLab, Notebook, VS Code and Colab call this, by way of anywidget.
export default {
    render({ model, el }) {
        const ask = place => model.send({ draw: place });
        const shown = mount(el, structuredClone(model.get("sheet")), ask);
        const draw = ({ place, page }) => shown.draw(place, page);
        model.on("msg:custom", draw);
        return () => { model.off("msg:custom", draw); shown.remove(); };
    },
};
