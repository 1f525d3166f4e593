// The table of borrowed answers on the first page: what one points at is told in words, what is pressed
// the panel shows.
(() => {
    const table = document.querySelector(".borrowed table"), panel = document.querySelector(".attn-sentence");
    if (!table) return;
    const told = document.querySelector(".pointed"), rest = told.textContent;
    const rows = [...table.rows].slice(1).map(row => [...row.cells].slice(1));
    const place = cell => [cell.parentNode.rowIndex - 1, cell.cellIndex - 1];
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const cellOf = event => event.target.closest("td[aria-label]");
    let here = rows[0][1];

    const point = cell => {
        told.textContent = cell?.getAttribute("aria-label") ?? rest;
        for (const one of table.querySelectorAll(".at")) one.classList.remove("at");
        if (!cell) return;
        const [row, column] = place(cell);
        for (const one of [cell, table.rows[row + 1].cells[0], table.rows[0].cells[column + 1]]) one.classList.add("at");
    };
    const choose = (name, country) => {
        const list = panel.querySelector(`select[aria-label="${name}"]`);
        list.value = [...list.options].find(one => one.value.includes(country)).value;
        list.dispatchEvent(new Event("change", { bubbles: true }));
    };
    const change = value => panel.querySelector(`[type=radio][value="${value}"]`).click();
    const press = async cell => {
        const top = panel.getBoundingClientRect().top;
        if (top < 0 || top > innerHeight / 2) { // first there, then the numbers travel
            panel.scrollIntoView({ block: "start", behavior: still.matches ? "auto" : "smooth" });
            if (!still.matches) await new Promise(done => setTimeout(done, 600));
        }
        const [text, lender] = place(cell).map(i => rows[i][0].parentNode.cells[0].textContent);
        change("as it is"); // a radio button that is already chosen would not answer a click
        choose("your sentence", text);
        await new Promise(read => setTimeout(read)); // the panel reads it before it takes the next
        if (text !== lender) choose("second sentence", lender);
        if (text !== lender) change("with its numbers from");
    };
    const go = (row, column) => {
        here.tabIndex = -1;
        here = rows[Math.min(Math.max(row, 0), rows.length - 1)][Math.min(Math.max(column, 0), rows.length - 1)];
        here.tabIndex = 0;
        here.focus();
    };
    new IntersectionObserver(([{ isIntersecting }], watch) => { // first seen, it fills column by column
        if (!isIntersecting) return;
        watch.disconnect();
        if (still.matches) return;
        for (const cell of table.querySelectorAll(".lent"))
            cell.animate([{ background: "transparent" }, {}], { duration: 350, delay: 25 * place(cell)[1], fill: "backwards" });
    }, { threshold: 0.3 }).observe(table);
    rows.flat().forEach(cell => { cell.tabIndex = cell === here ? 0 : -1; });
    table.addEventListener("pointerover", event => point(cellOf(event)));
    table.addEventListener("pointerleave", () => point(document.activeElement.closest(".borrowed td")));
    table.addEventListener("focusin", event => point(cellOf(event)));
    table.addEventListener("focusout", () => point());
    table.addEventListener("click", event => { if (cellOf(event)) press(cellOf(event)); });
    table.addEventListener("keydown", event => {
        const [row, column] = place(here);
        const way = {
            ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
            ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
            Home: [row, 0], End: [row, Infinity],
        }[event.key];
        if (way) go(...way);
        else if (event.key === "Enter" || event.key === " ") press(here);
        else return;
        event.preventDefault();
    });
})();
