// The panel of the mini model: its words, its query and what its head hands over are the reader's, and
// all that it computes is shown. live.js precedes it in the same module.

const MIDDLE = 130; // of a plane, in pixels
const radius = share => 3 + 9 * Math.sqrt(share); // of a point
const OWN = "its own", ABLATED = "ablated", GIVEN = "your ◆", OTHER = "those of", AIMED = "your ●";
const DIAMOND = "M -12 0 L 0 -12 L 12 0 L 0 12 Z", ARROW = "M -23 -6 L -15 0 L -23 6";
const MOTION = { duration: 250, easing: "ease-out" };

// The model, at the last word of a text. `query` and `numbers` stand in for its own there.
export function readMini({ words, parameters }, tokens, { query, numbers } = {}) {
    const embedding = parameters["embedding.weight"], x = tokens.map(word => embedding[words.indexOf(word)]);
    const names = ["W_query", "W_key", "W_value"].map(name => [name, parameters[`head.${name}.weight`]]);
    const layer = { ...Object.fromEntries(names), out_proj: parameters["out_proj.weight"] };
    const last = given => rows => given ? [...rows.slice(0, -1), given] : rows;
    const head = attend(x, layer, { asks: last(query), hands: last(numbers) });
    const before = x.at(-1), written = head.written.at(-1), after = plus(before, written);
    const logits = embedding.map(row => dot(row, after));
    const at = ([rows]) => rows.at(-1);
    return {
        tokens, before, written, after, logits, probabilities: softmax(logits), numbers: head.mixed.at(-1),
        query: at(head.queries), keys: head.keys[0], values: head.values[0],
        scores: at(head.scores), weights: at(head.weights),
    };
}

// The words, the arcs from the last one to those that it looks at, and what the model goes on with.
function stage() {
    const arcs = element("svg", { class: "attn-mini-arcs" }), words = element("div"), answer = element("b");
    const box = element("div", { class: "attn-stage-of-words", "aria-hidden": "true" }, element("div", {}, arcs, words), answer);
    let shown = [], shares = [];
    const lay = () => {
        const middles = [...words.children].map(word => word.offsetLeft + word.offsetWidth / 2), last = middles.at(-1);
        const paths = shares.map((share, i) => {
            const far = (last - middles[i]) / 2, high = Math.min(10 + 0.32 * far, 50);
            const path = far ? `M ${last} 54 C ${last} ${54 - 1.3 * high} ${middles[i]} ${54 - 1.3 * high} ${middles[i]} 54`
                : `M ${last - 5} 54 C ${last - 14} 34 ${last + 14} 34 ${last + 5} 54`;
            return element("path", { d: path, "stroke-width": 1 + 8 * share, opacity: share < 0.02 ? 0 : 0.35 + 0.65 * share });
        });
        arcs.replaceChildren(...paths);
    };
    new ResizeObserver(lay).observe(words);
    return {
        box,
        show(tokens, weights, word) {
            if (String(tokens) !== String(shown)) words.replaceChildren(...tokens.map(token => element("span", {}, token, element("small"))));
            [shown, shares] = [tokens, weights];
            [...words.children].forEach((one, i) => { one.lastChild.textContent = two(weights[i]); });
            if (answer.textContent && answer.textContent !== word) answer.animate({ opacity: [0.2, 1] }, MOTION);
            answer.textContent = word;
            lay();
        },
    };
}

// Points of a plane, and a tip that is dragged, or moved by arrow keys; a click goes there, too.
function plane(label, reach, mark, drag) {
    const unit = (MIDDLE - 6) / reach, place = ([x, y]) => [MIDDLE + unit * x, MIDDLE - unit * y];
    const rest = element("g"), names = element("g", { class: "attn-names" }), slider = { role: "slider", tabindex: 0, "aria-label": label, class: "attn-grip" };
    const ring = element("circle", { class: "attn-breath" }); // take hold here, until somebody has
    const grip = element("g", slider, element("circle", { r: 22 }), ring, mark), dots = [];
    const axes = element("path", { d: `M 0 ${MIDDLE} H ${2 * MIDDLE} M ${MIDDLE} 0 V ${2 * MIDDLE}`, class: "attn-axes" });
    const svg = element("svg", { viewBox: `0 0 ${2 * MIDDLE} ${2 * MIDDLE}`, class: "attn-plane" }, axes, rest, names, grip);
    let here = [0, 0];
    new IntersectionObserver(([{ isIntersecting }]) => ring.classList.toggle("attn-seen", isIntersecting)).observe(svg);
    const to = tip => {
        ring.remove();
        drag(tip.map(number => Math.round(100 * Math.min(Math.max(number, -reach), reach)) / 100));
    };
    const follow = event => {
        const { x, y, width } = svg.getBoundingClientRect(), scale = 2 * MIDDLE / width;
        to([(event.clientX - x) * scale - MIDDLE, MIDDLE - (event.clientY - y) * scale].map(far => far / unit));
    };
    svg.addEventListener("pointerdown", event => {
        if (event.pointerType === "touch" && !grip.contains(event.target)) return; // it may be a scroll
        svg.setPointerCapture(event.pointerId);
        svg.addEventListener("pointermove", follow);
        follow(event);
    });
    for (const end of ["pointerup", "pointercancel"])
        svg.addEventListener(end, () => svg.removeEventListener("pointermove", follow));
    svg.addEventListener("click", event => { if (event.pointerType === "touch") follow(event); });
    grip.addEventListener("keydown", event => {
        if (!WAYS[event.key]) return;
        event.preventDefault();
        const [across, along] = WAYS[event.key];
        to(plus(here, [across / 4, -along / 4]));
    });
    const named = points => { // a name has the first place beside its point where no other is
        const taken = points.map(({ at }) => [...plus(place(at), [-4, -4]), 8, 8]);
        return points.flatMap(({ name, at, share }) => {
            const [x, y] = place(at), far = 6 + radius(share), wide = 7 * name.length;
            const meets = ([left, top]) => left < 0 || left + wide > 2 * MIDDLE || taken.some(
                ([x, y, w, h]) => left < x + w && x < left + wide && top < y + h && y < top + 15);
            const tries = [0, -1, 1, -2, 2].flatMap(row =>
                [x + far, x - far - wide].map(left => [left, y - 8 + 15 * row]));
            const [left, top] = tries.find(at => !meets(at)) ?? tries[0];
            taken.push([left, top, wide, 15]);
            const text = element("text", { x: left, y: top + 12 }, name), end = left < x ? left + wide : left;
            const leader = element("path", { d: `M ${x} ${y} L ${end} ${top + 8}`, class: "attn-leader" });
            return top === y - 8 ? [text] : [leader, text]; // a name farther off says whose it is
        });
    };
    return {
        box: svg,
        show(points, tip, lines, said, isArrow = false) {
            here = tip;
            const [x, y] = place(tip);
            grip.setAttribute("transform", `translate(${x} ${y})`);
            grip.setAttribute("aria-valuenow", tip[0]);
            grip.setAttribute("aria-valuetext", `${pair(tip)}: ${said}`);
            const drawn = lines.map(({ from, share }) => {
                const [x1, y1] = place(from);
                const line = element("line", { x1, y1, x2: x, y2: y, "stroke-width": 1 + 6 * share });
                if (!isArrow || Math.hypot(x - x1, y - y1) < 30) return line;
                const turn = `translate(${x} ${y}) rotate(${Math.atan2(y - y1, x - x1) * 180 / Math.PI})`;
                return element("g", {}, line, element("path", { d: ARROW, transform: turn, class: "attn-tipped", "stroke-width": 1 + 6 * share }));
            });
            const circles = points.map(({ at, share }, i) => {
                const [cx, cy] = place(at), dot = dots[i] ??= element("circle"); // one that stays swells
                for (const [key, value] of Object.entries({ cx, cy, r: radius(share) })) dot.setAttribute(key, value);
                return dot;
            });
            rest.replaceChildren(...drawn, ...circles);
            names.replaceChildren(...named(points)); // over what is dragged
        },
    };
}

const signed = number => element("td", { style: `--share: ${Math.min(Math.abs(number) / 8, 1)}`,
    class: number < 0 ? "attn-signed attn-minus" : "attn-signed" }, two(number));
// The likeliest words first; a word keeps its row, which moves to its place.
function ranking(words) {
    const rows = words.map(word => element("li", {}, element("span", {}, word), element("i", { "aria-hidden": "true" }),
        element("small"), element("small")));
    const label = "next words, each with logit and probability";
    const box = element("ol", { class: "attn-ranking", tabindex: 0, "aria-label": label }, ...rows);
    return {
        box,
        show(logits, probabilities) {
            const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
            const order = [...words.keys()].sort((one, other) => logits[other] - logits[one]);
            const tops = rows.map(row => row.offsetTop), next = order.map(i => rows[i]);
            if (next.some((row, i) => row !== box.children[i])) box.append(...next);
            rows.forEach((row, i) => {
                const [, bar, logit, share] = row.children;
                bar.style.setProperty("--share", probabilities[i]);
                logit.textContent = two(logits[i]);
                share.textContent = two(probabilities[i]);
                if (!isStill && tops[i] !== row.offsetTop)
                    row.animate({ transform: [`translateY(${tops[i] - row.offsetTop}px)`, "none"] }, MOTION);
            });
        },
    };
}

export function mount(root, sheet, memory) {
    const start = {
        text: sheet.sentences[0][0], query: [], head: OWN, other: sheet.sentences[15][0], numbers: [],
    };
    const known = new Map(sheet.words.map(word => [word.toLowerCase(), word]));
    const tokensOf = text => text.split(/\s+/).filter(Boolean).map(word =>
        sheet.words.includes(word) ? word : known.get(word.toLowerCase()) ?? word);
    const trouble = tokens => {
        const strange = tokens.find(word => !sheet.words.includes(word));
        if (strange) return `“${strange}” is not among the ${sheet.words.length} words that this model knows.`;
        if (!tokens.length) return "Type at least one word.";
        return tokens.length > sheet.longest ? `This model reads ${sheet.longest} words at most.` : "";
    };
    const twoOr = numbers => numbers?.length === 2 ? numbers : undefined;

    // What is shown

    let now = null;
    const best = ({ logits }) => logits.indexOf(Math.max(...logits));
    const line = plain => {
        const first = best(now), was = best(plain);
        const [before, after] = [plain, now].map(({ probabilities }) => two(probabilities[was]));
        const fate = before === after ? `keeps its ${before}` : `goes from ${before} to ${after}`;
        const isOwn = state.head === OWN && !state.query.length, { tokens, weights } = now;
        const most = tokens[weights.indexOf(Math.max(...weights))];
        const change = isOwn ? ` Drag ● away from ${most}, and see.` : ` ${sheet.words[was]} ${fate}.`;
        return ["The model goes on with ", bold(sheet.words[first]), `, ${two(now.probabilities[first])}.${change}`];
    };
    const cells = i => {
        const weight = element("td", { class: "attn-bar", style: `--share: ${now.weights[i]}` }, two(now.weights[i]));
        const [key, score, value] = [pair(now.keys[i]), two(now.scores[i]), pair(now.values[i])];
        return [element("td", {}, key), element("td", {}, score), weight, element("td", {}, value)];
    };
    const draw = () => {
        const { tokens, weights } = now, most = tokens[weights.indexOf(Math.max(...weights))];
        const points = rows => rows.map((at, i) => ({ at, name: tokens[i], share: weights[i] }));
        const mixed = state.head === OWN ? now.values.map((from, i) => ({ from, share: weights[i] })) : [];
        const arrow = [{ from: [0, 0], share: 0.3 }];
        asks.show(points(now.keys), now.query.map(x => x / 2), arrow, `most weight on ${most}`, true);
        hands.show(points(now.values), now.numbers, mixed, `next word ${sheet.words[best(now)]}`);
        looks.show(tokens, weights, sheet.words[best(now)]);
        seen.replaceChildren(...tokens.map((word, i) => row(word, ...cells(i))));
        const sum = [[`“${tokens.at(-1)}”`, now.before], ["+ head", now.written], ["= sum", now.after]];
        stream.replaceChildren(...sum.map(([name, numbers]) => row(name, ...numbers.map(signed))));
        words.show(now.logits, now.probabilities);
    };
    const show = () => {
        const [tokens, others] = [tokensOf(state.text), tokensOf(state.other)];
        const wrong = [trouble(tokens), state.head === OTHER ? trouble(others) : ""];
        text.show(state.text, wrong[0]);
        other.show(state.other, wrong[1]);
        heads.show(state.head);
        aims.show(state.query.length ? AIMED : OWN);
        const said = wrong.find(Boolean);
        for (const part of root.querySelectorAll(".attn-plane, .attn-scroll, .attn-ranking, .attn-stage-of-words"))
            part.toggleAttribute("inert", Boolean(said)); // it shows what was before
        if (said) return status.tell(said);
        const given = { [ABLATED]: [0, 0], [GIVEN]: state.numbers }[state.head];
        const numbers = state.head === OTHER ? readMini(sheet, others).numbers : given;
        now = readMini(sheet, tokens, { query: twoOr(state.query), numbers: twoOr(numbers) });
        draw();
        status.tell(...line(readMini(sheet, tokens)));
    };

    // What can be touched

    const list = element("datalist", { id: `mini-${Math.random()}` });
    list.append(...sheet.sentences.map(([text]) => element("option", { value: text })));
    const field = (label, choose) => {
        const box = element("input", { "aria-label": label, list: list.id, spellcheck: "false" });
        box.addEventListener("input", () => choose(box.value));
        return {
            box,
            show(text, wrong) {
                if (box.value !== text) box.value = text;
                box.setAttribute("aria-invalid", Boolean(wrong));
            },
        };
    };
    const rounded = numbers => numbers.map(number => Math.round(100 * number) / 100);
    const text = field("sentence", text => go({ text, ...trouble(tokensOf(text)) ? {} : { query: [] } }));
    const other = field("other sentence", other => go({ other, head: OTHER }));
    const [status, words, seen, stream] = [teller(), ranking(sheet.words), element("tbody"), element("tbody")];
    const [disk, diamond] = [element("circle", { r: 11 }), element("path", { d: DIAMOND })];
    const looks = stage();
    const asks = plane("query", 4.5, disk, tip => go({ query: tip.map(x => 2 * x) }));
    const hands = plane("what the head hands over", 8, diamond, numbers => go({ numbers, head: GIVEN }));
    const aims = choices("The query of the last word is", [OWN, AIMED], aim =>
        go({ query: aim === OWN ? [] : rounded(now.query) }));
    const heads = choices("The head hands over", [OWN, ABLATED, GIVEN, OTHER], head =>
        go({ head, numbers: rounded(now.numbers) }));
    const note = element("details", { class: "attn-note" },
        element("summary", {}, `Its ${sheet.words.length} words`), element("p", {}, sheet.words.join(" ")));
    const [state, go] = hold(root, sheet, start, memory, show);
    for (const one of ["text", "other"]) if (trouble(tokensOf(state[one]))) state[one] = start[one]; // saved half written
    fill(root, sheet, list,
        typed("Sentence", text.box), looks.box, status.box,
        element("div", { class: "attn-parts" },
            headed("The keys, and ●: half the query", asks.box, aims.box),
            headed("The values, and ◆, handed over", hands.box, heads.box, other.box),
            headed("The next word: logit and probability", words.box, note),
            headed("The residual stream of the last word", table(["number", "0", "1", "2", "3"], stream)),
            element("div", { class: "attn-wide" },
                headed("For each word", table(["word", "key", "score", "weight", "value"], seen)))));
    show();
}

export default asWidget(mount);
