// Present a page: large type, as much of a section at a time as fits a screen. Arrow keys turn, Escape
// ends, a bar and a count show how far it is.
(() => {
    addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(one => { one.open = true; }));
    const article = document.querySelector("article");
    const sections = [...(article?.querySelectorAll("section[id]") ?? [])];
    if (sections.length < 3 || document.querySelector(".front")) return;
    const body = document.body, button = document.createElement("button");
    const far = Object.assign(document.createElement("progress"), { className: "far", ariaLabel: "so far" });
    const count = Object.assign(document.createElement("span"), { className: "count", ariaHidden: "true" });
    const ROOM = 110, AGAIN = 60; // pixels that stay free, above the heading and below; a heading that comes again
    let slides = [], here = 0;

    // What can be shown of an element: all of it or, where that is too high, each part, with what it is in.
    function pieces(element, room) {
        if (!element.offsetHeight) return [];
        const high = element.offsetHeight > room && element.matches(".cell, .cell_output");
        const inside = high ? [...element.children].flatMap(child => pieces(child, room)) : [];
        element.classList.toggle("split", inside.length > 1);
        return inside.length > 1 ? inside.map(path => [element, ...path]) : [[element]];
    }

    // What fits a screen together of a section; its heading stands above each part.
    function parts(section) {
        const heading = section.querySelector(":scope > :is(h1, h2, h3, h4)");
        let room = innerHeight - heading.offsetHeight - ROOM;
        const made = [[]];
        let top = null;
        for (const child of section.children) {
            if (child.tagName === "SECTION" || child === heading) continue;
            for (const path of pieces(child, room)) {
                const box = path.at(-1).getBoundingClientRect();
                top ??= box.top;
                if (made.at(-1).length && box.bottom - top > room) {
                    made.push([]);
                    top = box.top;
                    room = innerHeight - AGAIN - ROOM;
                }
                made.at(-1).push(...path);
            }
        }
        return made.map((shown, place) => ({ section, heading, again: place > 0, shown: [heading, ...shown] }));
    }

    // The slides, from a page where everything is shown, as wide and as large as a slide shows it.
    function measure() {
        body.classList.add("measured");
        for (const panel of article.querySelectorAll(".attn-panel")) {
            for (let zoom = 2; zoom > 0.3; zoom -= 0.05) { // as large as a slide has room for all of it
                panel.style.zoom = zoom;
                const fits = panel.scrollWidth <= panel.clientWidth || zoom <= 1;
                if (fits && panel.getBoundingClientRect().height <= innerHeight - AGAIN - ROOM) break;
            }
        }
        slides = sections.flatMap(parts);
        body.classList.remove("measured");
    }

    function turnTo(place) {
        const old = slides[here];
        old?.section.classList.remove("here");
        for (const one of old?.shown ?? []) one.classList.remove("shown", "again");
        old?.heading.removeAttribute("style");
        here = Math.min(Math.max(place, 0), slides.length - 1);
        const { section, heading, again, shown } = slides[here];
        section.classList.add("here");
        for (const one of shown) one.classList.add("shown");
        heading.classList.toggle("again", again);
        const free = innerHeight - ROOM / 2 - Math.max(...shown.map(one => one.getBoundingClientRect().bottom)) - scrollY;
        if (free > 0) heading.style.marginBottom = `calc(0.75rem + ${free / 3}px)`; // a little above the middle
        Object.assign(far, { max: slides.length, value: here + 1 });
        count.textContent = `${here + 1} / ${slides.length}`;
        history.replaceState(null, "", `#${section.id}`);
        scrollTo(0, 0);
    }

    function present(on) {
        const at = sections.filter(one => one.getBoundingClientRect().top < 120).at(-1) ?? sections[0];
        document.documentElement.classList.toggle("large", on);
        body.classList.toggle("presenting", on);
        if (on) measure();
        button.textContent = on ? "End" : "Present";
        if (on) return turnTo(slides.findIndex(({ section }) => section === at));
        slides[here].heading.removeAttribute("style");
        for (const panel of article.querySelectorAll(".attn-panel")) panel.style.zoom = "";
        slides[here].section.scrollIntoView();
    }

    button.type = "button";
    button.className = "present";
    button.textContent = "Present";
    button.title = "A screen at a time: arrow keys turn, Escape ends";
    button.addEventListener("click", () => present(!body.classList.contains("presenting")));
    article.prepend(button, far, count);

    addEventListener("keydown", event => {
        if (!body.classList.contains("presenting") || event.altKey || event.ctrlKey || event.metaKey)
            return;
        const way = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1, Home: -here, End: slides.length - 1 - here }[event.key];
        if (event.key === "Escape") present(false);
        else if (way === undefined || event.target.closest(".attn-panel, input, select, textarea")) return;
        else turnTo(here + way);
        event.preventDefault();
    }, { capture: true });
})();
