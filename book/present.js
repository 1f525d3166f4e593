// Present a page: large type, as much of a section at a time as fits a screen. Arrow keys turn, Escape
// ends, a bar shows how far it is.
(() => {
    addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(one => { one.open = true; }));
    const article = document.querySelector("article");
    const sections = [...(article?.querySelectorAll("section[id]") ?? [])];
    if (sections.length < 3) return;
    const body = document.body, button = document.createElement("button");
    const far = Object.assign(document.createElement("progress"), { className: "far", ariaLabel: "so far" });
    const ROOM = 140; // pixels that stay free below
    let slides = [], here = 0;

    // The children of a section that fit a screen together; its heading stands above each part.
    function parts(section) {
        const heading = section.querySelector(":scope > :is(h1, h2, h3, h4)");
        const rest = [...section.children].filter(child => child.tagName !== "SECTION" && child !== heading);
        const made = [[]];
        for (const child of rest) {
            const first = made.at(-1)[0] ?? child;
            const high = child.getBoundingClientRect().bottom - first.getBoundingClientRect().top;
            if (made.at(-1).length && high > innerHeight - heading.offsetHeight - ROOM) made.push([]);
            made.at(-1).push(child);
        }
        return made.map(shown => ({ section, shown: [heading, ...shown] }));
    }

    function turnTo(place) {
        const old = slides[here]?.section;
        old?.classList.remove("here");
        for (const child of old?.children ?? []) child.classList.remove("shown");
        here = Math.min(Math.max(place, 0), slides.length - 1);
        const { section, shown } = slides[here];
        section.classList.add("here");
        for (const child of shown) child.classList.add("shown");
        Object.assign(far, { max: slides.length, value: here + 1 });
        history.replaceState(null, "", `#${section.id}`);
        scrollTo(0, 0);
    }

    function present(on) {
        const at = sections.filter(one => one.getBoundingClientRect().top < 120).at(-1) ?? sections[0];
        document.documentElement.classList.toggle("large", on);
        if (on) slides = sections.flatMap(parts); // as high as they are in large type
        body.classList.toggle("presenting", on);
        button.textContent = on ? "End" : "Present";
        if (on) turnTo(slides.findIndex(({ section }) => section === at));
        else slides[here].section.scrollIntoView();
    }

    button.type = "button";
    button.className = "present";
    button.textContent = "Present";
    button.title = "A screen at a time: arrow keys turn, Escape ends";
    button.addEventListener("click", () => present(!body.classList.contains("presenting")));
    article.prepend(button, far);

    addEventListener("keydown", event => {
        if (!body.classList.contains("presenting") || event.altKey || event.ctrlKey || event.metaKey)
            return;
        const way = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
        if (event.key === "Escape") present(false);
        else if (!way || event.target.closest("input, select, textarea, .attn-over, .attn-words, [role=slider]")) return;
        else turnTo(here + way);
        event.preventDefault();
    }, { capture: true });
})();
