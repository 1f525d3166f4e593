// Present a page: large type and one section at a time. Arrow keys turn, Escape ends.
(() => {
    const article = document.querySelector("article");
    const sections = [...(article?.querySelectorAll("section") ?? [])];
    if (sections.length < 3) return;
    const body = document.body, button = document.createElement("button");
    let here = 0;

    function turnTo(place) {
        sections[here].classList.remove("here");
        here = Math.min(Math.max(place, 0), sections.length - 1);
        sections[here].classList.add("here");
        history.replaceState(null, "", `#${sections[here].id}`);
        scrollTo(0, 0);
    }

    function present(on) {
        const begun = sections.filter(one => one.getBoundingClientRect().top < 120).length;
        body.classList.toggle("presenting", on);
        button.textContent = on ? "End" : "Present";
        if (on) turnTo(begun - 1);
        else {
            sections[here].classList.remove("here");
            sections[here].scrollIntoView();
        }
    }

    button.type = "button";
    button.className = "present";
    button.textContent = "Present";
    button.title = "One section at a time: arrow keys turn, Escape ends";
    button.addEventListener("click", () => present(!body.classList.contains("presenting")));
    article.prepend(button);

    addEventListener("keydown", event => {
        if (!body.classList.contains("presenting") || event.altKey || event.ctrlKey || event.metaKey)
            return;
        const way = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
        if (event.key === "Escape") present(false);
        else if (!way || event.target.closest("input, select, textarea, .attn-over, .attn-words")) return;
        else turnTo(here + way);
        event.preventDefault();
        event.stopImmediatePropagation(); // the theme would turn to another page
    }, { capture: true });
})();
