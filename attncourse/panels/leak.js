// The leak detector: an input word is shaken, and the outputs that move light up. Switches change one
// layer of attention, and so do the mistakes of a list. live.js precedes it in the same module.

const SHAKE = 3; // what a press adds to each number of a word
const FULL = 1; // an output that moves so far is as bright as can be

// What a layer makes of the inputs, and how far each output moves when one word's numbers change by so much.
export function shake({ layer }, inputs, how, word, by) {
    const changed = inputs.map((row, i) => i === word ? row.map(number => number + by) : row);
    const [before, after] = [inputs, changed].map(rows => attend(rows, layer, how).written);
    const far = after.map((row, i) => row.map((number, c) => Math.abs(number - before[i][c])));
    return { before, after, moved: far.map(row => row.some(Number.isNaN) ? NaN : Math.max(...row)) };
}

export function mount(root, sheet, memory) {
    const { tokens, inputs, mistakes } = sheet, count = tokens.length;
    const start = { ...RIGHT, size: "as they are", word: -1, by: 0, shaken: [] };
    const howOf = state => Object.fromEntries(Object.keys(RIGHT).map(key => [key, state[key]]));
    const sized = () => state.size === start.size ? inputs : inputs.map(row => row.map(number => 85 * number));
    const nameOf = state => Object.keys(mistakes).find(name =>
        Object.entries({ ...RIGHT, ...mistakes[name] }).every(([key, value]) => state[key] === value)) ?? "several";
    const listed = places => places.map(i => `“${tokens[i]}”`).join(", ").replace(/, ([^,]*)$/, " and $1");
    const told = far => {
        if (far > 0 && far < 0.005) return far.toExponential(0).replace("-", "−");
        return far ? far.toFixed(far < 10 ? 2 : 1) : String(far); // 0 and NaN
    };
    const isMoved = far => far !== 0; // NaN is not 0 either

    // What is shown

    const line = (moved, shaken) => { // of the word that is held, and of all that were shaken
        if (moved.every(Number.isNaN)) return ["Every output is ", bold("NaN"), ": this layer answers nothing."];
        if (state.word < 0 && !shaken.size) return ["Take hold of a word and shake it."];
        if (state.word < 0) {
            const before = [...shaken].flatMap(([word, far]) => far.slice(0, word));
            const strange = before.filter(Number.isNaN).length, leaks = before.filter(isMoved).length - strange;
            const last = Number.isNaN([...shaken.values()][0].at(-1));
            const own = last ? [` “${tokens.at(-1)}” is `, bold("NaN"), ": it sees nothing."] : [];
            const nan = strange ? [` ${strange} of them are `, bold("NaN"), "."] : own;
            if (leaks) return [bold("It leaks: "), `${leaks} of ${before.length} places before a shaken word move.`, ...nan];
            if (strange) return [`Of ${before.length} places before a shaken word none moves.`, ...nan];
            return ["Nothing before a shaken word moves."];
        }
        const places = upTo(count), word = `“${tokens[state.word]}”`;
        const past = places.filter(i => i < state.word && isMoved(moved[i]));
        const rest = places.filter(i => i >= state.word && isMoved(moved[i]));
        if (past.length) return [bold("It leaks. "), `Outputs before ${word} move: ${listed(past)}.`];
        if (!rest.length) return [`You shake ${word}, and no output moves.`];
        const moves = `${listed(rest)} ${rest.length > 1 ? "move" : "moves"}`;
        return [`You shake ${word}. Of the outputs, ${moves}; nothing before it does.`];
    };
    const show = () => {
        for (const [key, control] of Object.entries(switches)) control.show(state[key]);
        list.show(nameOf(state));
        apart.open ||= nameOf(state) === "several";
        elsewhere.hidden = Object.keys(RIGHT).every(key => key in switches || state[key] === RIGHT[key]);
        const rows = sized(), how = howOf(state), isLive = isGripped || !state.shaken.includes(state.word);
        const now = shake(sheet, rows, how, state.word, isLive ? state.by : SHAKE); // at rest, as in the table
        const shaken = new Map(state.shaken.map(j => [j, shake(sheet, rows, how, j, SHAKE).moved]));
        const isAll = state.word < 0; // then an output has the largest of its movements, or of its leaks
        const farthest = i => {
            const far = [...shaken].map(([j, moved]) => [j > i && isMoved(moved[i]), moved[i]]);
            const leaks = far.filter(([isLeak]) => isLeak), kept = leaks.length ? leaks : far;
            return [leaks.length > 0, kept.length ? Math.max(...kept.map(([, moved]) => moved)) : 0];
        };
        const strength = far => Number.isNaN(far) ? 1 : Math.min(Math.sqrt(far / FULL), 1);
        handles.forEach((handle, i) => {
            const isHeld = i === state.word;
            handle.style.setProperty("--by", isHeld && isGripped ? state.by : 0); // let go, it swings back
            handle.classList.toggle("attn-gripped", isHeld && isGripped);
            handle.classList.toggle("attn-held", isHeld && state.by !== 0);
            handle.setAttribute("aria-valuenow", isHeld ? state.by : 0);
            handle.setAttribute("aria-valuetext", isHeld && state.by ? `shaken by ${two(state.by)}` : "at rest");
        });
        outputs.forEach((output, i) => {
            const [isLeak, far] = isAll ? farthest(i) : [i < state.word && isMoved(now.moved[i]), now.moved[i]];
            output.className = Number.isNaN(far) ? "attn-nan" : isLeak ? "attn-leaks" : "";
            output.style.setProperty("--share", strength(far));
            output.lastChild.textContent = isMoved(far) ? `${isLeak ? "▲ " : ""}${told(far)}` : "still";
        });
        cells.forEach((row, i) => row.forEach((cell, j) => {
            const isKnown = shaken.has(j), far = isKnown ? shaken.get(j)[i] : 0;
            cell.textContent = isKnown ? told(far) : "";
            cell.className = Number.isNaN(far) ? "attn-nan" : isKnown && i < j && isMoved(far) ? "attn-leaks" : isKnown ? "attn-known" : "";
            cell.style.setProperty("--share", strength(far));
        }));
        wire(isAll ? shaken : new Map([[state.word, now.moved]]), strength);
        const red = outputs.filter(output => output.className === "attn-leaks"), was = isLeaking, name = nameOf(state);
        isLeaking = red.length > 0;
        const tremble = { duration: 100, iterations: 3 }, still = matchMedia("(prefers-reduced-motion: reduce)").matches;
        if (isLeaking && !was && !still)
            for (const output of red) output.animate({ transform: ["none", "translateX(-2px)", "translateX(2px)", "none"] }, tremble);
        if (isLeaking && leaky.includes(name)) exposed.add(name);
        tally.textContent = exposed.size ? `${exposed.size} of ${leaky.length} mistakes that leak exposed` : "";
        status.tell(...line(now.moved, shaken));
    };

    const wireTo = (j, i, kind, share) => {
        const [from, to] = [j, i].map(place => 100 * (place + 0.5) / count);
        const path = element("path", { d: `M${from} 0C${from} 60 ${to} 40 ${to} 100`, class: kind });
        path.style.setProperty("--share", share);
        return path;
    };
    const wire = (shaken, strength) => wires.replaceChildren( // from an input to what moves, below all an own one
        ...upTo(count, i => wireTo(i, i, "attn-still", 0)),
        ...[...shaken].flatMap(([j, far]) => upTo(count).filter(i => isMoved(far[i]))
            .map(i => wireTo(j, i, i < j ? "attn-leaks" : "", strength(far[i])))));

    // What can be touched

    let isGripped = false, isLeaking = false;
    const exposed = new Set();
    const rest = () => { isGripped = false; show(); };
    const grip = (word, by) => { isGripped = true; move(word, by); };
    const move = (word, by) => go({ word, by: Math.round(100 * by) / 100,
        shaken: state.shaken.includes(word) ? state.shaken : [...state.shaken, word] });
    let wave = 0;
    const swing = word => { // to and fro, then it stays where the table has it
        cancelAnimationFrame(wave);
        const begin = performance.now();
        const next = time => {
            const done = (time - begin) / 700;
            if (done >= 1) isGripped = false;
            (done < 1 ? grip : move)(word, done < 1 ? SHAKE * Math.sin(9 * Math.PI * done / 2) : SHAKE);
            if (done < 1) wave = requestAnimationFrame(next);
        };
        if (matchMedia("(prefers-reduced-motion: reduce)").matches) move(word, SHAKE);
        else next(begin);
    };
    const handleOf = (token, i) => {
        const handle = element("div", { role: "slider", tabindex: 0, class: "attn-word",
            "aria-label": `${token}, to be shaken`, "aria-valuemin": -SHAKE, "aria-valuemax": SHAKE }, token);
        let from = null, isDragged = false;
        handle.addEventListener("pointerdown", event => {
            handle.setPointerCapture(event.pointerId);
            [from, isDragged] = [event.clientX, false];
            cancelAnimationFrame(wave);
        });
        handle.addEventListener("pointermove", event => {
            if (from === null || !(isDragged ||= Math.abs(event.clientX - from) > 3)) return;
            grip(i, Math.min(Math.max((event.clientX - from) / 12, -SHAKE), SHAKE));
        });
        for (const end of ["pointerup", "pointercancel"]) handle.addEventListener(end, () => {
            if (from !== null && !isDragged && end === "pointerup") swing(i);
            else if (isDragged) rest();
            from = null;
        });
        handle.addEventListener("keydown", event => {
            const now = state.word === i ? state.by : 0;
            const [across, along] = WAYS[event.key] ?? [];
            if (across !== undefined) grip(i, Math.min(Math.max(now + (across - along) / 4, -SHAKE), SHAKE));
            else if (event.key === "Enter" || event.key === " ") swing(i);
            else return;
            event.preventDefault();
        });
        handle.addEventListener("keyup", event => { if (WAYS[event.key]) rest(); });
        return handle;
    };
    const handles = tokens.map(handleOf);
    new IntersectionObserver(([{ isIntersecting }], watch) => { // first seen, one shows that it can be shaken
        if (!isIntersecting) return;
        watch.disconnect();
        if (!matchMedia("(prefers-reduced-motion: reduce)").matches)
            handles[3].animate({ translate: ["0", "-6px", "6px", "-4px", "0"] }, { duration: 500, delay: 600 });
    }, { threshold: 1 }).observe(handles[3]);
    const outputs = tokens.map(token => element("div", {}, token, element("small")));
    const cells = tokens.map(() => tokens.map(() => element("td")));
    const far = element("tbody", {}, ...cells.map((squares, i) => row(tokens[i], ...squares)));
    const wires = element("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", class: "attn-wires", "aria-hidden": "true" });
    const status = teller();
    const change = key => word => go({ [key]: word });
    const switches = {
        mask: options("The mask hides", Object.keys(HIDES), change("mask")),
        order: choices("Order", [RIGHT.order, "softmax, mask"], change("order")),
        softmax: choices("Softmax", [RIGHT.softmax, "over queries"], change("softmax")),
        scale: options("Divided by the root of", ["head_dim", "nothing", "d_out", "d_in"], change("scale")),
        size: choices("Inputs", ["as they are", "85 times as large"], change("size")),
    };
    const list = options("The layer has", [...Object.keys(mistakes), "several"], name =>
        name === "several" ? show() : go({ ...RIGHT, ...mistakes[name] }));
    const leaky = Object.keys(mistakes).filter(name => upTo(count).some(word =>
        shake(sheet, inputs, { ...RIGHT, ...mistakes[name] }, word, SHAKE).moved.slice(0, word).some(far => far > 0)));
    const tally = element("span", { class: "attn-note" });
    const all = button("Shake all six", () => go({ word: -1, by: 0, shaken: upTo(count) }));
    const none = button("Start again", () => go({ ...start }));
    const elsewhere = element("p", { class: "attn-note" }, "This mistake has no switch here: it is in how the heads are read, split or merged.");
    const apart = element("details", {}, element("summary", {}, "Break it switch by switch"), elsewhere,
        element("div", { class: "attn-switches" }, ...Object.values(switches).map(({ box }) => box)));
    const [state, go] = hold(root, sheet, start, memory, show);
    fill(root, sheet,
        status.box,
        element("div", { class: "attn-parts" },
            element("div", { class: "attn-part attn-shaking" },
                element("p", { class: "attn-title" }, "Inputs: drag a word to and fro, or press it"),
                element("div", { class: "attn-words-in" }, ...handles), wires,
                element("div", { class: "attn-words-out" }, ...outputs),
                element("p", { class: "attn-title" }, "Outputs: how far each moves")),
            headed(`Each word pushed by ${SHAKE}: outputs down`, table(["output", ...tokens], far))),
        element("div", { class: "attn-control attn-acts" }, list.box, all, none, tally), apart);
    show();
}

export default asWidget(mount);
