// The panel of the reader's own sentence. It asks for answers in JSON and draws them; a kernel gives
// them, or a page without Python has them with it. JupyterLab imports this module as a widget, such a
// page calls mount().

const LEAST = 0.02; // a smaller weight has no arc
const TOLD = 0.05; // nor is a word named that has less
const HIGH = 96; // pixels of the longest arc
const MOTION = 250; // milliseconds; none where motion is not wanted
const PATIENCE = 700; // milliseconds without an answer until the panel says so
const ASLEEP = "No kernel answers. Click into this cell and press Shift+Enter: it runs again.";
const WAITS = "Waiting for the kernel. If another cell is running, that one comes first.";
const PLAIN = "as it is", MUTED = "muted", FROM = "with its numbers from";
const WEIGHT = "weight", MUTING = "muting";

function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
}

function drawn(name, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
}

const two = share => share.toFixed(2);
const nameOf = ([layer, head]) => `L${layer}H${head}`;
const joined = parts => parts.join(", ").replace(/, ([^,]*)$/, " and $1");
const moves = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;

// A reading with its weights at hand, and a name for each word: one that comes twice has its place.
function opened(answer, sheet) {
    const bytes = Uint8Array.from(atob(answer.weights), letter => letter.charCodeAt(0));
    const words = answer.tokens.map(token => token.trim() || "␣");
    const size = words.length * (words.length + 1) / 2; // weights of a head
    return {
        ...answer,
        shown: words,
        names: words.map((word, i) => words.indexOf(word) === words.lastIndexOf(word) ? word : `${word} (${i})`),
        weight: ([layer, head], query, key) =>
            bytes[(layer * sheet.heads + head) * size + query * (query + 1) / 2 + key] / 100,
    };
}

// The words, one of them chosen, with arcs to the word that looks from all that it looks at.
function wordRow(choose) {
    const arcs = drawn("svg", { class: "attn-loops", "aria-hidden": "true" });
    const row = element("div", { class: "attn-tokens", role: "radiogroup", "aria-label": "word looked at" });
    const box = element("div", { class: "attn-looks" }, arcs, row);
    const paths = new Map(); // by the two words that an arc joins
    let now = null, labels = [];

    const fill = reading => {
        labels = reading.shown.map((word, place) => {
            const input = element("input", { type: "radio", name: "word", value: place });
            input.addEventListener("change", () => choose(place));
            const starts = place === 0 || /^\s/.test(reading.tokens[place]);
            const kind = starts ? "attn-token" : "attn-token attn-goes-on";
            return element("label", { class: kind }, input, element("span", {}, word), element("small"));
        });
        row.replaceChildren(...labels);
        paths.clear();
    };
    const middle = place => labels[place].offsetLeft + labels[place].offsetWidth / 2;
    const arch = (key, query) => { // from the key, where what is carried comes from
        const [from, to, floor] = [middle(key), middle(query), HIGH + 4];
        if (key === query) return `M ${from - 4} ${floor} a 9 11 0 1 1 8 0`;
        const far = (to - from) / Math.max(middle(labels.length - 1) - middle(0), 1);
        const high = Math.min(HIGH * Math.sqrt(far), 0.7 * (to - from));
        return `M ${from} ${floor} A ${(to - from) / 2} ${high} 0 0 1 ${to} ${floor}`;
    };
    const trace = () => {
        const { reading, head, query, color } = now;
        const wanted = [...reading.shown.keys()].filter(k => k <= query && reading.weight(head, query, k) >= LEAST);
        const shown = wanted.map(key => {
            const id = `${key}-${query}`, weight = reading.weight(head, query, key);
            if (!paths.has(id)) paths.set(id, drawn("path", { pathLength: 1 }));
            const path = paths.get(id);
            const looks = { d: arch(key, query), stroke: color, "stroke-width": 1 + 9 * weight, opacity: 0.55 + 0.45 * weight };
            for (const [key, value] of Object.entries(looks)) path.setAttribute(key, value);
            return path;
        });
        for (const path of [...arcs.children]) if (!shown.includes(path)) path.remove();
        arcs.append(...shown.filter(path => path.parentNode !== arcs));
        arcs.setAttribute("width", row.scrollWidth);
        arcs.setAttribute("height", HIGH + 4);
    };
    new ResizeObserver(() => { if (now) trace(); }).observe(row);
    return {
        box,
        show(next) {
            if (next.reading !== now?.reading) fill(next.reading);
            const moved = next.reading !== now?.reading || next.query !== now?.query;
            now = next;
            const { reading, head, query, key } = next;
            labels.forEach((label, place) => {
                const [input, , small] = label.children;
                input.disabled = place > query;
                input.checked = place === key;
                small.textContent = place > query ? "" : two(reading.weight(head, query, place));
                label.classList.toggle("attn-asks", place === query);
            });
            if (moved) box.scrollLeft = middle(query) - box.clientWidth / 2;
            trace();
        },
    };
}

// The next words as bars. A word keeps its bar: it goes where it belongs now, and grows or shrinks.
function nextWords() {
    const box = element("ol", { class: "attn-next", "aria-label": "next words" });
    let rows = new Map(), shown = null;
    const rowOf = word => element(
        "li", {}, element("span", {}, word),
        element("i", { "aria-hidden": "true" }, element("b"), element("u")), element("output"),
    );
    return {
        box,
        show(words, before) { // the latter without the change, in outline
            if (words === shown) return; // or what moves would stop
            shown = words;
            const largest = Math.max(...[...words, ...before].map(([, share]) => share), 0.01);
            const was = new Map(before), old = new Map();
            for (const [word, row] of rows)
                old.set(word, [row.offsetTop, row.querySelector("b").offsetWidth]);
            rows = new Map(words.map(([word]) => [word, rows.get(word) ?? rowOf(word)]));
            box.replaceChildren(...rows.values());
            for (const [word, share] of words) {
                const row = rows.get(word), [, track, number] = row.children, [bar, mark] = track.children;
                bar.style.width = `${100 * share / largest}%`;
                mark.style.width = `${100 * (was.get(word) ?? 0) / largest}%`;
                mark.hidden = words === before || !was.has(word);
                number.textContent = two(share);
                if (!moves()) continue;
                const timing = { duration: MOTION, easing: "ease-out" };
                if (!old.has(word)) { row.animate([{ opacity: 0 }, { opacity: 1 }], timing); continue; }
                const [top, width] = old.get(word);
                row.animate([{ transform: `translateY(${top - row.offsetTop}px)` }, { transform: "none" }], timing);
                bar.animate([{ width: `${width}px` }, { width: `${bar.offsetWidth}px` }], timing);
            }
        },
    };
}

// All heads: a column for each layer. One cell at a time can be reached by Tab, the others by arrow keys.
function headGrid({ layers, heads }, choose, point) {
    const half = Math.ceil(layers / 2); // where there is little room, the other half is below
    const at = (layer, head) => `--l: ${layer}; --c: ${layer % half}; --b: ${Math.floor(layer / half)}; --h: ${head}`;
    const cells = Array.from({ length: layers }, (_, layer) => Array.from({ length: heads }, (_, head) =>
        element("div", { role: "gridcell", tabindex: -1, "aria-colindex": layer + 1, style: at(layer, head) })));
    const place = new Map(cells.flatMap((column, layer) => column.map((cell, head) => [cell, [layer, head]])));
    const rows = Array.from({ length: heads }, (_, head) =>
        element("div", { role: "row", "aria-rowindex": head + 1 }, ...cells.map(column => column[head])));
    const grid = element(
        "div", { role: "grid", "aria-label": "heads", "aria-rowcount": heads, "aria-colcount": layers }, ...rows);
    const signs = [];
    for (let layer = 0; layer < layers; layer += 5)
        signs.push(element("span", { class: "attn-layer", style: at(layer, -1) }, `${layer}`));
    for (let head = 0; head < heads; head++)
        for (const layer of [0, half])
            signs.push(element("span", { class: "attn-head", style: at(layer, head) }, `${head}`));
    const axes = signs.map(sign => { sign.setAttribute("aria-hidden", "true"); return sign; });
    const box = element("div", { class: "attn-heads" }, grid, ...axes);
    box.style.setProperty("--layers", layers);
    box.style.setProperty("--half", half);
    box.style.setProperty("--heads", heads);

    let here = [0, 0], chosen = null;
    const reach = ([layer, head], focus = true) => {
        cells[here[0]][here[1]].tabIndex = -1;
        here = [layer, head];
        cells[layer][head].tabIndex = 0;
        if (focus) cells[layer][head].focus();
    };
    const cellOf = event => event.target.closest("[role=gridcell]");
    const tell = event => point(cellOf(event)?.getAttribute("aria-label") ?? "");
    for (const kind of ["pointerover", "focusin"]) grid.addEventListener(kind, tell);
    for (const kind of ["pointerleave", "focusout"]) grid.addEventListener(kind, () => point(""));
    grid.addEventListener("click", event => {
        if (cellOf(event)) { reach(place.get(cellOf(event))); choose(here); }
    });
    grid.addEventListener("keydown", event => {
        const [layer, head] = here;
        const way = {
            ArrowLeft: [layer - 1, head], ArrowRight: [layer + 1, head],
            ArrowUp: [layer, head - 1], ArrowDown: [layer, head + 1],
            Home: [0, head], End: [layers - 1, head],
        }[event.key];
        if (way && cells[way[0]]?.[way[1]]) reach(way);
        else if (event.key === "Enter" || event.key === " ") choose(here);
        else if (!way) return;
        event.preventDefault();
    });
    return {
        box,
        choose(head) {
            if (chosen) chosen.removeAttribute("aria-selected");
            chosen = cells[head[0]][head[1]];
            chosen.setAttribute("aria-selected", "true");
            reach(head, false);
        },
        shade(look) { // look(head) returns a name, a share from 0 to 1 and what it is a share of
            for (const [cell, head] of place) {
                const { name, share, kind } = look(head);
                cell.setAttribute("aria-label", name);
                cell.className = `attn-${kind}`;
                cell.style.setProperty("--share", `${Math.round(100 * share)}%`);
                cell.classList.toggle("attn-much", share > 0.5);
            }
        },
    };
}

// Radio buttons, one for each word; what belongs to a word stands beside it.
function radios(name, words, choose, beside = {}) {
    const inputs = words.map(word => {
        const input = element("input", { type: "radio", name, value: word });
        input.addEventListener("change", () => choose(word));
        return input;
    });
    const spans = words.map(word => element("span", {}, word));
    const parts = words.flatMap((word, i) => [element("label", {}, inputs[i], spans[i]), beside[word] ?? ""]);
    const legend = element("legend");
    return {
        box: element("fieldset", { class: "attn-control" }, legend, ...parts),
        legend,
        show(chosen, possible = true, told = {}) {
            words.forEach((word, i) => {
                inputs[i].checked = word === chosen;
                inputs[i].disabled = !possible && i > 0;
                spans[i].textContent = told[word] ?? word;
            });
        },
    };
}

function list(label, choose) {
    const select = element("select", { "aria-label": label });
    select.addEventListener("change", () => choose(select.value));
    return {
        select,
        show(options, chosen, closed) { // pairs of value and words; one of them cannot be chosen
            select.replaceChildren(...options.map(([value, words]) => {
                const made = element("option", { value }, words);
                made.disabled = value === closed;
                return made;
            }));
            select.value = chosen;
        },
    };
}

function field(label, value, enter) {
    const input = element("input", { "aria-label": label, type: "text", maxlength: 400, autocomplete: "off", spellcheck: "false" });
    input.value = value;
    input.addEventListener("keydown", event => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        enter(input.value);
    });
    return input;
}

// Put the panel into an element. `kernel` answers a request; without one the page has the answers.
export function mount(root, sheet, kernel = null) {
    const answers = new Map(Object.entries(sheet.answers));
    const chosen = { text: sheet.texts[0], other: sheet.texts[1], head: sheet.head, change: PLAIN, shade: WEIGHT };
    const now = { reading: null, said: null, left: [], aloud: [], query: 0, key: 0 };
    let turn = 0, sweep = 0, sweeping = false;

    const status = element("p", { role: "status" });
    const tell = line => { if (line !== status.textContent) status.textContent = line; };
    const get = async request => {
        const key = JSON.stringify(request);
        if (answers.has(key)) return answers.get(key);
        if (!kernel) return { error: sheet.note };
        const timer = setTimeout(() => tell(WAITS), PATIENCE);
        const answer = await kernel(request);
        clearTimeout(timer);
        if (!answer.error) answers.set(key, answer);
        return answer;
    };

    // What is shown

    const isFree = () => kernel || nameOf(chosen.head) === nameOf(sheet.carrier);
    const best = () => now.reading.words[0];
    const looksAt = () => {
        const { reading, query } = now, weight = key => reading.weight(chosen.head, query, key);
        const keys = [...reading.names.keys()].slice(0, query + 1).filter(key => weight(key) >= TOLD);
        const most = keys.sort((one, other) => weight(other) - weight(one)).slice(0, 3);
        const named = most.map(key => `${key === query ? "itself" : reading.names[key]} (${two(weight(key))})`);
        return `From “${reading.names[query]}”, ${nameOf(chosen.head)} looks at ${joined(named)}.`;
    };
    const look = head => {
        const name = nameOf(head), { reading, query, key, left } = now, [word, before] = best();
        if (chosen.shade === WEIGHT) {
            const share = reading.weight(head, query, key);
            return { name: `${name}: ${two(share)} on ${reading.names[key]}`, share, kind: "weight" };
        }
        const after = left[head[0]]?.[head[1]];
        if (after === undefined) return { name: `${name}: not muted yet`, share: 0, kind: "none" };
        const share = after < before ? 1 - after / before : (after - before) / (1 - before);
        return { name: `${name} muted: ${word} ${two(after)}, was ${two(before)}`, share, kind: after < before ? "falls" : "rises" };
    };
    const shade = () => {
        const seen = [];
        grid.shade(head => { const found = look(head); seen.push({ ...found, head }); return found; });
        const ranked = seen.filter(found => ["weight", "falls"].includes(found.kind));
        ranked.sort((one, other) => other.share - one.share);
        most.replaceChildren("Most: ", ...ranked.slice(0, 3).map(({ head, name }) => {
            const number = name.match(/\d\.\d\d/)[0];
            const button = element("button", { type: "button", "aria-label": name }, `${nameOf(head)} ${number}`);
            button.addEventListener("click", () => chooseHead(head));
            return button;
        }));
        const { names } = now.reading, done = now.left.length;
        const unfinished = chosen.shade === MUTING && done < sheet.layers;
        shades.show(chosen.shade, true, { [WEIGHT]: `weight on ${names[now.key]}`, [MUTING]: `what muting does to ${best()[0]}` });
        progress.value = done;
        running.hidden = !unfinished;
        most.hidden = unfinished;
        stop.textContent = sweeping ? "Stop" : "Go on";
        count.textContent = `${done} of ${sheet.layers} layers`;
        return ranked;
    };
    const hardest = ([{ head, share }]) =>
        `Of all heads, ${nameOf(head)} looks hardest from “${now.reading.names[now.query]}” at “${now.reading.names[now.key]}”: ${two(share)}.`;
    const show = line => {
        const { reading, said, query, key, aloud } = now;
        const name = nameOf(chosen.head);
        row.show({ reading, head: chosen.head, query, key, color: sheet.colors[chosen.head[1] % sheet.colors.length] });
        asks.show(reading.names.map((word, place) => [String(place), word]), String(query));
        bars.show(said.words, reading.words);
        grid.choose(chosen.head);
        changes.legend.textContent = `${name} is`;
        from.textContent = name;
        changes.show(chosen.change, isFree());
        loud.textContent = aloud.length ? `What it writes, read aloud: ${aloud.join(", ")}` : "";
        tell(line ?? (chosen.change === PLAIN ? `${said.line} ${looksAt()}` : said.line));
        if (kernel) return;
        texts.show(sheet.texts.map(text => [text, text]), chosen.text);
        others.show(sheet.texts.map(text => [text, text]), chosen.other, chosen.text);
    };

    // What is asked

    const change = async () => {
        const mine = ++turn, { text, head } = chosen;
        const request = { text, head, ...chosen.change === MUTED && { muted: true }, ...chosen.change === FROM && { from: chosen.other } };
        const said = chosen.change === PLAIN ? now.reading : await get(request);
        if (mine !== turn) return;
        if (said.error) return tell(said.error);
        now.said = said;
        show();
        const { aloud = [] } = isFree() ? await get({ text, head }) : {};
        if (mine !== turn) return;
        now.aloud = aloud;
        show();
    };
    const read = async text => {
        const mine = ++turn, answer = await get({ text });
        if (mine !== turn) return;
        if (answer.error) return tell(answer.error);
        if (chosen.other === text && !kernel) chosen.other = chosen.text;
        const last = answer.tokens.length - 1, same = now.reading?.tokens.length === last + 1;
        chosen.text = text;
        Object.assign(now, { reading: opened(answer, sheet), left: [], aloud: [] });
        if (!same) Object.assign(now, { query: last, key: Math.max(last - 1, 0) });
        now.said = now.reading;
        sweep++;
        sweeping = false;
        show();
        shade();
        if (chosen.shade === MUTING) muteEach();
        await change();
    };
    const muteEach = async () => {
        const mine = ++sweep;
        sweeping = true;
        while (now.left.length < sheet.layers && mine === sweep) {
            const answer = await get({ text: chosen.text, layer: now.left.length });
            if (mine !== sweep) return;
            if (answer.error) { tell(answer.error); break; }
            now.left.push(answer.left);
            shade();
        }
        sweeping = false;
        shade();
        if (now.left.length === sheet.layers) tell(summary());
    };
    const summary = () => {
        const left = now.left.flat().sort((one, other) => one - other), [word, before] = best();
        const at = now.left.flat().indexOf(left[0]);
        const name = nameOf([Math.floor(at / sheet.heads), at % sheet.heads]);
        return `Muted in turn, ${name} matters most to ${word}: ${two(before)} becomes ${two(left[0])}. `
            + `Half of all heads leave ${two(left[Math.floor(left.length / 2)])} or more.`;
    };
    const chooseHead = head => {
        chosen.head = head;
        now.aloud = [];
        if (!isFree()) chosen.change = PLAIN;
        if (chosen.change === PLAIN) now.said = now.reading;
        show();
        change();
    };
    const chooseChange = word => {
        chosen.change = word;
        changes.show(word, isFree());
        if (kernel) chosen.other = otherText.value;
        change();
    };

    // What can be touched

    const row = wordRow(place => {
        now.key = place;
        const ranked = shade();
        show(chosen.shade === WEIGHT ? hardest(ranked) : looksAt());
    });
    const asks = list("word that looks", place => {
        now.query = Number(place);
        now.key = Math.min(now.key, now.query);
        shade();
        show(looksAt());
    });
    const bars = nextWords();
    const hint = element("p", { class: "attn-point", "aria-hidden": "true" });
    const grid = headGrid(sheet, chooseHead, line => { hint.textContent = line || `${sheet.layers} layers across, ${sheet.heads} heads each`; });
    const shades = radios("shade", [WEIGHT, MUTING], word => {
        chosen.shade = word;
        if (word === MUTING) muteEach();
        shade();
    });
    shades.legend.textContent = "Heads by";
    const stop = element("button", { type: "button" }, "Stop");
    stop.addEventListener("click", () => {
        if (!sweeping) return muteEach();
        sweep++;
        sweeping = false;
        shade();
    });
    const progress = element("progress", { max: sheet.layers, "aria-label": "layers muted" });
    const count = element("span");
    const running = element("div", { class: "attn-control" }, progress, count, stop);
    const most = element("p", { class: "attn-most" });
    const loud = element("span", { class: "attn-loud" }), from = element("span");
    const texts = list("sentence", read), others = list("second sentence", text => { chosen.other = text; chooseChange(FROM); });
    const ownText = field("your sentence", chosen.text, read);
    const otherText = field("second sentence", chosen.other, () => chooseChange(FROM));
    otherText.addEventListener("change", () => { if (chosen.change === FROM) chooseChange(FROM); });
    const go = element("button", { type: "button" }, "Read");
    go.addEventListener("click", () => read(ownText.value));
    const changes = radios("change", [PLAIN, MUTED, FROM], chooseChange, { [FROM]: kernel ? otherText : others.select });

    root.addEventListener("submit", event => event.preventDefault());
    root.addEventListener("keydown", event => { // JupyterLab has shortcuts without Ctrl: arrows, letters
        if (!event.ctrlKey && !event.metaKey && !(event.shiftKey && event.key === "Enter")) event.stopPropagation();
    });
    root.classList.add("attn-panel", "attn-sentence");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", sheet.name);
    root.replaceChildren(element(
        "form", { autocomplete: "off" },
        element("div", { class: "attn-typed" }, ...kernel ? [ownText, go] : [texts.select]),
        element("div", { class: "attn-told" }, status),
        element("div", { class: "attn-words-and-arcs" },
            row.box, element("p", { class: "attn-from" }, element("span", {}, from, " looks from "), asks.select, loud)),
        element("div", { class: "attn-next-words" }, element("p", {}, "next word"), bars.box),
        element("div", { class: "attn-all" }, shades.box, grid.box, running, most, hint),
        element("div", { class: "attn-change" }, changes.box, ...sheet.note ? [element("p", {}, sheet.note)] : []),
        element("p", { class: "attn-source" }, sheet.source),
    ));
    hint.textContent = `${sheet.layers} layers across, ${sheet.heads} heads each`;
    read(chosen.text);
    return { tell };
}

// JupyterLab, Notebook, VS Code and Colab call this, by way of anywidget.
export default {
    render({ model, el }) {
        const waiting = new Map();
        const hear = ({ number, answer }) => { waiting.get(number)?.(answer); waiting.delete(number); };
        const kernel = request => new Promise(resolve => {
            if (model.comm_live === false) return resolve({ error: ASLEEP });
            const number = String(Math.random()); // another view of this widget has its own
            waiting.set(number, resolve);
            model.send({ number, request });
        });
        model.on("msg:custom", hear);
        const shown = mount(el, model.get("sheet"), model.get("live") ? kernel : null);
        if (model.get("live") && model.comm_live === false) setTimeout(() => shown.tell(ASLEEP), MOTION);
        return () => model.off("msg:custom", hear);
    },
};
