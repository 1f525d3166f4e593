// The panel of the reader's own sentence. It asks for answers in JSON and draws them; a kernel gives
// them, or a page without Python has them with it. JupyterLab imports this module as a widget, such a
// page calls mount().

const LEAST = 0.02; // a smaller weight has no arc
const TOLD = 0.05; // nor is a word named that has less
const HIGH = 84; // pixels of the longest arc
const LENT = 40; // pixels above the arcs, for a sentence that lends its numbers
const CROSSING = 400; // milliseconds until two sentences that are swapped are in place
const READ = 250; // until the sentence that lends is seen; then its numbers leave
const JOURNEY = 950; // of the numbers; at LANDS of it they arrive, and only then is the answer another
const LIFT = 14; // pixels above the word that they leave
const LANDS = 0.8;
const MOTION = { duration: 250, easing: "ease-out" }; // none where it is not wanted
const DROP = { duration: 320, easing: "cubic-bezier(.2, 1.4, .4, 1)" };
const PULSE = { scale: [1, 1.08, 1] };
const PATIENCE = 700; // milliseconds without an answer until the panel says so
const ASLEEP = "No kernel answers. Click into this cell and press Shift+Enter: it runs again.";
const WAITS = "Waiting for the kernel. If another cell is running, that one comes first; if the kernel is off, run the cells above and this one again.";
const quoted = word => /^\p{Lu}/u.test(word) ? word : `“${word}”`; // a word that no sentence begins with
const FEW = 7; // next words that are shown
const PLAIN = "as it is", ABLATED = "ablated", FROM = "with its numbers from"; // what is done to a head
const SIGNS = { [PLAIN]: "", [ABLATED]: "✕ ", [FROM]: "⇄ " }; // at the last word, and before what is said of it
const WEIGHT = "weight", ABLATION = "ablating"; // what the heads are colored by
const ENDS = { [WEIGHT]: ["weight 0", "1"], [ABLATION]: ["falls to 0", "rises to 1"] }; // of the colors
const SHAPES = ["svg", "path", "rect"];

function element(name, attributes = {}, ...children) {
    const space = SHAPES.includes(name) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
}

const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const two = share => share.toFixed(2);
const nameIn = text => text.split(" ").at(-2); // the country of a sentence that the page has with it
const nameOf = ([layer, head]) => `L${layer}H${head}`;
const listed = parts => parts.join(", ").replace(/, ([^,]*)$/, " and $1");

// A reading with its weights at hand, and a name for each word: one that comes twice has its place.
function opened(answer, sheet) {
    const bytes = Uint8Array.from(atob(answer.weights), letter => letter.charCodeAt(0));
    const words = answer.tokens.map(token => token.trim() || "␣");
    const isOnly = word => words.indexOf(word) === words.lastIndexOf(word);
    const size = words.length * (words.length + 1) / 2; // weights of a head
    return {
        ...answer,
        shown: words,
        names: words.map((word, place) => isOnly(word) ? word : `${word} (${place})`),
        weight: ([layer, head], query, key) =>
            bytes[(layer * sheet.heads + head) * size + query * (query + 1) / 2 + key] / 100,
    };
}

// The words, one of them chosen, with arcs to the word that looks from all that it looks at.
function wordRow(choose, send) {
    const arcs = element("svg", { class: "attn-loops", "aria-hidden": "true" });
    const row = element("div", { class: "attn-tokens", role: "radiogroup", "aria-label": "word looked at" });
    const ghost = lenderRow(send), answer = element("b", { class: "attn-answer" });
    const words = element("div", { class: "attn-stack" }, arcs, row, ghost.box);
    const box = element("div", { class: "attn-looks" }, element("div", { class: "attn-spoken" }, words, answer));
    const paths = new Map(); // by the words that an arc joins
    let now = {}, labels = [];

    const labelOf = (word, place) => {
        const input = element("input", { type: "radio", name: "word", value: place });
        input.addEventListener("change", () => choose(place));
        const starts = place === 0 || /^\s/.test(now.reading.tokens[place]);
        const kind = starts ? "attn-token" : "attn-token attn-goes-on";
        return element("label", { class: kind }, input, element("span", {}, word), element("small"));
    };
    const middle = place => labels[place].offsetLeft + labels[place].offsetWidth / 2;
    const arch = (key, query) => { // it starts where what is carried comes from
        const [from, to, floor] = [middle(key), middle(query), HIGH + 4];
        if (key === query) return `M ${from - 4} ${floor} a 9 11 0 1 1 8 0`;
        const share = (to - from) / (middle(labels.length - 1) - middle(0));
        const high = Math.min(HIGH * Math.sqrt(share), 0.7 * (to - from));
        return `M ${from} ${floor} A ${(to - from) / 2} ${high} 0 0 1 ${to} ${floor}`;
    };
    const arcTo = (key, weight) => {
        const id = `${key}-${now.query}`;
        if (!paths.has(id)) paths.set(id, element("path", { pathLength: 1 }));
        const path = paths.get(id);
        path.setAttribute("d", arch(key, now.query));
        path.setAttribute("stroke-width", 1 + 9 * weight);
        path.setAttribute("opacity", weight < 0.1 ? 0.4 : 0.55 + 0.45 * weight);
        return path;
    };
    const trace = () => {
        if (!row.offsetWidth) return; // not shown yet
        const weights = labels.map((_, key) => key > now.query ? 0 : now.reading.weight(now.head, now.query, key));
        const shown = weights.flatMap((weight, key) => weight >= LEAST ? [arcTo(key, weight)] : []);
        for (const path of [...arcs.children]) if (!shown.includes(path)) path.remove();
        arcs.append(...shown.filter(path => path.parentNode !== arcs)); // what stays, stays in motion
        arcs.setAttribute("width", row.offsetWidth);
        arcs.setAttribute("height", HIGH + 4);
        return ghost.trace(now, labels);
    };
    new ResizeObserver(() => { if (now.reading) trace(); }).observe(row);
    return {
        box,
        cross() { ghost.cross(); },
        say(word, isLanding) { // behind the last word
            if (isLanding && !isStill()) answer.animate(PULSE, MOTION);
            if (answer.textContent === word) return;
            answer.textContent = word;
            if (now.query + 1 === labels.length) box.scrollLeft = box.scrollWidth;
            if (!isStill()) answer.animate({ opacity: [0, 1], transform: ["translateY(-14px)", "none"] }, DROP);
        },
        show(next) { // returns the milliseconds until numbers that travel arrive
            const old = now;
            now = next;
            const { reading, head, query, key, sign } = now;
            box.classList.toggle("attn-cut", Boolean(sign));
            if (reading !== old.reading) {
                labels = reading.shown.map(labelOf);
                row.replaceChildren(...labels);
                paths.clear();
            }
            labels.forEach((label, place) => {
                const [input, , small] = label.children;
                input.disabled = place > query;
                input.checked = place === key;
                small.textContent = place > query ? "" : two(reading.weight(head, query, place));
                label.classList.toggle("attn-asks", place === query);
                label.dataset.sign = place + 1 === labels.length ? sign : "";
            });
            if (reading !== old.reading || query !== old.query) box.scrollLeft = middle(query) - box.clientWidth / 2;
            return trace() ?? 0;
        },
    };
}

// The sentence that lends its numbers, faint above the words, and the way of the numbers: from the word
// that the head looks at there to its last word, and down to the last word below. The line says the same.
// On the book's first page they wait at the end of their sentence, to be sent by whoever presses them.
function lenderRow(send) {
    const square = (_, i) => element("rect", { x: i % 8, y: Math.floor(i / 8), width: 0.75, height: 0.75, opacity: 0.3 + i * 29 % 64 / 90 });
    const row = element("p", { class: "attn-lender" }), packet = element("svg", { class: "attn-packet", viewBox: "-0.875 -0.875 9.5 9.5" }, ...Array.from({ length: 64 }, square));
    const path = element("path"), way = element("svg", { class: "attn-way", width: 1, height: 1 }, path);
    const box = element("div", { class: "attn-lent", "aria-hidden": "true" }, way, row, packet);
    const at = (left, top) => `translate(${left}px, ${top}px) translate(-50%, -50%)`;
    let shown = null, last = null, lands = 0, isCrossing = false, rested = null;
    packet.addEventListener("pointerdown", event => { // who would drag them sees them go
        event.preventDefault();
        send();
    });
    const fly = (from, x, to, end) => {
        const high = LENT / 2 - LIFT, tip = LENT + HIGH, timing = { duration: JOURNEY, delay: isCrossing ? CROSSING : READ };
        lands = performance.now() + timing.delay + LANDS * JOURNEY;
        packet.animate([
            { transform: rested ?? at(from, high), opacity: rested ? 1 : 0 }, { transform: rested ?? at(from, high), opacity: 1, offset: 0.15, easing: "ease-in-out" },
            { transform: at(x, high), opacity: 1, offset: 0.45, easing: "cubic-bezier(.6, 0, .9, .6)" },
            { transform: at(to, tip), opacity: 1, offset: LANDS }, { transform: at(to, tip + 16), opacity: 0 },
        ], { ...timing, fill: "backwards" });
        path.animate({ opacity: [0, 0, 1] }, { ...timing, fill: "backwards" });
        const ring = ["0 0 0 0 var(--own)", "0 0 0 6px var(--own)", "0 0 0 0 transparent"];
        end.animate({ boxShadow: ring }, { duration: 300, delay: lands - performance.now() });
        const way = isCrossing ? LENT + HIGH : 6, moved = { duration: CROSSING, easing: "ease-in-out" };
        if (isCrossing || !rested) row.animate({ transform: [`translateY(${way}px)`, "none"], opacity: [isCrossing ? 1 : 0, 1] }, moved);
        if (isCrossing) end.parentNode.animate({ transform: [`translateY(${-way}px)`, "none"] }, moved);
    };
    return {
        box,
        cross() { isCrossing = true; },
        trace({ lender, rests, said, head }, labels) { // `said` is what came of the numbers
            box.hidden = !lender;
            if (!lender) { shown = last = rested = null; isCrossing = false; return 0; }
            const size = lender.shown.length, end = labels.at(-1), isLike = size === labels.length;
            const from = [...lender.shown.keys()].reduce((most, key) =>
                lender.weight(head, size - 1, key) > lender.weight(head, size - 1, most) ? key : most);
            const right = end.offsetLeft + end.offsetWidth; // like sentences are word above word
            row.style.width = `${right}px`;
            row.replaceChildren(...lender.shown.map((word, i) => {
                const wide = isLike || i + 1 === size ? labels.at(i - size).offsetWidth : 0;
                return element("span", { style: `min-width: ${wide}px` }, i === from ? element("b", {}, word) : word);
            }));
            row.classList.toggle("attn-like", isLike);
            row.classList.toggle("attn-begun", !isLike && row.firstChild.offsetLeft < 0); // there is more at the left
            const middle = word => word.offsetLeft + word.offsetWidth / 2;
            const x = middle(row.lastChild), to = right - end.offsetWidth / 2, tip = LENT + HIGH;
            box.classList.toggle("attn-rests", rests);
            if (rests) {
                shown = last = null;
                isCrossing = false;
                packet.style.transform = rested = at(right + 24, LENT / 2);
                return 0;
            }
            path.setAttribute("d", `M ${x} ${LENT} L ${to} ${tip} m -5 -8 l 5 8 l 5 -8`);
            if (said !== shown || lender !== last) {
                [shown, last] = [said, lender];
                if (!isStill()) fly(Math.max(middle(row.children[from]), 0), x, to, end);
                isCrossing = false;
                rested = null;
            }
            return Math.max(lands - performance.now(), 0);
        },
    };
}

// The next words as bars. A word keeps its bar: it goes where it belongs now, and grows or shrinks.
function nextWords() {
    const box = element("ol", { class: "attn-next", "aria-label": "next words" });
    let rows = new Map(), shown = null;
    const rowOf = word => element(
        "li", {}, element("span", {}, word),
        element("i", { "aria-hidden": "true" }, element("b"), element("u")), element("small"),
    );
    const fill = (row, share, before, isMost) => {
        const [, track, number] = row.children, [bar, mark] = track.children;
        bar.style.width = `${100 * share}%`;
        mark.style.width = `${100 * before}%`;
        mark.hidden = before <= share;
        row.classList.toggle("attn-was", isMost);
        number.textContent = two(share);
        return bar;
    };
    return {
        box,
        show(words, before) { // the latter without the change, in outline
            if (words === shown) return; // or what moves would stop
            shown = words;
            const own = words.findIndex(([word]) => word === before[0][0]); // it is seen, wherever it is
            words = words.filter((_, i) => i < FEW - (own >= FEW) || i === own);
            const was = new Map(words === before ? [] : before), old = new Map();
            for (const [word, row] of rows) old.set(word, [row.offsetTop, row.querySelector("b").offsetWidth]);
            rows = new Map(words.map(([word]) => [word, rows.get(word) ?? rowOf(word)]));
            box.replaceChildren(...rows.values());
            for (const [word, share] of words) {
                const row = rows.get(word), bar = fill(row, share, was.get(word) ?? 0, word === before[0][0]);
                if (isStill()) continue;
                if (!old.has(word)) { row.animate({ opacity: [0, 1] }, MOTION); continue; }
                const [top, width] = old.get(word);
                row.animate({ transform: [`translateY(${top - row.offsetTop}px)`, "none"] }, MOTION);
                bar.animate({ width: [`${width}px`, `${bar.offsetWidth}px`] }, MOTION);
            }
        },
    };
}

// All heads: a column for each layer. One cell can be reached by Tab, from there the others by arrow keys.
function headGrid({ layers, heads }, choose, point) {
    const half = Math.ceil(layers / 2); // where there is little room, the other half is below
    const at = (layer, head) =>
        ({ style: `--l: ${layer}; --c: ${layer % half}; --b: ${Math.floor(layer / half)}; --h: ${head}` });
    const upTo = (count, make) => Array.from({ length: count }, (_, i) => make(i));
    const cells = upTo(layers, layer => upTo(heads, head =>
        element("div", { role: "gridcell", tabindex: -1, "aria-colindex": layer + 1, ...at(layer, head) })));
    const place = new Map(cells.flatMap((column, layer) => column.map((cell, head) => [cell, [layer, head]])));
    const rows = upTo(heads, head =>
        element("div", { role: "row", "aria-rowindex": head + 1 }, ...cells.map(column => column[head])));
    const grid = element(
        "div", { role: "grid", "aria-label": "heads", "aria-rowcount": heads, "aria-colcount": layers }, ...rows);
    const sign = (kind, number, where) =>
        element("span", { class: kind, "aria-hidden": "true", ...where }, String(number));
    const signs = [
        ...upTo(Math.ceil(layers / 5), i => sign("attn-layer", 5 * i, at(5 * i, -1))),
        ...upTo(heads, head => sign("attn-head", head, at(0, head))),
        ...upTo(heads, head => sign("attn-head attn-again", head, at(half, head))),
    ];
    const box = element("div", { class: "attn-heads", style: `--layers: ${layers}; --half: ${half}; --heads: ${heads}` }, grid, ...signs);

    let here = [0, 0];
    const cellAt = ([layer, head]) => cells[layer]?.[head];
    const reach = head => {
        cellAt(here).tabIndex = -1;
        here = head;
        cellAt(here).tabIndex = 0;
    };
    const touched = event => event.target.closest("[role=gridcell]");
    grid.addEventListener("focusin", event => reach(place.get(touched(event))));
    for (const kind of ["pointerover", "focusin"])
        grid.addEventListener(kind, event => point(touched(event)?.getAttribute("aria-label")));
    for (const kind of ["pointerout", "focusout"]) grid.addEventListener(kind, () => point());
    grid.addEventListener("click", event => { if (touched(event)) choose(place.get(touched(event))); });
    grid.addEventListener("keydown", event => {
        const [layer, head] = here;
        const way = {
            ArrowLeft: [layer - 1, head], ArrowRight: [layer + 1, head],
            ArrowUp: [layer, head - 1], ArrowDown: [layer, head + 1],
            Home: [0, head], End: [layers - 1, head],
        }[event.key];
        if (way && cellAt(way)) cellAt(way).focus();
        else if (event.key === "Enter" || event.key === " ") choose(here);
        else if (!way) return;
        event.preventDefault();
    });
    return {
        box,
        choose(head) {
            for (const old of grid.querySelectorAll("[aria-selected]")) old.removeAttribute("aria-selected");
            cellAt(head).setAttribute("aria-selected", "true");
            if (!grid.contains(document.activeElement)) reach(head); // an answer that comes late moves nobody
        },
        shade(look) { // look(head) returns a name, a kind of color, and a share of it from 0 to 1
            for (const [cell, head] of place) {
                const { name, share, kind } = look(head);
                cell.setAttribute("aria-label", name);
                cell.className = `attn-${kind}${share > 0.5 ? " attn-much" : ""}`;
                cell.style.setProperty("--share", `${Math.round(100 * share)}%`);
            }
        },
    };
}

// Radio buttons, one for each word; what belongs to the last word stands behind it.
function radios(name, words, choose, behind = "") {
    const inputs = words.map(word => {
        const input = element("input", { type: "radio", name, value: word });
        input.addEventListener("change", () => choose(word));
        return input;
    });
    const spans = words.map(word => element("span", {}, word)), legend = element("legend");
    const labels = inputs.map((input, i) => element("label", {}, input, spans[i]));
    return {
        box: element("fieldset", { class: "attn-control" }, legend, ...labels, behind),
        show(title, chosen, { possible = true, told = words }) {
            legend.textContent = title;
            words.forEach((word, i) => {
                inputs[i].checked = word === chosen;
                inputs[i].disabled = !possible && i > 0;
                spans[i].textContent = told[i];
            });
        },
    };
}

// A list; a sentence is also a field, where there is a model that reads it.
function list(label, choose) {
    const box = element("select", { "aria-label": label });
    box.addEventListener("change", () => choose(box.value));
    return {
        box,
        show(chosen, values, words = values, closed = null) { // a value that is closed cannot be chosen
            const options = values.map((value, i) => element("option", { value }, words[i]));
            for (const option of options) option.disabled = option.value === closed;
            box.replaceChildren(...options);
            box.value = chosen;
        },
    };
}

function field(label, choose) {
    const box = element("input", { "aria-label": label, type: "text", maxlength: 400, spellcheck: "false" });
    box.addEventListener("keydown", event => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) choose(box.value);
    });
    return { box, show(chosen) { box.value ||= chosen; } }; // only at first: then it is the reader's
}

// A guess before numbers travel, of each pair of sentences once, for whoever likes: a word is chosen, they
// travel, and the right word fills. It goes when anything else is done.
function question(choose) {
    const asked = element("span"), words = element("span"), choices = new Map(); // by pair of sentences
    const box = element("p", { class: "attn-guess", role: "group", "aria-label": "your guess" }, asked, words);
    let pair = null, buttons = [], right = 0, count = 0;
    const ask = (own, lent, third, lender) => {
        asked.textContent = `Guess: with ${lender}'s numbers`;
        buttons = [own, lent, third].sort().map(word => {
            const made = element("button", { type: "button", "aria-pressed": false }, word);
            made.addEventListener("click", () => {
                if (choices.has(pair)) return;
                choices.set(pair, { word, said: null });
                made.setAttribute("aria-pressed", true);
                choose();
            });
            return made;
        });
        words.replaceChildren(...buttons);
    };
    return {
        box,
        isOpen: (text, other) => text !== other && !choices.has(`${text} ${other}`),
        // what is said with a sentence's own numbers, and by the one that lends; returns what is told of a guess
        show({ said, reading, lends, text, other, change }) {
            const [[own]] = reading.words, here = `${text} ${other}`, plain = change === PLAIN;
            if (plain && lends && !choices.has(here)) {
                const [[lent], ...rest] = lends.words;
                const wrong = [...rest, ...reading.words].map(([word]) => word).filter(word => word !== own && word !== lent);
                if (pair !== here) ask(own, lent, wrong.find(word => /^\p{Lu}/u.test(word)) ?? wrong[0], nameIn(other));
                pair = here;
                box.hidden = false;
                return "";
            }
            const choice = choices.get(here), word = said.words[0][0];
            if (choice === undefined) choices.set(here, null); // it has been seen
            box.hidden = !choice || plain || pair !== here || (choice.said ?? said) !== said;
            if (box.hidden) return "";
            if (!choice.said) {
                choice.said = said;
                count++;
                right += choice.word === word;
            }
            for (const made of buttons) made.classList.toggle("attn-right", made.textContent === word);
            const tally = count > 1 ? ` ${right} of ${count} guesses right.` : "";
            if (choice.word === word) return ` You said ${word}. So does the model, though its sentence says ${nameIn(text)}.${tally}`;
            return ` You said ${choice.word}${choice.word === own ? ", and the sentence asks for it" : ""}. The model says ${word}.${tally}`;
        },
    };
}

// What a reader has chosen, in the address of a page: #of=France&from=Italy. Other panels have theirs there.
function addressOf(texts, carrier) {
    const said = () => new URLSearchParams(location.hash.slice(1));
    const find = name => texts.find(text => name && text.includes(` ${name} `));
    return {
        get saved() {
            const [text, other] = ["of", "from"].map(key => find(said().get(key)));
            if (!text) return null;
            return { text, ...other && other !== text ? { other, change: FROM } : said().has("ablated") ? { change: ABLATED } : {} };
        },
        keep({ text, other, change }) {
            const all = said();
            for (const [key, value] of [...all]) if (!value) all.delete(key); // the name of a section
            for (const key of ["of", "from", "ablated"]) all.delete(key);
            if (text !== texts[0] || change !== PLAIN) all.set("of", nameIn(text));
            if (change === FROM) all.set("from", nameIn(other));
            if (change === ABLATED) all.set("ablated", nameOf(carrier));
            history.replaceState(history.state, "", `#${all}`);
        },
    };
}

// Put the panel into an element. `kernel` answers a request; without one the page has the answers. A page
// of the book, which gives none, has the state in its address.
export function mount(root, sheet, kernel) {
    const answers = new Map(Object.entries(sheet.answers));
    const chosen = { text: sheet.texts[0], other: sheet.other, head: sheet.head, change: PLAIN, shade: WEIGHT };
    const now = { reading: null, said: null, aloud: [], left: [], query: 0, key: 0, lender: null, lends: null };
    let turn = 0, sweep = 0; // an answer to an earlier one comes too late
    const isPage = kernel === undefined, isFront = Boolean(root.closest(".front")), address = isPage && addressOf(sheet.texts, sheet.carrier);
    let isSweeping = false, isSummed = false, landing = null, pending; // a summary waits for numbers that travel

    const status = element("p", { role: "status" });
    const tell = line => { if (line !== status.textContent) status.textContent = line; };
    const get = async request => {
        const key = JSON.stringify(request);
        if (answers.has(key)) return answers.get(key);
        if (!kernel) return { error: sheet.note };
        const timer = setTimeout(() => { tell(WAITS); root.classList.add("attn-late"); }, PATIENCE);
        const answer = await kernel(request);
        clearTimeout(timer);
        root.classList.remove("attn-late");
        if (!answer.error) answers.set(key, answer);
        return answer;
    };

    // What is said

    const isFree = () => kernel || nameOf(chosen.head) === nameOf(sheet.carrier);
    const asking = () => now.reading.names[now.query];
    const looksAt = () => {
        const { reading, query } = now, weight = key => reading.weight(chosen.head, query, key);
        const keys = [...reading.names.keys()].filter(key => key <= query && weight(key) >= TOLD);
        const most = keys.sort((one, other) => weight(other) - weight(one)).slice(0, 3);
        const named = most.map(key => `${key === query ? "itself" : reading.names[key]} (${two(weight(key))})`);
        return `From “${asking()}”, ${nameOf(chosen.head)} looks at ${listed(named)}.`;
    };
    const hardest = ({ head, share }) =>
        `Of all heads, ${nameOf(head)} looks hardest from “${asking()}” at “${now.reading.names[now.key]}”: ${two(share)}.`;
    const summary = () => {
        const left = now.left.flat(), [word, before] = now.reading.words[0];
        const sorted = [...left].sort((one, other) => one - other), at = left.indexOf(sorted[0]);
        const name = nameOf([Math.floor(at / sheet.heads), at % sheet.heads]);
        const costs = `ablating ${name} costs ${quoted(word)} most: ${two(before)}\u00a0→\u00a0${two(sorted[0])}.`;
        if (chosen.change === ABLATED && name === nameOf(chosen.head))
            return `${now.said.line} Of all ${left.length}, no other costs ${quoted(word)} more.`;
        if (chosen.change !== PLAIN) return `${now.said.line} Without that, ${costs}`;
        return `Of all ${left.length}, ${costs} Half of them leave ${two(sorted[Math.floor(left.length / 2)])} or more.`;
    };
    const written = () => {
        if (!isFree()) return `A change is recorded for ${nameOf(sheet.carrier)} only.`;
        if (chosen.change === ABLATED) return `${SIGNS[ABLATED]}What it writes: nothing, it is ablated.`;
        const put = chosen.change === FROM ? `${SIGNS[FROM]}From the second sentence` : "What it writes, read aloud";
        return now.aloud.length ? `${put}: ${now.aloud.join(", ")}` : "";
    };

    // What is shown

    const look = head => {
        const name = nameOf(head), { reading, query, key, left } = now, [word, before] = reading.words[0];
        if (chosen.shade === WEIGHT) {
            const share = reading.weight(head, query, key);
            return { head, name: `${name}: ${two(share)} on ${reading.names[key]}`, number: share, share, kind: "weight" };
        }
        const after = left[head[0]]?.[head[1]];
        if (after === undefined) return { head, name: `${name}: not ablated yet`, share: 0, kind: "none" };
        const kind = after < before ? "falls" : "rises";
        const share = after < before ? 1 - after / before : (after - before) / (1 - before);
        return { head, name: `${name} ablated: ${word} ${two(after)}, was ${two(before)}`, number: after, share, kind };
    };
    const buttonOf = ({ head, name, number }) => {
        const button = element("button", { type: "button", "aria-label": name }, `${nameOf(head)} ${two(number)}`);
        button.addEventListener("click", () => chooseHead(head));
        return button;
    };
    const shade = () => { // returns the heads with most of what they are colored by
        const seen = [], { names, words } = now.reading, done = now.left.length;
        grid.shade(head => { seen.push(look(head)); return seen.at(-1); });
        const ranked = seen.filter(({ kind }) => kind === "weight" || kind === "falls");
        ranked.sort((one, other) => other.share - one.share);
        most.replaceChildren("Most: ", ...ranked.slice(0, 3).map(buttonOf));
        const told = [`weight on ${names[now.key]}`, `what ablation does to ${quoted(words[0][0])}`];
        shades.show("Heads by", chosen.shade, { told });
        scale.className = `attn-scale attn-by-${chosen.shade}`;
        [scale.firstChild.textContent, scale.lastChild.textContent] = ENDS[chosen.shade];
        const wanted = chosen.shade === ABLATION && done < sheet.layers ? running : most;
        if (below.firstChild !== wanted) below.replaceChildren(wanted);
        progress.value = done;
        count.textContent = `${done} of ${sheet.layers} layers`;
        stop.textContent = isSweeping ? "Stop" : "Go on";
        return ranked;
    };
    const show = line => {
        const { reading, said, query, key, lender } = now, { head, change, text, other } = chosen, rests = change !== FROM;
        clearTimeout(landing);
        landing = null;
        const wait = row.show({ reading, said, head, query, key, lender, rests, sign: SIGNS[change] });
        const land = () => { // what comes of it
            root.classList.remove("attn-waiting");
            root.classList.toggle("attn-changed", change === FROM);
            root.classList.toggle("attn-ablated", change === ABLATED);
            row.say(said.words[0][0], landing);
            bars.show(said.words, reading.words);
            const guess = guesses.show({ said, reading, lends: now.lends, text, other, change });
            tell((isSummed ? summary() : line ?? (change === PLAIN ? `${said.line} ${looksAt()}` : said.line)) + guess);
            isSummed = false;
            landing = null;
        };
        root.classList.toggle("attn-waiting", wait > 0); // the old answer is pale until the numbers arrive
        if (wait) landing = setTimeout(land, wait);
        else land();
        asks.show(query, [...reading.names.keys()], reading.names);
        grid.choose(head);
        changes.show(`Head ${nameOf(head)} is`, change, { possible: isFree() });
        from.textContent = `${nameOf(head)} looks from`;
        loud.textContent = written();
        texts.show(text, sheet.texts);
        others.show(other, sheet.texts, sheet.texts, text);
        others.box.disabled = !isFree();
    };

    // What is asked

    const refresh = async () => {
        const mine = ++turn, { text, head, change, other } = chosen, request = { text, head };
        const source = { text: change === FROM ? other : text, head }; // of what the head hands over
        const changed = change === ABLATED ? { ablated: true } : { from: other };
        const said = change === PLAIN ? now.reading : await get({ ...request, ...changed });
        if (mine !== turn) return;
        if (said.error) return tell(said.error);
        const lends = change === FROM || isPage && isFree() ? await get({ text: other }) : {};
        if (mine !== turn) return;
        const isSeen = lends.weights && (isFront || change === FROM); // the sentence that lends, above
        Object.assign(now, { said, aloud: [], lender: isSeen ? opened(lends, sheet) : null, lends: isPage && lends.words ? lends : null });
        show();
        const { aloud = [] } = isFree() ? await get(source) : {};
        if (mine !== turn) return;
        now.aloud = aloud;
        show();
    };
    const read = async text => {
        const mine = ++turn, answer = await get({ text });
        if (mine !== turn) return;
        if (answer.error) return tell(answer.error);
        if (chosen.other === text && !kernel) chosen.other = chosen.text;
        chosen.text = text;
        const last = answer.tokens.length - 1, isLike = now.reading?.tokens.length === last + 1;
        now.said = now.reading = opened(answer, sheet);
        if (!isLike) { // at first what the head looks at hardest is chosen
            const weight = key => now.reading.weight(chosen.head, last, key);
            const hardest = answer.tokens.reduce((most, _, key) => weight(key) > weight(most) ? key : most, 0);
            Object.assign(now, { query: last, key: hardest });
        }
        Object.assign(now, { left: [], aloud: [], lender: null });
        halt();
        shade();
        if (chosen.shade === ABLATION) ablateEach();
        await refresh();
    };
    const keep = () => { if (address) address.keep(chosen); };
    const halt = () => { sweep++; isSweeping = isSummed = false; };
    const ablateEach = async () => {
        const mine = ++sweep;
        isSweeping = true;
        while (now.left.length < sheet.layers) {
            shade();
            const answer = await get({ text: chosen.text, layer: now.left.length });
            if (mine !== sweep) return;
            if (answer.error) { halt(); shade(); return tell(answer.error); }
            now.left.push(answer.left);
        }
        halt();
        shade();
        if (landing) isSummed = true;
        else tell(summary());
    };
    const chooseHead = head => {
        Object.assign(chosen, { head });
        now.aloud = [];
        if (!isFree()) chosen.change = PLAIN;
        if (chosen.change === PLAIN) Object.assign(now, { said: now.reading, lender: null });
        show();
        refresh();
    };
    const chooseChange = async change => {
        const other = others.box.value;
        await pending; // a sentence that has just been chosen
        Object.assign(chosen, { change, other });
        refresh();
        keep();
    };
    const chooseLender = async () => { // of a pair that nobody has seen, first a guess is asked
        const other = others.box.value;
        await pending;
        if (!isPage || !guesses.isOpen(chosen.text, other)) return chooseChange(FROM);
        Object.assign(chosen, { change: PLAIN, other });
        refresh();
        keep();
    };
    const chooseText = async text => {
        pending = read(text);
        await pending;
        keep();
    };
    const swap = element("button", { type: "button" }, "Swap");
    swap.addEventListener("click", () => {
        const [text, other] = [chosen.text, others.box.value];
        [texts.box.value, others.box.value] = [other, text];
        Object.assign(chosen, { other: text });
        row.cross();
        chooseText(other);
    });
    const copy = element("button", { type: "button", class: "attn-copy", "aria-live": "polite", title: "The address bar has it too" }, "Copy link");
    copy.addEventListener("click", async () => {
        const done = await navigator.clipboard?.writeText(location.href).then(() => "Copied", () => null);
        copy.textContent = done ?? "Not copied";
        setTimeout(() => { copy.textContent = "Copy link"; }, 3000);
    });

    // What can be touched

    const row = wordRow(key => {
        Object.assign(now, { key });
        const [first] = shade();
        show(chosen.shade === WEIGHT ? hardest(first) : looksAt());
    }, () => chooseChange(FROM));
    const asks = list("word that looks", place => {
        Object.assign(now, { query: Number(place), key: Math.min(now.key, Number(place)) });
        shade();
        show(looksAt());
    });
    const bars = nextWords();
    const hint = element("p", { class: "attn-point", "aria-hidden": "true" });
    const point = (line = `${sheet.layers} layers, from the words at the left to the answer at the right; ${sheet.heads} heads each`) => { hint.textContent = line; };
    const grid = headGrid(sheet, chooseHead, point);
    const shades = radios("shade", [WEIGHT, ABLATION], kind => {
        chosen.shade = kind;
        if (kind === ABLATION) ablateEach();
        else shade();
    });
    const scale = element("p", {}, element("span"), element("i"), element("span"));
    const stop = element("button", { type: "button" });
    stop.addEventListener("click", () => {
        if (!isSweeping) return ablateEach();
        halt();
        shade();
    });
    const progress = element("progress", { max: sheet.layers, "aria-label": "layers ablated" });
    const count = element("span"), running = element("div", { class: "attn-control" }, progress, count, stop);
    const most = element("p", { class: "attn-most" }), below = element("div");
    const from = element("span"), loud = element("span", { class: "attn-loud" });
    const sentence = kernel ? field : list;
    const texts = sentence("your sentence", chooseText), others = sentence("second sentence", chooseLender);
    const go = element("button", { type: "button" }, "Read");
    go.addEventListener("click", () => read(texts.box.value));
    const changes = radios("change", [PLAIN, ABLATED, FROM], chooseChange, element("span", { class: "attn-second" }, others.box, swap));
    const guesses = question(() => chooseChange(FROM));
    const all = element("div", { class: "attn-all" }, shades.box, scale, grid.box, below, hint);
    const title = () => element("summary", {}, `All ${sheet.layers * sheet.heads} heads`);
    const folded = element("details", isFront ? {} : { open: "" }, title(), all);

    root.addEventListener("submit", event => event.preventDefault());
    root.addEventListener("keydown", event => { // JupyterLab has shortcuts without Ctrl: arrows, letters
        if (!event.ctrlKey && !event.metaKey && !(event.shiftKey && event.key === "Enter")) event.stopPropagation();
    });
    root.classList.add("attn-panel", "attn-sentence");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", sheet.name);
    const typed = element("div", { class: "attn-typed" }, element("span", { "aria-hidden": "true" }, "Sentence"), texts.box, ...kernel ? [go] : [], ...isPage ? [copy] : []);
    root.replaceChildren(element( // first what is seen, then what changes it; but who types sees the words below
        "form", { autocomplete: "off" },
        ...kernel ? [typed] : [],
        element("div", { class: "attn-words-and-arcs" }, row.box,
            element("div", { class: "attn-below" }, guesses.box, element("p", { class: "attn-from" }, from, asks.box, loud))),
        element("div", { class: "attn-told" }, status),
        element("div", { class: "attn-changes" }, changes.box, ...kernel ? [] : [typed]),
        element("div", { class: "attn-next-words" }, element("p", {}, "next word"), bars.box),
        folded,
        element("p", { class: "attn-source" }, [sheet.note, sheet.source].filter(Boolean).join(" ")),
    ));
    point();
    const begin = () => {
        if (address?.saved) Object.assign(chosen, { change: PLAIN }, address.saved);
        others.box.value = chosen.other;
        read(chosen.text);
    };
    if (address) addEventListener("hashchange", () => { if (address.saved) begin(); });
    if (address?.saved) requestAnimationFrame(() => root.scrollIntoView({ block: "start" }));
    begin();
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
        const shown = mount(el, model.get("sheet"), kernel);
        if (model.comm_live === false) setTimeout(shown.tell, PATIENCE, ASLEEP);
        return () => model.off("msg:custom", hear);
    },
};
