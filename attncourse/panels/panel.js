// A panel in a page: its controls, one line that says in words what they show, and the picture, which
// can be touched. Every state arrives drawn, with the numbers that its cells say; nothing is computed
// here. JupyterLab imports this module as a widget, a page without a kernel calls mount() with the
// same data.

const QUICK = { duration: 250, easing: "ease-out" }; // from one state to the next
const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const SPEED = 900; // milliseconds a step, when a control that is time plays
const FITS = 0.93; // of its size, a picture still has letters of 12 px
const ROOM = 12; // of so many lines the room is reserved
const PART_ENDS = /(?<=>)(?=<(?!\/text>))/; // of a picture as SVG; a text may be empty

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
    const groups = new Map(control.groups.map(label => [label, element("optgroup", { label })]));
    control.groups.forEach((label, place) => groups.get(label).append(options[place]));
    const select = element("select", {}, ...groups.size ? groups.values() : options);
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
    if (!STILL.matches) made.box.append(play);
    made.box.append(next);
    return { box: made.box, stop, show(place) { here = place; made.show(place); } };
}

const KINDS = { number: range, words: radios, list, time: player };

// Touching a picture. Of each map one cell is in the page at a time: pointer or arrow keys move it, and
// its numbers are its label and the hint. Its query is chosen among the tokens below too, and has its
// row framed and its weights drawn as arcs to the keys.

const REST = matchMedia("(hover: none)").matches ? "Touch a cell: its numbers appear here."
    : "Point at a cell, or reach it with Tab and the arrow keys: its numbers appear here.";
const FAINTEST = 0.02; // no arc for a weight below

const percent = share => `${(100 * share).toFixed(3)}%`;
const rowsOf = map => Object.values(map.numbers)[0].length;
const isIn = (x, y, left, top, width, height) =>
    x >= left && y >= top && x < left + width && y < top + height;

// Numbers that attnlib has written, put into a sentence: of a cell, or with no key of a whole row.
function sentence(map, tokens, query, key) {
    const numbers = Object.entries(map.numbers).map(([what, rows]) => [what, rows[query].split(" ")]);
    const start = `${map.name}; query ${tokens[query]}`;
    if (key === null) {
        const [what, row] = numbers.at(-1);
        return `${start}; ${what}: ${row.map((number, k) => `${tokens[k]} ${number}`).join(", ")}`;
    }
    const told = numbers.map(([what, row]) => `${what} ${row[key] ?? "none"}`);
    if (numbers.every(([, row]) => key >= row.length)) told.splice(0, Infinity, "hidden: in the future");
    else if (map.values.length) told.push(`mixes in the value ${map.values[key]}`);
    return `${start}, key ${tokens[key]}; ${told.join("; ")}`;
}

// The same beside the pointer, as short as it can be: who looks at whom, and the last of its numbers.
function brief(map, tokens, query, key) {
    const row = Object.values(map.numbers).at(-1)[query].split(" ");
    return `${tokens[query]} → ${tokens[key]}: ${row[key] ?? "future"}`;
}

function arc(map, count, query, key, weight) {
    const made = element("i", { stroke: map.color, ...query === key && { class: "attn-self" } });
    const far = Math.abs(query - key) / count;
    Object.assign(made.style, {
        left: percent((Math.min(query, key) + 0.5) / count),
        width: percent(far),
        height: percent(Math.sqrt(far)),
        borderColor: `var(--attn-head-line, ${map.color})`,
        borderWidth: `${1 + 7 * weight}px`,
    });
    return made;
}

// The tokens as a row of radio buttons, the arcs above them.
function sentenceRow(tokens, choose) {
    const arcs = element("div", { class: "attn-arcs", "aria-hidden": "true" });
    const inputs = tokens.map((token, query) => {
        const input = element("input", { type: "radio", name: "query", value: query });
        input.addEventListener("change", () => choose(query));
        return input;
    });
    const labels = inputs.map((input, query) => element("label", {}, input, tokens[query]));
    const row = element("fieldset", { "aria-label": "query" }, ...labels);
    const box = element("form", { class: "attn-words", autocomplete: "off" }, arcs, row);
    let chosen = 0;
    const reveal = () => { // a long text scrolls in its box
        const { offsetLeft, offsetWidth } = labels[chosen], shown = box.scrollLeft;
        const [first, last] = [offsetLeft + offsetWidth - box.clientWidth, offsetLeft];
        if (shown < first || shown > last) box.scrollLeft = shown < first ? first : last;
    };
    new ResizeObserver(reveal).observe(box);
    box.style.setProperty("--attn-tokens", tokens.length);
    box.style.setProperty("--attn-letters", Math.max(...tokens.map(token => token.length)));
    return {
        box,
        show(map, query) {
            inputs.forEach((input, place) => { input.disabled = place >= rowsOf(map); });
            inputs[query].checked = true;
            const weights = map.numbers.weight[query].split(" ").map(Number);
            const kept = [...weights.keys()].filter(key => weights[key] >= FAINTEST);
            const drawn = kept.map(key => arc(map, tokens.length, query, key, weights[key]));
            arcs.replaceChildren(...drawn);
            if (query === chosen) return;
            chosen = query;
            reveal();
        },
    };
}

// The maps of a picture, as grids over it. `act` is called with the place of a map that is chosen.
function maps(panel, touch, act) {
    const row = element("div", { class: "attn-row" });
    const tip = element("div", { class: "attn-tip", "aria-hidden": "true" });
    const over = element("div", { class: "attn-over" }, row, tip);
    const hint = element("p", { "aria-live": "polite" }, REST);
    const below = touch.arcs ? sentenceRow(touch.tokens, query => move(here.map, query, null)) : null;
    const made = [];
    let here = { map: 0, query: rowsOf(touch.maps[0]) - 1, key: null }, isAway = false; // the pointer

    const place = (box, x, y, width, height) => Object.assign(box.style, {
        left: percent(x), top: percent(y), width: percent(width), height: percent(height),
    });
    const show = () => {
        const map = touch.maps[here.map], count = rowsOf(map), { query, key } = here;
        made.forEach(({ grid, line, cell }, i) => {
            const its = touch.maps[i];
            grid.hidden = !its;
            if (!its) return;
            const [wide, high] = [its.cell / panel.width, its.cell / panel.height];
            const [x, y] = [its.x / panel.width, its.y / panel.height];
            place(grid, x, y, wide * count, high * count);
            place(cell, (key ?? 0) / count, query / count, 1 / count, 1 / count);
            if (i === here.map) place(row, x, y + query * high, wide * count, high);
            grid.setAttribute("aria-label", its.name);
            for (const way of ["row", "col"]) grid.setAttribute(`aria-${way}count`, count);
            line.setAttribute("aria-rowindex", query + 1);
            cell.setAttribute("aria-colindex", (key ?? 0) + 1);
            cell.setAttribute("aria-label", sentence(its, touch.tokens, query, key ?? 0));
            cell.classList.toggle("attn-here", i === here.map && key !== null);
        });
        row.hidden = key === null && !below;
        tip.hidden = key === null || isAway;
        if (key !== null) {
            const low = map.y + query * map.cell > panel.height / 2;
            const [x, y] = [map.x + (key + 1) * map.cell, map.y + (query + !low) * map.cell];
            Object.assign(tip.style, { left: percent(x / panel.width), top: percent(y / panel.height) });
            tip.classList.toggle("attn-left", x > panel.width / 2);
            tip.classList.toggle("attn-above", low);
            tip.textContent = brief(map, touch.tokens, query, key);
        }
        below?.show(map, query);
    };
    const move = (map, query, key) => {
        isAway = false;
        here = { map, query, key };
        show();
        hint.textContent = sentence(touch.maps[map], touch.tokens, query, key);
    };
    const press = (event, i) => {
        const count = rowsOf(touch.maps[i]), key = here.key ?? 0, { query } = here;
        const ways = {
            ArrowUp: [query - 1, key],
            ArrowDown: [query + 1, key],
            ArrowLeft: [query, key - 1],
            ArrowRight: [query, key + 1],
            Home: [query, 0],
            End: [query, query],
        };
        const way = ways[event.key]?.map(to => Math.min(Math.max(to, 0), count - 1));
        if (way) move(i, ...way);
        else if (event.key === "Enter" || event.key === "Escape") act(i, event.key === "Enter");
        else return;
        event.preventDefault();
    };
    const add = i => {
        const cell = element("div", { role: "gridcell", tabindex: 0 });
        cell.addEventListener("keydown", event => press(event, i));
        cell.addEventListener("focus", () => move(i, here.query, here.key ?? 0));
        const line = element("div", { role: "row" }, cell);
        const grid = element("div", { role: "grid" }, line);
        over.append(grid);
        made.push({ grid, line, cell });
    };
    return {
        over,
        hint,
        below,
        leave() { isAway = tip.hidden = true; },
        get map() { return here.map; },
        show(next) {
            touch = next;
            for (let i = made.length; i < touch.maps.length; i++) add(i);
            const last = rowsOf(touch.maps[0]) - 1;
            here.map = Math.min(here.map, touch.maps.length - 1);
            here.query = Math.min(here.query, last);
            if (here.key !== null) move(here.map, here.query, Math.min(here.key, last));
            else show();
        },
        reach(x, y) { // the map at a point, whose cell there is the current one then
            const i = touch.maps.findIndex(map =>
                isIn(x, y, map.x, map.y, map.cell * rowsOf(map), map.cell * rowsOf(map)));
            if (i < 0) return i;
            const { x: left, y: top, cell } = touch.maps[i];
            const [query, key] = [Math.floor((y - top) / cell), Math.floor((x - left) / cell)];
            if (i !== here.map || query !== here.query || key !== here.key) move(i, query, key);
            return i;
        },
    };
}

// From one state to the next a word or box that only changes its place goes there, one that only
// changes its color turns, and what is new appears. Of boxes that are alike the nearest is the same one,
// if it covers a part of the other's place, or if there is only one.
const PLACES = ["x", "y"], LOOKS = ["fill", "stroke", "font-weight"];
const alike = (item, but) => [...item.attributes].filter(({ name }) => !but.includes(name))
    .reduce((words, { name, value }) => `${words} ${name}=${value}`, item.tagName + item.textContent);

function carry(gone, come) {
    if (STILL.matches || come.length > 600) return;
    const all = [...gone, ...come], numbers = names => new Map(all.map(item => [item, names.map(name => Number(item.getAttribute(name)))]));
    const place = numbers(PLACES), size = numbers(["width", "height"]);
    const both = [...PLACES, ...LOOKS];
    for (const [but, isNear] of [[LOOKS], [PLACES, true], [both, true], [PLACES], [both]]) {
        const there = Map.groupBy(gone, item => alike(item, but));
        come = come.filter(item => {
            const way = from => place.get(from).map((far, side) => far - place.get(item)[side]);
            const covers = from => way(from).every((far, side) => Math.abs(far) < size.get(item)[side]);
            const like = item.tagName === "path" ? [] : there.get(alike(item, but)) ?? [];
            const near = isNear ? like.filter(covers) : item.tagName === "text" || like.length === 1 ? like : [];
            if (!near.length) return true;
            const from = near.reduce((one, other) => Math.hypot(...way(other)) < Math.hypot(...way(one)) ? other : one);
            for (const list of [gone, like]) list.splice(list.indexOf(from), 1);
            const [x, y] = way(from);
            const was = { fill: from.getAttribute("fill"), ...(x || y) && { transform: `translate(${x}px, ${y}px)` } };
            if (!item.hasAttribute("transform")) item.animate([was, {}], QUICK);
            return false;
        });
    }
    for (const item of come) item.animate([{ opacity: 0 }, {}], QUICK);
}

// Draws the picture of a state: of the one that is there stays what both have.
function drawing(box, { parts, forms, colors }) {
    parts = parts.map(part => {
        const [form, ...own] = part.split(" ");
        return forms[form].replace(/''/g, () => `'${own.shift()}'`)
            .replace(/(?<=')~(\d+)(?=')/g, (_, i) => `light-dark(#${colors[i]})`);
    });
    const between = (runs, place) => parts.slice(runs[place - 1] + 1, 1 - runs[place]);
    const made = new Map(); // of a part its elements: a picture may have it more than once
    const make = (open, wanted) => {
        const missing = [];
        for (const [part, count] of wanted) {
            if (!made.has(part)) made.set(part, []);
            for (let i = made.get(part).length; i < count; i++) missing.push(part);
        }
        const drawn = element("div");
        drawn.innerHTML = `${open}${missing.join("")}</svg>`;
        const svg = drawn.firstElementChild;
        [...svg.children].forEach((child, i) => made.get(missing[i]).push(child));
        return svg;
    };
    return ({ picture }) => {
        const split = typeof picture === "string";
        const [open, ...drawn] = split ? picture.split(PART_ENDS)
            : picture.flatMap((i, place) => i < 0 ? between(picture, place) : parts[i]);
        drawn.pop(); // the end of the SVG
        const wanted = new Map();
        const places = drawn.map(part => {
            wanted.set(part, (wanted.get(part) ?? 0) + 1);
            return wanted.get(part) - 1;
        });
        const next = make(open, wanted);
        const children = new Set(drawn.map((part, i) => made.get(part)[places[i]]));
        const svg = box.firstElementChild ?? next;
        if (svg === next) box.replaceChildren(svg);
        for (const { name, value } of [...next.attributes]) svg.setAttribute(name, value);
        const gone = [...svg.children].filter(child => !children.has(child));
        const come = [...children].filter(child => svg !== next && child.parentNode !== svg);
        for (const child of gone) child.remove();
        let there = svg.firstElementChild;
        for (const child of children) {
            if (child === there) there = there.nextElementSibling;
            else svg.insertBefore(child, there);
        }
        carry(gone, come);
    };
}

// Put sentences into an element; numbers that are new are marked. A sentence is read out as a whole.
function tell(line, words) {
    const old = [...line.children].map(part => part.textContent.trim().split(" "));
    const parts = words.split(/(?<=\. )/);
    [...line.children].slice(parts.length).forEach(part => part.remove());
    parts.forEach((text, i) => {
        const part = line.children[i] ?? line.appendChild(element("span", { "aria-atomic": "true" }));
        const kept = word => !/\d/.test(word) || !old.length || old[i]?.includes(word);
        const shown = text.trim().split(" ").map(word => kept(word) ? word : element("b", {}, word));
        if (part.textContent !== text || part.querySelector("b")) {
            part.replaceChildren(...shown.flatMap((word, k) => k ? [" ", word] : [word]));
            if (text.endsWith(" ")) part.append(" ");
        }
    });
}

// Put a panel into an element. `ask` is called with the place of a state that is not drawn yet.
export function mount(root, panel, ask = () => {}) {
    const places = Object.fromEntries(panel.controls.map(c => [c.name, c.start]));
    const index = () => panel.controls.reduce((sum, c) => sum * c.words.length + places[c.name], 0);
    for (const page of panel.pages) {
        if (page?.touch) page.touch.maps = page.touch.maps.map(i => panel.maps[i]);
        for (const scene of page?.scenes ?? []) scene.choices = panel.choices[scene.choices];
    }
    const start = panel.pages[index()];
    let size = 0; // the wide scene, or 1: the narrow one
    const sceneOf = page => page.scenes[size];
    const touchIn = ({ touch, scenes }) => { // what can be touched, where it is in this scene
        const laid = ([x, y, cell], i) => ({ ...touch.maps[i], x, y, cell });
        return touch && { ...touch, maps: scenes[size].places.map(laid) };
    };
    const line = element("p", { role: "status", "aria-atomic": "false" }); // only what changed is read out
    // the longest lines lie under the one that is shown, unseen: so its room is that of the longest
    const lines = panel.pages.filter(Boolean).map(page => page.line);
    lines.sort((one, other) => other.length - one.length);
    const room = lines.slice(0, ROOM).map(text => {
        const unseen = element("p", { "aria-hidden": "true" });
        tell(unseen, text);
        return unseen;
    });
    const picture = element("div", { class: "attn-picture" });
    const lens = element("div", { class: "attn-lens" }, picture); // it can be enlarged in its stage
    const stage = element("div", { class: "attn-stage" }, lens);
    const draw = drawing(picture, panel);
    const now = () => panel.pages[index()];

    const turn = () => {
        for (const control of panel.controls) made[control.name].show(places[control.name]);
        const page = now();
        if (!page) return ask(index());
        tell(line, page.line);
        draw(sceneOf(page));
        const svg = picture.firstElementChild, room = panel.sizes[size];
        if (page.alt) svg.setAttribute("aria-label", page.alt);
        ["width", "height"].forEach((side, i) => {
            const own = Number(svg.getAttribute(side));
            panel[side] = size && i ? own : room[i] = Math.max(room[i], own); // a narrow one ends where it ends
            stage.style.setProperty(`--attn-${side}`, panel[side]);
        });
        stage.style.setProperty("--attn-share", Number(svg.getAttribute("width")) / panel.width);
        stage.style.setProperty("--attn-high", touched ? 1 : Number(svg.getAttribute("height")) / panel.height);
        touched?.show(touchIn(page));
        if (touched) enlarge();
    };
    const fit = () => { // of two scenes the narrow one, where the other would have to scroll
        const wanted = Number(panel.sizes.length > 1 && sheet.clientWidth < FITS * panel.sizes[0][0]);
        if (!sheet.clientWidth || wanted === size) return;
        size = wanted;
        turn();
    };
    const made = Object.fromEntries(panel.controls.map(control => {
        const choose = place => { places[control.name] = place; turn(); };
        return [control.name, KINDS[control.kind](control, choose)];
    }));

    const point = event => { // in pixels of the picture
        const { x, y, width } = lens.getBoundingClientRect();
        return [event.clientX - x, event.clientY - y].map(far => far * panel.width / width);
    };

    const chosenAt = event => sceneOf(now() ?? start).choices?.find(([, , room]) => isIn(...point(event), ...room));
    stage.addEventListener("pointermove", event => stage.classList.toggle("attn-choice", Boolean(chosenAt(event))));
    stage.addEventListener("click", event => { // on what is chosen already: back to the start
        const [name, place] = chosenAt(event) ?? [];
        if (!name) return;
        places[name] = places[name] === place ? panel.controls.find(c => c.name === name).start : place;
        turn();
    });

    let up = null; // the place of the map that is as large as the stage lets it be
    const enlarge = () => {
        const page = now(), map = page && touchIn(page).maps[up];
        if (!map) up = null;
        zoom.textContent = map ? "Show all maps" : "Enlarge this map";
        sheet.classList.toggle("attn-up", Boolean(map));
        if (!map) return lens.removeAttribute("style");
        // its names too, and nothing of the maps beside it
        const side = map.cell * rowsOf(map), beside = touchIn(page).maps.filter(({ y }) => y === map.y);
        const ends = beside.map(({ x }) => x).sort((one, other) => one - other), i = ends.indexOf(map.x);
        const left = i ? ends[i] - ends[i - 1] - side - 4 : Math.min(110, map.x);
        const top = Math.min(page.touch.above, map.y), far = (ends[i + 1] ?? Infinity) - map.x - side - 4;
        const [wide, high] = [left + side + Math.min(64, far), top + side + 4];
        const seen = panel.width * Math.min(sheet.clientWidth / stage.clientWidth || 1, 1); // on a phone a part
        const scale = Math.min(Math.max(seen / wide, 1), panel.height / high);
        const [x, y] = [(map.x - left) / panel.width, (map.y - top) / panel.height];
        const middle = (seen - scale * wide) / 2 / panel.width;
        const [right, bottom] = [1 - x - wide / panel.width, 1 - y - high / panel.height];
        lens.style.transform = `translate(${percent(middle)}) scale(${scale}) translate(${percent(-x)}, ${percent(-y)})`;
        lens.style.setProperty("--attn-zoom", scale);
        lens.style.clipPath = `inset(${[y, right, bottom, x].map(edge => percent(Math.max(edge, 0))).join(" ")})`;
    };
    const zoom = element("button", { type: "button", class: "attn-zoom" });
    zoom.addEventListener("click", () => bringUp(touched.map, true));
    const bringUp = (i, wanted) => {
        up = wanted && up === null ? i : null;
        enlarge();
        if (up !== null) sheet.scrollLeft = 0;
    };
    const sheet = element("div", { class: "attn-sheet", tabindex: 0, role: "group", "aria-label": "picture" }, stage);
    const touched = start.touch?.maps.length ? maps(panel, touchIn(start), bringUp) : null;
    if (touched) {
        lens.append(touched.over);
        for (const kind of ["pointermove", "click"])
            stage.addEventListener(kind, event => touched.reach(...point(event)));
        stage.addEventListener("pointerleave", ({ pointerType }) => { if (pointerType === "mouse") touched.leave(); });
    }

    const large = element("button", { type: "button", class: "attn-size" }, "Full screen"); // Escape leads back too
    large.hidden = !document.fullscreenEnabled;
    large.addEventListener("click", () => document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen());
    root.addEventListener("fullscreenchange", () => { large.textContent = document.fullscreenElement ? "Back to the page" : "Full screen"; });
    // a form, so that the radio buttons of two panels stay apart
    const controls = element(
        "form",
        { class: "attn-controls", autocomplete: "off" },
        ...Object.values(made).map(control => control.box),
    );
    root.addEventListener("submit", event => event.preventDefault());
    root.addEventListener("keydown", event => { // JupyterLab has shortcuts without Ctrl: arrows, letters
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) event.stopPropagation();
    });
    root.classList.add("attn-panel");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", panel.name);
    root.replaceChildren(
        controls,
        element("div", { class: "attn-line" }, ...room, line, large),
        sheet,
    );
    if (touched) root.append(element("div", { class: "attn-line attn-hint" }, touched.hint, zoom));
    if (touched?.below) root.append(touched.below.box);
    turn();
    new ResizeObserver(fit).observe(sheet);
    fit();
    return {
        draw(place, page) { panel.pages[place] = page; if (place === index()) turn(); },
        remove() { for (const control of Object.values(made)) control.stop?.(); },
    };
}

// JupyterLab, Notebook, VS Code and Colab call this, by way of anywidget.
export default {
    async render({ model, el }) {
        const packed = new Blob([model.get("packed")]).stream();
        const sheet = await new Response(packed.pipeThrough(new DecompressionStream("deflate"))).json();
        const ask = place => { if (model.comm_live !== false) model.send({ draw: place }); };
        const shown = mount(el, sheet, ask);
        const draw = ({ place, page }) => shown.draw(place, page);
        model.on("msg:custom", draw);
        return () => { model.off("msg:custom", draw); shown.remove(); };
    },
};
