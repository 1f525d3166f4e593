// What the panels that compute in the page share: attention, written once; their state, which is in the
// address of a page and saved in a notebook; their words and controls. The file of a panel follows in the
// same module.

// Attention. A matrix is an array of rows.

const upTo = (count, make = i => i) => Array.from({ length: count }, (_, i) => make(i));
const dot = (one, other) => one.reduce((sum, number, i) => sum + number * other[i], 0);
const plus = (one, other) => one.map((number, i) => number + other[i]);
const turned = rows => rows[0].map((_, i) => rows.map(row => row[i]));
const linear = (rows, weight, bias = []) =>
    rows.map(row => weight.map((line, i) => dot(row, line) + (bias[i] ?? 0)));

function softmax(row) {
    const most = Math.max(...row), powers = row.map(score => Math.exp(score - most));
    const sum = powers.reduce((one, other) => one + other);
    return powers.map(power => power / sum);
}

// From (num_tokens, d_out) to (num_heads, num_tokens, head_dim), and back; torn is without the transpose.
function split(rows, heads, torn) {
    const flat = rows.flat(), count = rows.length, wide = rows[0].length / heads;
    const start = (head, i) => torn ? (head * count + i) * wide : (i * heads + head) * wide;
    return upTo(heads, head => upTo(count, i => flat.slice(start(head, i), start(head, i) + wide)));
}

function merge(heads, torn) {
    const flat = heads.flat(2), count = heads[0].length, wide = flat.length / count;
    return upTo(count, i => torn ? flat.slice(i * wide, (i + 1) * wide) : heads.flatMap(rows => rows[i]));
}

const HIDES = { // from query i, the key j
    "the future": (i, j) => j > i,
    "nothing": () => false,
    "the past": (i, j) => j < i,
    "one too late": (i, j) => j > i + 1,
    "the diagonal too": (i, j) => j >= i,
    "all but the future": (i, j) => j <= i,
};
const RIGHT = {
    mask: "the future", fill: "-inf", scale: "head_dim", softmax: "over keys", order: "mask, softmax",
    read: "as named", cut: "right", join: "right", output: "mixed", // by W_query, split, merge, out_proj
};
const FILLS = { "-inf": -Infinity, "-1e4": -1e4, "-1e9": -1e9 };
const READS = { // which matrices make queries, keys, values
    "as named": ["W_query", "W_key", "W_value"],
    "keys and values swapped": ["W_query", "W_value", "W_key"],
    "keys by W_query": ["W_query", "W_query", "W_value"],
};

// A layer of attention. `how` changes it: by the words of RIGHT, and by what it asks with and hands over.
export function attend(x, layer, how = {}) {
    const { asks = rows => rows, hands = rows => rows, ...words } = how, { heads = 1 } = layer;
    const line = { ...RIGHT, ...words }, [first, second, third] = READS[line.read];
    const cut = rows => split(rows, heads, line.cut === "torn");
    const queries = cut(asks(linear(x, layer[first])));
    const [keys, values] = [second, third].map(name => cut(linear(x, layer[name])));
    const width = { head_dim: queries[0][0].length, d_out: layer.W_query.length, d_in: x[0].length, nothing: 1 };
    const hides = HIDES[line.mask], isFirst = line.order === RIGHT.order;
    const hide = (rows, number) => rows.map((row, i) => row.map((score, j) => hides(i, j) ? number : score));
    const scores = queries.map((rows, head) => linear(rows, keys[head]));
    const weights = scores.map(rows => {
        const scaled = rows.map(row => row.map(score => score / Math.sqrt(width[line.scale])));
        const seen = isFirst ? hide(scaled, FILLS[line.fill]) : scaled;
        const shares = line.softmax === RIGHT.softmax ? seen.map(softmax) : turned(turned(seen).map(softmax));
        return isFirst ? shares : hide(shares, 0);
    });
    const mixtures = weights.map((rows, head) => linear(rows, turned(values[head])));
    const mixed = hands(merge(line.join === "reversed" ? mixtures.reverse() : mixtures, line.join === "torn"));
    const written = line.output === "mixed" ? linear(mixed, layer.out_proj, layer.bias) : mixed;
    return { queries, keys, values, scores, weights, mixed, written };
}

// The state: words, numbers and lists of numbers. What does not fit the start is left out.

const fits = (start, value) => typeof value === typeof start && Array.isArray(value) === Array.isArray(start)
    && [value].flat().every(part => typeof part === "string" || Number.isFinite(part));
function readAs(start, text) {
    if (Array.isArray(start)) return text.split(",").filter(Boolean).map(Number);
    return typeof start === "number" ? Number(text) : text;
}

function addressOf(name, start) {
    const said = () => new URLSearchParams(location.hash.slice(1));
    return {
        get saved() {
            const own = Object.keys(start).filter(key => said().has(`${name}.${key}`));
            return Object.fromEntries(own.map(key => [key, readAs(start[key], said().get(`${name}.${key}`))]));
        },
        keep(state) {
            const all = said();
            for (const [key, value] of [...all]) if (!value) all.delete(key); // the name of a section
            for (const [key, value] of Object.entries(state)) {
                if (String(value) === String(start[key])) all.delete(`${name}.${key}`);
                else all.set(`${name}.${key}`, value);
            }
            history.replaceState(history.state, "", `#${all}`);
        },
    };
}

// Return a panel's state, and what changes it; `memory` is the notebook's, or the page's address.
function hold(root, { name }, start, memory, show) {
    const state = { ...start }, { keep } = memory ??= addressOf(name, start);
    const restore = () => {
        const saved = Object.entries(memory.saved ?? {}).filter(([key, value]) => fits(start[key], value));
        Object.assign(state, Object.fromEntries(saved));
        return saved.length;
    };
    let timer;
    const go = change => {
        Object.assign(state, change);
        show();
        clearTimeout(timer);
        timer = setTimeout(() => keep({ ...state }), 300);
    };
    const isLinked = restore() > 0 && !memory.isWidget;
    if (isLinked) requestAnimationFrame(() => root.scrollIntoView({ block: "start" }));
    if (!memory.isWidget) addEventListener("hashchange", () => { if (restore()) show(); });
    return [state, go];
}

const asWidget = mount => ({
    render({ model, el }) {
        const keep = state => { model.set("state", state); model.save_changes(); };
        mount(el, model.get("sheet"), { isWidget: true, saved: model.get("state"), keep });
    },
});

// Words and controls

const SHAPES = ["svg", "path", "circle", "line", "text", "g", "rect"];

function element(name, attributes = {}, ...children) {
    const space = SHAPES.includes(name) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
}

const two = number => number.toFixed(2).replace(/^-0\.00$/, "0.00").replace("-", "−");
const toggled = (list, codes, isOn) => // a list of numbers with some added or taken away
    [...list.filter(code => !codes.includes(code)), ...isOn ? codes : []].sort((one, other) => one - other);
const pair = numbers => `(${numbers.map(two).join(", ")})`;
const bold = text => element("b", {}, text);

// A page that turns light or dark: by a button, or with the system.
function onTheme(act) {
    const watch = new MutationObserver(() => act());
    watch.observe(document.body, { attributeFilter: ["data-theme", "data-jp-theme-light", "class"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => act());
}

// One line, seen at once, and heard when its words have come to rest.
function teller() {
    const seen = element("p", { "aria-hidden": "true" }), heard = element("p", { role: "status", class: "attn-heard" });
    let timer;
    return {
        box: element("div", { class: "attn-told" }, seen, heard),
        tell(...parts) {
            const before = seen.textContent;
            seen.replaceChildren(...parts);
            if (seen.textContent === before) return;
            clearTimeout(timer);
            timer = setTimeout(() => { heard.textContent = seen.textContent; }, heard.textContent ? 400 : 0);
        },
    };
}

function options(label, words, choose) {
    const box = element("select", {}, ...words.map(word => element("option", {}, word)));
    box.addEventListener("change", () => choose(box.value));
    return { box: element("label", { class: "attn-control" }, label, box), show(word) { box.value = word; } };
}

function choices(label, words, choose, name = label) {
    const inputs = words.map(value => {
        const input = element("input", { type: "radio", name, value });
        input.addEventListener("change", () => choose(value));
        return input;
    });
    const labels = inputs.map((input, i) => element("label", {}, input, words[i]));
    const box = element("fieldset", { class: "attn-control" }, element("legend", {}, label), ...labels);
    return { box, show(word) { inputs.forEach(input => { input.checked = input.value === word; }); } };
}

const typed = (label, field) => element("div", { class: "attn-field" }, element("span", { "aria-hidden": "true" }, label), field);

const headed = (title, ...children) =>
    element("div", { class: "attn-part" }, element("p", { class: "attn-title" }, title), ...children);

const row = (name, ...cells) => element("tr", {}, element("th", { scope: "row" }, name), ...cells);

function table(names, body) {
    const head = names.map(name => element("th", { scope: "col" }, name));
    const made = element("table", {}, element("thead", {}, element("tr", {}, ...head)), body);
    return element("div", { class: "attn-scroll", tabindex: 0 }, made);
}

function button(text, act) {
    const made = element("button", { type: "button" }, text);
    made.addEventListener("click", act);
    return made;
}

const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// Of many squares one can be reached by Tab; from there arrow keys lead to the one that next() returns.
function roving(box, next) {
    box.addEventListener("keydown", event => {
        const way = WAYS[event.key], to = way && next(event.target, ...way);
        if (!to) return;
        event.preventDefault();
        event.target.tabIndex = -1;
        to.tabIndex = 0;
        to.focus();
    });
}

// Squares, each with its code, go on or off where a pointer is drawn over them, all as the first one did.
function brushed(root, box, isOn, set) {
    let wanted = null;
    const reach = square => {
        const code = Number(square?.dataset.code ?? NaN);
        if (code >= 0 && isOn(code) !== wanted) set(code, wanted);
    };
    box.addEventListener("pointerdown", ({ target, pointerId }) => {
        if (target.dataset.code === undefined) return;
        if (target.hasPointerCapture(pointerId)) target.releasePointerCapture(pointerId);
        wanted = !isOn(Number(target.dataset.code));
        reach(target);
    });
    root.addEventListener("pointermove", event => {
        if (wanted !== null) reach(document.elementFromPoint(event.clientX, event.clientY));
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"])
        root.addEventListener(end, () => { wanted = null; });
    box.addEventListener("click", ({ target, detail }) => { // by a key; the pointer has done it already
        const code = Number(target.dataset.code ?? NaN);
        if (code >= 0 && !detail) set(code, !isOn(code));
    });
}

function fill(root, sheet, ...children) {
    root.addEventListener("submit", event => event.preventDefault());
    root.addEventListener("keydown", event => { // JupyterLab has shortcuts without Ctrl: arrows, letters
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) event.stopPropagation();
    });
    root.classList.add("attn-panel", "attn-live", `attn-${sheet.name}`);
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", sheet.title);
    root.replaceChildren(element("form", { autocomplete: "off" }, ...children));
}
