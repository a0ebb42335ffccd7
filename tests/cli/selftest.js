// Drives a report in a browser: sorts, filters, steps through schedules. Its verdict is the text of #verdict.
"use strict";
(() => {
  const failures = [...window.problems];
  const check = (what, holds) => { if (!holds) failures.push(what); };
  const column = (table, name) => [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === name);
  const cells = (table, at) => [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
  const sorted = (numbers) => numbers.every((value, index) => index === 0 || numbers[index - 1] <= value);
  try {
    const rows = document.getElementById("rows-table");
    const overhead = column(rows, "overhead %");
    const head = rows.tHead.rows[0].cells[overhead];
    const numbers = () => cells(rows, overhead).map(parseFloat).filter((value) => !Number.isNaN(value));
    head.firstChild.click();
    check("sorted upwards", numbers().length > 5 && sorted(numbers()));
    check("says that it is sorted", head.getAttribute("aria-sort") === "ascending");
    check("rows without a number come last", cells(rows, overhead).at(-1) === "" || numbers().length === cells(rows, overhead).length);
    head.firstChild.click();
    check("sorted downwards", sorted(numbers().reverse()) && numbers()[0] > numbers().at(-1));

    const filter = document.getElementById("rows-table-filter");
    const all = rows.tBodies[0].rows.length;
    filter.value = "ROTOR counter";
    filter.dispatchEvent(new Event("input"));
    const visible = [...rows.tBodies[0].rows].filter((row) => !row.hidden);
    check("the filter keeps what has all words", visible.length > 0 && visible.length < all);
    check("and nothing else", visible.every((row) => /rotor/.test(row.textContent) && /counter/.test(row.textContent)));
    check("the filter counts", document.querySelector("output[for=rows-table-filter]").textContent === `${visible.length} of ${all} rows`);

    const at = (id) => document.getElementById(id);
    const data = JSON.parse(at("schedule-data").textContent);
    check("there are schedules", data.schedules.length > 5);
    check("some with workspace", data.schedules.some((schedule) => schedule.workspace.length > 0));
    check("the menu has them all", at("schedule").options.length === data.schedules.length);
    check("some with a plan of addresses, and some without", new Set(data.schedules.map((schedule) => !schedule.plan)).size === 2);
    data.schedules.forEach((schedule, index) => {
      at("schedule").value = index;
      at("schedule").dispatchEvent(new Event("change"));
      const { plan } = schedule;
      check(`schedule ${index} shows addresses where it has a plan`, at("addresses").hidden === !plan && at("address-head").hidden === !plan);
      if (plan) {
        const drawn = [...at("address-map").querySelectorAll("rect")].map((rectangle) => rectangle.getBBox());
        check(`schedule ${index} has a rectangle for each buffer`, drawn.length === plan.buffers.length && drawn.length > 3);
        const apart = (a, b) => a.x + a.width <= b.x + 0.03 || b.x + b.width <= a.x + 0.03 || a.y + a.height <= b.y + 0.03 || b.y + b.height <= a.y + 0.03;
        check(`schedule ${index}: no rectangle covers another`, drawn.every((one, place) => drawn.slice(place + 1).every((other) => apart(one, other))));
        check(`schedule ${index} says how high its arena is`, at("plan-facts").textContent.includes(`an arena of ${plan.height.toLocaleString("en")} `));
      }
      check(`schedule ${index} starts at its peak`, Number(at("step").value) === (schedule.peak_step ?? 0));
      const actions = schedule.actions.split(" ");
      const { operators, tensors, fixed } = data.instances[schedule.instance];
      let memory = 0;
      actions.forEach((action, step) => {
        memory += schedule.memory[step];
        at("step").value = step;
        at("step").dispatchEvent(new Event("input"));
        const name = action[0] === "-" ? tensors[Number(action.slice(1))][0] : operators[parseInt(action, 10)][0];
        check(`schedule ${index}, step ${step} names ${name}`, at("action").textContent.includes(name));
        const said = at("action").textContent.endsWith(`Memory ${memory.toLocaleString("en")}.`);
        check(`schedule ${index}, step ${step} says ${memory}`, said);
        // Sizes of these instances are small whole numbers, printed in full.
        const sizes = cells(at("alive"), 2).map((text) => Number(text.replaceAll(",", "")));
        const sum = sizes.reduce((total, size) => total + size, 0);
        check(`schedule ${index}, step ${step}: ${sum} in the list, ${memory} by the simulator`, sum === memory);
        if (plan) {
          const alive = plan.buffers.filter(([lower, upper]) => lower <= step && step < upper);
          const living = [...at("address-map").querySelectorAll("rect:not(.dead)")].length;
          check(`schedule ${index}, step ${step} lights the buffers that are alive`, living === alive.length);
          const said = cells(at("alive"), 4).filter(Boolean).map((text) => Number(text.replaceAll(",", ""))).sort((a, b) => a - b);
          const offsets = alive.map(([, , offset]) => offset).sort((a, b) => a - b);
          check(`schedule ${index}, step ${step} lists addresses ${said}, not ${offsets}`, String(said) === String(offsets));
        }
      });
      check(`schedule ${index} peaks as recorded`, fixed >= 0 && at("facts").textContent.includes(schedule.peak.toLocaleString("en")));
    });

    at("to-peak").click();
    check("back to the peak", Number(at("step").value) === (data.schedules.at(-1).peak_step ?? 0));
    const svg = at("timeline").querySelector("svg");
    const box = svg.getBoundingClientRect();
    svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 5, bubbles: true }));
    const middle = Number(at("step").max) / 2;
    check("hovering shows a step in the middle", Math.abs(Number(at("step").value) - middle) <= Number(at("step").max) * 0.1 + 2);

    const button = rows.querySelector("button.view[data-schedule='0']");
    button.click();
    check("a row leads to its schedule", at("schedule").value === "0");
    check("figures are drawn", document.querySelectorAll("svg.figure").length >= 3);
    const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
    check("ids are unique", new Set(ids).size === ids.length);
  } catch (error) {
    failures.push(String(error.stack ?? error));
  }
  const verdict = document.createElement("pre");
  verdict.id = "verdict";
  verdict.textContent = [...failures, ...window.problems].length ? [...new Set([...failures, ...window.problems])].join("\n") : "all well";
  document.body.append(verdict);
})();
