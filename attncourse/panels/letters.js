// The panel of one's own letters: the two-layer model guesses each next one, and its heads are ablated, all
// of a head or place by place, by brushing. live.js precedes it in the same module.

const HEADS = ["L0H0", "L0H1", "L1H0", "L1H1"];

// Of a sheet: matrices in base64, float32, opened once.
const opened = new WeakMap();
function parametersOf({ shapes, bytes }) {
    const all = new Float32Array(Uint8Array.from(atob(bytes), letter => letter.charCodeAt(0)).buffer);
    let from = 0;
    return Object.fromEntries(Object.entries(shapes).map(([name, [rows, columns]]) => {
        const matrix = upTo(rows, i => [...all.subarray(from + i * columns, from + (i + 1) * columns)]);
        from += rows * columns;
        return [name, matrix];
    }));
}

// The model on letters (by number); ablated has pairs of a head, 0 to 3, and a place.
export function readLetters(sheet, letters, ablated = []) {
    if (!opened.has(sheet)) opened.set(sheet, parametersOf(sheet));
    const made = opened.get(sheet), weights = [];
    const [token, position] = ["token", "position"].map(name => made[`${name}_embedding.weight`]);
    let x = letters.map((letter, i) => plus(token[letter], position[i]));
    for (const l of [0, 1]) {
        const at = name => made[`layers.${l}.${name}`];
        const layer = { heads: 2, out_proj: at("out_proj.weight"), bias: at("out_proj.bias")[0] };
        for (const name of ["W_query", "W_key", "W_value"]) layer[name] = at(`${name}.weight`);
        const hands = rows => rows.map((row, i) => row.map((number, c) =>
            ablated.some(([head, place]) => place === i && head === 2 * l + Math.floor(c / 16)) ? 0 : number));
        const { written, weights: maps } = attend(x, layer, { hands });
        weights.push(...maps);
        x = x.map((row, i) => plus(row, written[i]));
    }
    const logits = linear(x, made["read_out.weight"], made["read_out.bias"][0]);
    return { weights, logits };
}

export function mount(root, sheet, memory) {
    const MOST = sheet.longest, [first, last] = [sheet.letters[0], sheet.letters.at(-1)];
    const start = { text: sheet.start, ablated: [], place: sheet.start.length - 1 }; // ablated: head * MOST + place
    const lettersOf = text => [...text.toLowerCase()].filter(letter => sheet.letters.includes(letter)).slice(0, MOST);
    const best = row => row.indexOf(Math.max(...row));
    const guessesOf = ({ logits }) => logits.map(row => sheet.letters[best(row)]);
    let now = null, letters = [];

    // What is shown

    const line = (plain, guesses) => {
        const isKnown = letter => sheet.letters.includes(letter.toLowerCase());
        const signs = [...state.text].filter(letter => /\S/.test(letter)), known = signs.filter(isKnown);
        const strange = new Set(signs.filter(letter => !isKnown(letter)));
        const notes = strange.size ? [`Left out, since it reads ${first} to ${last}: ${[...strange].join(" ")}`] : [];
        if (known.length > MOST) notes.push(`It reads ${MOST} letters at most.`);
        tooMuch.textContent = notes.join(". ");
        const isRepeat = i => letters.indexOf(letters[i]) < i && i + 1 < letters.length;
        const asked = upTo(letters.length).filter(isRepeat);
        const right = list => asked.filter(i => list[i] === letters[i + 1]).length;
        if (!asked.length) return ["Type eight letters or more, and then the same again."];
        const [before, after] = [plain, guesses].map(right);
        const whole = `of ${asked.length} letters after one that was there before`;
        if (!state.ablated.length) return [bold(`${before} right`), ` ${whole}.`];
        return [bold(`${after} right`), `, ${before} without ablation, ${whole}.`];
    };
    const show = () => {
        letters = lettersOf(state.text);
        if (field.value !== state.text) field.value = state.text;
        if (!letters.length) {
            row.replaceChildren();
            brush.replaceChildren();
            return status.tell(`Type letters from ${first} to ${last}.`);
        }
        const place = Math.min(Math.max(state.place, 0), letters.length - 1);
        const numbers = letters.map(letter => sheet.letters.indexOf(letter));
        const ablated = state.ablated.map(code => [Math.floor(code / MOST), code % MOST]);
        const plain = guessesOf(readLetters(sheet, numbers));
        now = readLetters(sheet, numbers, ablated);
        const guesses = guessesOf(now);
        tiles(plain, guesses, place);
        brushes(place);
        none.style.visibility = state.ablated.length ? "" : "hidden";
        status.tell(...line(plain, guesses));
    };
    const keep = (box, made) => { while (box.children.length > made) box.lastChild.remove(); };
    const tiles = (plain, guesses, place) => {
        keep(row, letters.length);
        letters.forEach((letter, i) => {
            const tile = row.children[i] ?? row.appendChild(tileOf(i)), next = letters[i + 1];
            const [input, shown, guess] = tile.children;
            input.checked = i === place;
            shown.textContent = letter;
            const isRight = guesses[i] === next, isBroken = plain[i] === next && !isRight;
            const [kind, sign] = isRight ? ["right", "✓"] : isBroken ? ["broken", "✗"] : ["", ""];
            guess.textContent = sign + guesses[i];
            guess.className = kind && `attn-${kind}`;
            input.setAttribute("aria-label", `${letter}, place ${i}; guess ${guesses[i]}${kind && `, ${kind}`}`);
        });
    };
    const brushes = place => HEADS.forEach((name, head) => {
        const [toggle, cells] = (brush.children[head] ?? brush.appendChild(lineOf(name, head))).children;
        const isAblated = i => state.ablated.includes(MOST * head + i);
        const off = upTo(letters.length).filter(isAblated).length;
        toggle.setAttribute("aria-pressed", off === letters.length);
        toggle.textContent = off === letters.length ? `${name} ablated` : name;
        keep(cells, letters.length);
        letters.forEach((letter, i) => {
            const cell = cells.children[i] ?? cells.appendChild(cellOf(head, i));
            const weight = now.weights[head][place][i] ?? 0;
            cell.style.setProperty("--share", weight);
            cell.textContent = letter;
            cell.className = isAblated(i) ? "attn-off" : "";
            cell.tabIndex = i === place ? 0 : -1;
            cell.setAttribute("aria-pressed", isAblated(i));
            const said = `${name} at ${letter}, place ${i}; from place ${place}, weight ${two(weight)}`;
            cell.setAttribute("aria-label", said);
        });
    });

    // What can be touched

    const field = element("input", { "aria-label": "your letters", spellcheck: "false", autocapitalize: "off" });
    field.addEventListener("input", () => go({ text: field.value, place: lettersOf(field.value).length - 1 }));
    const tileOf = i => {
        const input = element("input", { type: "radio", name: "place", value: i });
        input.addEventListener("change", () => go({ place: i }));
        return element("label", {}, input, element("span"), element("small"));
    };
    const setAblated = (codes, isOff) => go({ ablated: toggled(state.ablated, codes, isOff) });
    const lineOf = (name, head) => {
        const toggle = button(name, () => {
            const all = upTo(letters.length, i => MOST * head + i);
            setAblated(all, !all.every(code => state.ablated.includes(code)));
        });
        const cells = element("div", { role: "group", "aria-label": `${name}, place by place`, "data-head": head });
        return element("div", { class: "attn-line-of-head" }, toggle, cells);
    };
    const cellOf = (head, i) => element("button", { type: "button", "data-code": MOST * head + i });
    const brush = element("div", { class: "attn-brush" });
    brushed(root, brush, code => state.ablated.includes(code), (code, isOff) => setAblated([code], isOff));
    roving(brush, ({ dataset, parentElement }, across) =>
        across && dataset.code && parentElement.children[dataset.code % MOST + across]);
    const row = element("div", { class: "attn-tiles", role: "radiogroup", "aria-label": "letter that looks" });
    const [status, tooMuch] = [teller(), element("p", { class: "attn-note" })];
    const none = button("Restore all", () => go({ ablated: [] }));
    const [state, go] = hold(root, sheet, start, memory, show);
    fill(root, sheet, typed("Letters", field), status.box, tooMuch,
        headed("Your letters, each with the guess of the next one below. Choose the letter that looks",
            element("div", { class: "attn-line-of-head" }, none, row)),
        headed("The heads: how much the chosen letter looks where. Brush over squares to ablate a head there", brush),
        element("p", { class: "attn-note" }, sheet.source));
    show();
}

export default asWidget(mount);
