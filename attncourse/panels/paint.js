// The sheet of all heads as a control: a pattern is painted into an empty map, and the heads of two
// models rank themselves by it. live.js precedes it in the same module.

const SIDE = 6; // of the empty map; a shorter text uses its upper left
const TINY = 24, LARGE = 34; // pixels of a head in the sheet, with its gap; as wide as there is room
const NAMED = 5; // heads of the first row, in words
const COUNTS = ["no", "one", "two", "three", "four", "five", "six"];
const PATTERNS = {
    "one word back": (i, j) => j === i - 1,
    "the first word": (i, j) => j === 0,
    "itself": (i, j) => j === i,
};

// The attention weights of each head in a text, by rows; they come in percent, without the future.
export function mapsOf({ tokens, bytes }) {
    const percent = Uint8Array.from(atob(bytes), letter => letter.charCodeAt(0)), size = tokens.length;
    const cells = size * (size + 1) / 2;
    return upTo(percent.length / cells, head => upTo(size, i =>
        upTo(i + 1, j => percent[head * cells + i * (i + 1) / 2 + j] / 100)));
}

// How much of the attention of the painted rows is on painted cells, from 0 to 1; cells are 6 i + j.
export function likeness(map, painted) {
    const rows = upTo(map.length).filter(i => painted.some(cell => Math.floor(cell / SIDE) === i));
    const on = rows.flatMap(i => map[i].filter((_, j) => painted.includes(SIDE * i + j)));
    return on.length ? on.reduce((sum, weight) => sum + weight) / rows.length : 0;
}

export function mount(root, sheet, memory) {
    const firsts = sheet.models.map(({ name, texts }) => [name, texts[0].text]);
    const start = { painted: [], open: "", ...Object.fromEntries(firsts) };
    const opened = new Map(); // maps by the text of a model
    let best = null; // of all heads, by the pattern
    const textOf = ({ name, texts }) => texts.find(({ text }) => text === state[name]) ?? texts[0];
    const mapsIn = text => {
        if (!opened.has(text)) opened.set(text, mapsOf(text));
        return opened.get(text);
    };

    // A sheet: each head a small picture of its map, at the place of its layer and number, or of its rank

    const sheetOf = model => {
        const heads = upTo(model.layers * model.heads, i => `L${Math.floor(i / model.heads)}H${i % model.heads}`);
        const tiles = heads.map((name, i) => {
            const key = `${model.name} ${name}`, tile = button("", () => go({ open: state.open === key ? "" : key }));
            tile.tabIndex = i ? -1 : 0;
            tile.append(element("canvas", { "aria-hidden": "true" }));
            for (const kind of ["pointerenter", "focus"]) tile.addEventListener(kind, () => showHead(model, i));
            for (const kind of ["pointerleave", "blur"]) tile.addEventListener(kind, () => showHead());
            return tile;
        });
        const names = { class: "attn-sheet-of-heads", role: "group", "aria-label": `heads of ${model.name}` };
        const title = element("p", { class: "attn-title" }), signs = element("div", { "aria-hidden": "true" });
        const box = element("div", names, signs, ...tiles);
        const sign = (number, x, y) => element("span", { style: `translate: ${tiny * x}px ${tiny * y}px` }, String(number));
        let ranked = null, order = [], drawn = null, columns = 1, tiny = TINY;
        const put = () => {
            const text = textOf(model);
            if (!box.clientWidth) return; // not shown yet
            if (drawn !== text) tiles.forEach((tile, head) => drawMap(tile.firstElementChild, mapsIn(text)[head]));
            drawn = text;
            const most = Math.floor(box.clientWidth / TINY) - 1; // a place at the left is for the numbers of heads
            const high = model.heads, all = model.layers;
            columns = upTo(all, i => i + 1).findLast(count => all % count === 0 && count <= most) ?? 1;
            tiny = Math.min(Math.floor(box.clientWidth / (columns + 1)), LARGE);
            box.style.setProperty("--tiny", `${tiny}px`);
            const bands = upTo(all / columns); // layers across; where there is little room, more of them below
            const blockOf = rank => Math.floor(rank / columns / high);
            order = ranked ?? tiles.map((_, rank) =>
                (blockOf(rank) * columns + rank % columns) * high + Math.floor(rank / columns) % high);
            order.forEach((head, rank) => {
                const [x, y] = [rank % columns + 1, Math.floor(rank / columns) + 1 + (ranked ? 0 : blockOf(rank))];
                tiles[head].style.transform = `translate(${tiny * x}px, ${tiny * y}px)`;
                tiles[head].style.transitionDelay = ranked ? `${Math.min(2 * rank, 400)}ms` : "0ms"; // the best go first
            });
            box.style.height = `${tiny * (high + 1) * bands.length}px`;
            const likest = `From the left: ${order.slice(0, NAMED).map(head => heads[head]).join(", ")}`;
            const names = element("span", { class: "attn-likest", style: `translate: ${tiny}px` }, likest);
            signs.replaceChildren(...ranked ? [names] : bands.flatMap(band => [
                ...upTo(columns, i => sign(band * columns + i, i + 1, band * (high + 1))),
                ...upTo(high, head => sign(head, 0, band * (high + 1) + 1 + head)),
            ]));
        };
        new ResizeObserver(put).observe(box);
        onTheme(() => { drawn = null; put(); });
        const rankOf = tile => order.indexOf(tiles.indexOf(tile));
        roving(box, (tile, across, along) => tiles[order[rankOf(tile) + across + columns * along]]);
        const all = model.texts.map(({ text }) => text);
        const texts = options(`${model.name} reads`, all, text => go({ [model.name]: text }));
        return {
            model, box: element("div", { class: "attn-part" }, texts.box, title, box),
            show() {
                const text = textOf(model), maps = mapsIn(text);
                texts.show(text.text);
                const shares = maps.map(map => likeness(map, state.painted));
                const isAsked = state.painted.some(cell => cell < SIDE * maps[0].length);
                const left = SIDE - maps[0].length, rest = left > 1 ? `${COUNTS[left]} rows are` : "row is";
                const isOut = state.painted.some(cell => cell >= SIDE * maps[0].length);
                const sorted = [...maps.keys()].sort((one, other) => shares[other] - shares[one] || one - other);
                ranked = isAsked ? sorted : null;
                tiles.forEach((tile, head) => {
                    tile.style.setProperty("--share", isAsked ? shares[head] : 1);
                    tile.setAttribute("aria-pressed", state.open === `${model.name} ${heads[head]}`);
                    tile.setAttribute("aria-label", heads[head] + (isAsked ? `: ${two(shares[head])} on your pattern` : ""));
                });
                put();
                const placed = isAsked ? "most like your pattern first" : "layers across, heads down";
                title.textContent = `${model.name}: its ${tiles.length} heads, ${placed}`;
                const note = ` ${model.name} reads ${COUNTS[maps[0].length]} words here: the last ${rest} not asked.`;
                return { name: model.name, isAsked, count: tiles.length, tile: tiles[sorted[0]], head: heads[sorted[0]], share: shares[sorted[0]], note: isOut ? note : "" };
            },
        };
    };
    const drawMap = (canvas, map) => {
        canvas.width = canvas.height = map.length;
        const context = canvas.getContext("2d");
        context.fillStyle = getComputedStyle(canvas).color; // that of a light page, or a dark one
        map.forEach((row, i) => row.forEach((weight, j) => {
            context.globalAlpha = weight;
            context.fillRect(j, i, 1, 1);
        }));
    };

    // The map of a head that is pointed at, or open

    const showHead = (model, head) => {
        if (!model) {
            const [name, where] = (state.open || best || "").split(" ");
            model = sheet.models.find(one => one.name === name);
            const at = /^L(\d+)H(\d+)$/.exec(where ?? "");
            head = at && model ? at[1] * model.heads + Number(at[2]) : -1;
        }
        const text = textOf(model ?? sheet.models[0]), map = model && mapsIn(text)[head];
        const name = map && `${model.name}, L${Math.floor(head / model.heads)}H${head % model.heads}, in percent`;
        title.textContent = name ?? "A head: point at one; a click keeps it here";
        const cellAt = (i, j) => {
            if (j > i || !map) return element("td", { class: j > i ? "attn-future" : "" });
            const kind = state.painted.includes(SIDE * i + j) && i < SIDE ? "attn-painted" : "";
            return element("td", { style: `--share: ${map[i][j]}`, class: kind }, String(Math.round(100 * map[i][j])));
        };
        large.replaceChildren(...text.tokens.map((token, i) => row(token, ...text.tokens.map((_, j) => cellAt(i, j)))));
    };

    // The map that is painted

    const cells = upTo(SIDE, i => upTo(i + 1, j =>
        element("button", { type: "button", tabindex: i + j ? -1 : 0, "data-code": SIDE * i + j })));
    const future = count => upTo(count, () => element("span", { class: "attn-future" }));
    const label = "map to paint, queries down, keys across";
    const easel = element("div", { class: "attn-easel", role: "group", "aria-label": label },
        ...cells.flatMap((row, i) => [...row, ...future(SIDE - 1 - i)]));
    const paint = (codes, isOn) => go({ painted: toggled(state.painted, codes, isOn) });
    brushed(root, easel, code => state.painted.includes(code), (code, isOn) => paint([code], isOn));
    const next = (code, across, along) => cells[Math.floor(code / SIDE) + along]?.[code % SIDE + across];
    roving(easel, ({ dataset: { code } }, ...way) => next(code, ...way));

    const show = () => {
        cells.forEach((row, i) => row.forEach((cell, j) => {
            const isOn = state.painted.includes(SIDE * i + j);
            cell.setAttribute("aria-pressed", isOn);
            cell.setAttribute("aria-label", `from word ${i} to word ${j}`);
        }));
        const all = sheets.map(one => one.show()), likest = all.filter(({ isAsked }) => isAsked);
        const [first, ...others] = [...likest].sort((one, other) => other.share - one.share), was = best;
        const said = others.flatMap(({ name, head, share }) => [` Of ${name}: `, bold(head), `, ${two(share)}.`]);
        best = first ? `${first.name} ${first.head}` : "";
        const still = "Paint where a head could look, and all heads rank themselves.";
        const count = likest.reduce((sum, { count }) => sum + count, 0);
        const won = () => [`Of ${count} heads, `, bold(`${first.head} of ${first.name}`), ` does this best: ${two(first.share)}.`];
        const line = first ? [...won(), ...said] : state.painted.length ? [] : [still];
        status.tell(...line, ...all.map(({ note }) => note));
        showHead();
        if (first && was !== null && best !== was && !state.open) grow(first.tile);
    };
    const grow = tile => { // the best one becomes the large map
        if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
        const map = large.parentNode, [from, to] = [tile, map].map(part => part.getBoundingClientRect());
        const start = `translate(${from.x - to.x}px, ${from.y - to.y}px) scale(${from.width / to.width}, ${from.height / to.height})`;
        map.animate({ transform: [start, "none"], transformOrigin: ["0 0", "0 0"] }, { duration: 600, easing: "ease-in-out" });
    };
    const status = teller(), title = element("p", { class: "attn-title" }), large = element("tbody");
    const sheets = sheet.models.map(sheetOf);
    const codes = upTo(SIDE * SIDE).slice(1), isIn = (code, isPattern) => // the first row has no choice
        code % SIDE <= Math.floor(code / SIDE) && isPattern(Math.floor(code / SIDE), code % SIDE);
    const presets = Object.entries(PATTERNS).map(([name, isPattern]) => {
        const painted = codes.filter(code => isIn(code, isPattern)), made = button(name, () => go({ painted }));
        const square = cell => element("rect", { x: cell % SIDE, y: Math.floor(cell / SIDE), width: 1, height: 1 });
        const steps = upTo(SIDE, i => `V${i + 1}H${i + 2}`).join("");
        const past = element("path", { d: `M0 0H1${steps}V${SIDE}H0Z`, class: "attn-past" });
        made.prepend(element("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, "aria-hidden": "true" }, past, ...painted.map(square)));
        return made;
    });
    const clear = button("Clear", () => go({ painted: [] }));
    const [state, go] = hold(root, sheet, start, memory, show);
    fill(root, sheet, status.box,
        element("div", { class: "attn-parts" },
            headed("Your pattern: queries down, keys across. Paint it, or begin with",
                element("div", { class: "attn-painting" }, easel, element("div", { class: "attn-presets" }, ...presets, clear))),
            element("div", { class: "attn-part attn-one" }, title, element("table", {}, large))),
        element("div", { class: "attn-sheets" }, ...sheets.map(({ box }) => box)),
        element("p", { class: "attn-note" }, sheet.note));
    show();
}

export default asWidget(mount);
