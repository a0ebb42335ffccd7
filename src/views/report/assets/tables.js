// Sorting by a click on a column's name, and filtering by words. Without this script the tables are as printed.
"use strict";
(() => {
  // A cell's exact value where it has one, else the number that its text begins with, in its unit.
  const UNITS = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
  const value = (cell) => {
    const exact = cell.dataset.sort;
    if (exact !== undefined) return Number(exact);
    const text = cell.textContent.replace(/^[<>=\s]+/, "");
    return parseFloat(text) * (UNITS[text.split(" ")[1]] ?? 1);
  };

  // Cells without a number come last, whichever way the numbers go.
  const compare = (number, direction) => (a, b) => {
    if (!number) return direction * a.cell.textContent.localeCompare(b.cell.textContent, undefined, { numeric: true });
    const [x, y] = [value(a.cell), value(b.cell)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return direction * (x - y);
  };

  const sort = (table, column) => {
    const heads = [...table.tHead.rows[0].cells];
    const head = heads[column];
    const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, cell: row.cells[column] }));
    const number = head.classList.contains("number") || rows.some(({ cell }) => cell.dataset.sort !== undefined);
    rows.sort(compare(number, direction));
    body.append(...rows.map(({ row }) => row));
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, column));
      head.replaceChildren(button);
    });
  }

  for (const input of document.querySelectorAll("input[type=search][data-table]")) {
    const rows = [...document.getElementById(input.dataset.table).tBodies[0].rows];
    const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
    const output = input.parentElement.querySelector("output");
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, at) => {
        row.hidden = !words.every((word) => texts[at].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      output.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
    };
    input.addEventListener("input", apply);
    apply();
  }
})();
