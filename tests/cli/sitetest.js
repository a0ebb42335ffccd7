// Drives a page of the site in a browser. Its verdict is the text of #verdict, which comes when the viewer has shown its schedules.
"use strict";
(async () => {
  const failures = [];
  const check = (what, holds) => { if (!holds) failures.push(what); };
  const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
  const until = async (what, holds) => {
    for (let tries = 0; tries < 200 && !holds(); tries++) await pause();
    check(what, holds());
  };
  // Contrast by WCAG: the luminances of two colours.
  const luminance = (colour) => {
    const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
    const linear = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  try {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const paper = getComputedStyle(document.body).backgroundColor;
    check("dark where the reader wants it so", (luminance(paper) < 0.2) === dark);
    for (const element of document.querySelectorAll("p, a, td, th button, summary, .caption, .status, label")) {
      const raised = element.closest("th") ? getComputedStyle(element.closest("th")).backgroundColor : paper;
      const found = contrast(getComputedStyle(element).color, raised);
      check(`contrast of ${element.tagName} ${element.className}: ${found}`, found >= 4.5);
    }
    check("the page is no wider than the window", document.documentElement.scrollWidth <= innerWidth);
    check("the page says where it is", document.querySelectorAll("nav [aria-current=page]").length === 1);
    const first = document.querySelector("a, button, input, select");
    check("the keyboard comes to the content first", first.getAttribute("href") === "#content");
    const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
    check("ids are unique", new Set(ids).size === ids.length);

    for (const table of document.querySelectorAll("table.sortable")) {
      const heads = [...table.tHead.rows[0].cells];
      const at = heads.findIndex((head) => head.classList.contains("number"));
      const value = (row) => parseFloat(row.cells[at].dataset.sort ?? "NaN");
      const values = () => [...table.tBodies[0].rows].map(value).filter((number) => !Number.isNaN(number));
      const button = heads[at].querySelector("button");
      button.focus();
      check(`${table.id}: the keyboard reaches the columns`, document.activeElement === button);
      button.click();
      check(`${table.id}: sorted upwards`, values().every((number, index, all) => index === 0 || all[index - 1] <= number));
      button.click();
      check(`${table.id}: sorted downwards`, values().every((number, index, all) => index === 0 || all[index - 1] >= number));
    }
    for (const filter of document.querySelectorAll("input[type=search]")) {
      const rows = [...document.getElementById(filter.dataset.table).tBodies[0].rows];
      filter.value = "fixed ORDER";
      filter.dispatchEvent(new Event("input"));
      check(`${filter.id}: filtered`, rows.every((row) => row.hidden !== /fixed order/.test(row.textContent)));
      filter.value = "";
      filter.dispatchEvent(new Event("input"));
      check(`${filter.id}: all again`, rows.every((row) => !row.hidden));
    }

    const select = document.getElementById("schedule");
    const at = (id) => document.getElementById(id);
    if (select) {
      check("no schedule is loaded that is not shown", document.querySelectorAll("script[src*='/'][src$='.js']").length <= 4);
      for (const option of [...select.options]) {
        select.value = option.value;
        select.dispatchEvent(new Event("change"));
        const shown = () => at("facts").textContent.includes(`, ${option.textContent.split(": ").at(-1)}, budget `);
        await until(`${option.value} is shown`, shown);
        at("to-peak").click();
        const peak = at("facts").textContent.match(/peak ([^,]*),/)[1];
        check(`${option.value} has its peak where it says`, at("action").textContent.endsWith(`Memory ${peak}.`));
        at("step").value = 0;
        at("step").dispatchEvent(new Event("input"));
        check(`${option.value} begins`, at("step-number").textContent.startsWith("0 of "));
      }
      const button = document.querySelector("button.view");
      button.click();
      check("a value leads to its schedule", select.value === button.dataset.schedule);
      check("the figure is drawn", document.querySelectorAll("svg.figure").length === 1);
    }
  } catch (error) {
    failures.push(String(error.stack ?? error));
  }
  const all = [...new Set([...failures, ...window.problems])];
  const verdict = document.createElement("pre");
  verdict.id = "verdict";
  verdict.textContent = all.length ? all.join("\n") : "all well";
  document.body.append(verdict);
})();
