// Search without a server: sections of the course, the best first, each with the sentence that fits.
// tools/book.py writes `lines`: of every section its page, place, titles and sentences.
(() => {
    const MOST = 40; // sections that are listed
    const LONG = 160; // letters of a sentence that are shown
    const asked = new URLSearchParams(location.search).get("q") ?? "";
    const words = asked.toLowerCase().match(/\S+/g) ?? [];
    const box = document.getElementById("search-results");
    document.querySelector(".asked input").value = asked;
    if (!words.length) return;

    const begins = words.map(word => `(?<!\\p{L}(?=\\p{L}))${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`); // "fused" is not in "refused"
    const finds = begins.map(begin => new RegExp(begin, "iu")), any = new RegExp(`(${begins.join("|")})`, "iu");
    const has = text => finds.every(find => find.test(text));
    const element = (name, attributes, ...children) => {
        const made = Object.assign(document.createElement(name), attributes);
        made.append(...children);
        return made;
    };
    const marked = text => { // the words that were asked for stand out
        const from = text.length > LONG && text.indexOf(" ", text.search(any) - LONG / 2) + 1;
        const cut = text.length > LONG ? `${text.slice(from, from + LONG).replace(/\s\S*$/, "")} …` : text;
        return `${from ? "… " : ""}${cut}`.split(any).map((part, i) => i % 2 ? element("mark", {}, part) : part);
    };
    const rank = ({ href, section, sentences }) => // lessons before what is for looking up
        10 * has(section) + 5 * /^notebooks\/0/.test(href) + sentences.filter(has).length;
    const found = lines
        .map(([href, page, section, sentences]) => ({ href, page, section, sentences }))
        .filter(({ section, sentences }) => has([section, ...sentences].join(" ")))
        .sort((one, other) => rank(other) - rank(one));
    const first = found.slice(0, MOST);
    const items = first.map(({ href, page, section, sentences }) => {
        const said = sentences.find(has) ?? sentences.find(text => any.test(text)) ?? "";
        const title = page === section ? page : `${page} › ${section}`;
        return element("li", {}, element("a", { href }, ...marked(title)), element("p", {}, ...marked(said)));
    });
    const sections = `section${found.length === 1 ? "" : "s"} with “${asked}”`;
    const count = !found.length ? `No section has “${asked}”. Is it spelled as in the course? Fewer words find more.`
        : found.length > MOST ? `The first ${MOST} of ${found.length} ${sections}` : `${found.length} ${sections}`;
    box.append(element("p", { role: "status" }, count), element("ol", {}, ...items));
})();
