// The schedule viewer: replays what the simulator recorded. It adds up nothing that the simulator has not.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const [select, slider, timeline, alive] = [at("schedule"), at("step"), at("timeline"), at("alive")];
  if (!select) return;
  // A page either holds its schedules or names files of them, each a script that calls benchData: a page that was opened from
  // a folder may load scripts, and nothing else.
  const source = at("schedule-data");
  const data = source ? JSON.parse(source.textContent) : null;
  const files = new Map();
  window.benchData = (name, content) => files.set(name, content);
  const load = (name) => new Promise((resolve, reject) => {
    if (files.has(name)) return resolve(files.get(name));
    const script = document.createElement("script");
    script.src = name;
    script.addEventListener("load", () => resolve(files.get(name)));
    script.addEventListener("error", () => reject(new Error(`${name} cannot be loaded`)));
    document.head.append(script);
  });
  const kinds = alive.dataset.kinds.split(" ");
  const SHOWN = 60;
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, STRIP] = [1100, 340, 78, 16, 26, 62, 10];
  // Colours of buffers: kinds of tensors in the order of the page's own list, then workspaces.
  const COLOURS = ["#9aa3ad", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00"];
  const WORKSPACE = "#882255";
  const MAP_HEIGHT = 420;
  let shown = null;

  const digits = (value) => value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
  const scaled = (value, units, plain) => {
    const [name, size] = units.find(([, size]) => value >= size) ?? [plain, 1];
    return size === 1 ? `${value}${plain ? " " + plain : ""}` : `${digits(value / size)} ${name}`;
  };
  const bytes = (value, instance) =>
    instance.bytes ? scaled(value, [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]], "B") : value.toLocaleString("en");
  const time = (value, instance) =>
    instance.ns ? scaled(value, [["s", 1e9], ["ms", 1e6], ["µs", 1e3]], "ns") : `${value.toLocaleString("en")} units of time`;

  const svg = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, word] of Object.entries(attributes)) element.setAttribute(key, word);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // Turns the encoding (src/views/report/schedules.rs) into lists by step.
  const decode = (schedule, instance) => {
    let sum = 0;
    return {
      ...schedule,
      instance,
      memory: schedule.memory.map((change) => (sum += change)),
      actions: schedule.actions.split(" "),
      changes: schedule.changes.split(";").map((step) => step.match(/[+-]\d+/g) ?? []),
    };
  };

  // The tensors in memory during a step, and those that it brought.
  const residents = (schedule, step) => {
    const there = new Set();
    for (let index = 0; index <= step; index++) {
      for (const change of schedule.changes[index]) {
        const tensor = Number(change.slice(1));
        if (change[0] === "+") there.add(tensor); else there.delete(tensor);
      }
    }
    const made = new Set(schedule.changes[step].filter((change) => change[0] === "+").map((change) => Number(change.slice(1))));
    return { there: [...there], made };
  };

  const words = (schedule, step) => {
    const action = schedule.actions[step];
    const { tensors, operators } = schedule.instance;
    const verb = { "-": "free", ">": "offload", "<": "fetch" }[action[0]];
    if (verb) return `${verb} ${tensors[Number(action.slice(1))][0]}`;
    const [operator, way] = action.split(".").map(Number);
    const [name, type, ways] = operators[operator];
    const [wayName, duration] = ways[way ?? 0];
    const again = schedule.phases[step] === "r" ? " again" : "";
    return `compute${again} ${name} (${type}, ${wayName}), ${time(duration, schedule.instance)}`;
  };

  // A round number of about `most` steps up to `high`.
  const ticks = (high, most, unit) => {
    const rough = high / unit / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const stride = unit * power * [1, 2, 5, 10].find((digit) => digit * power >= rough);
    return Array.from({ length: Math.floor(high / stride) + 1 }, (_, index) => index * stride);
  };

  // Shows the step at which the pointer is.
  const follow = (canvas, count) => {
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width) * WIDTH;
      show(Math.floor(((place - LEFT) / (WIDTH - LEFT - RIGHT)) * count));
    });
  };

  const draw = (schedule) => {
    const { memory, instance, peak } = schedule;
    const count = memory.length;
    const high = Math.max(peak, Math.min(schedule.budget_bytes ?? 0, peak * 1.4)) * 1.08 || 1;
    const x = (step) => LEFT + (step / count) * (WIDTH - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - (value / high) * (HEIGHT - TOP - BOTTOM);
    const canvas = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}` });
    const unit = !instance.bytes ? 1 : [2 ** 30, 2 ** 20, 2 ** 10, 1].find((size) => high >= size);
    for (const tick of ticks(high, 6, unit)) {
      canvas.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }));
      canvas.append(svg("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, bytes(tick, instance)));
    }
    for (const tick of ticks(count, 10, 1).filter(Number.isInteger)) {
      canvas.append(svg("text", { x: x(tick), y: HEIGHT - BOTTOM + STRIP + 20, "text-anchor": "middle" }, tick));
    }
    canvas.append(svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "step"));
    let path = `M${x(0)} ${y(0)}`;
    memory.forEach((value, step) => (path += `V${y(value).toFixed(1)}H${x(step + 1).toFixed(1)}`));
    canvas.append(svg("path", { class: "area", d: `${path}V${y(0)}Z` }));
    const level = (name, value, text) => {
      canvas.append(svg("line", { class: name, x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
      canvas.append(svg("text", { x: WIDTH - RIGHT - 4, y: y(value) - 5, "text-anchor": "end" }, text));
    };
    if (instance.fixed > 0) level("fixed", instance.fixed, `fixed ${bytes(instance.fixed, instance)}`);
    const budget = schedule.budget_bytes;
    if (budget && budget <= high) level("budget", budget, `budget ${bytes(budget, instance)}`);
    strip(canvas, schedule, x);
    const top = schedule.peak_step ?? 0;
    canvas.append(svg("circle", { class: "peak", cx: x(top + 0.5), cy: y(peak), r: 5 }));
    const end = top > count / 2;
    const label = `peak ${bytes(peak, instance)}, step ${schedule.peak_step ?? "none"}`;
    canvas.append(svg("text", { class: "strong", x: x(top + 0.5) + (end ? -9 : 9), y: y(peak) - 7, "text-anchor": end ? "end" : "start" }, label));
    const cursor = canvas.appendChild(svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM + STRIP + 4 }));
    follow(canvas, count);
    timeline.replaceChildren(canvas);
    return (step) => { cursor.setAttribute("x1", x(step + 0.5)); cursor.setAttribute("x2", x(step + 0.5)); };
  };

  // Every buffer of the plan as a rectangle, on the steps of the figure above it.
  const drawPlan = (schedule) => {
    const { plan, instance, memory } = schedule;
    at("addresses").hidden = at("address-head").hidden = !plan;
    if (!plan) return () => {};
    const room = schedule.budget_bytes ? schedule.budget_bytes - instance.fixed : 0;
    const high = Math.max(plan.height, room > 0 && room <= plan.height * 1.4 ? room : 0) * 1.06 || 1;
    const x = (step) => LEFT + (step / memory.length) * (WIDTH - LEFT - RIGHT);
    const y = (value) => MAP_HEIGHT - 14 - (value / high) * (MAP_HEIGHT - 14 - TOP);
    const canvas = svg("svg", { viewBox: `0 0 ${WIDTH} ${MAP_HEIGHT}` });
    const unit = !instance.bytes ? 1 : [2 ** 30, 2 ** 20, 2 ** 10, 1].find((size) => high >= size);
    for (const tick of ticks(high, 6, unit)) {
      canvas.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }));
      canvas.append(svg("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, bytes(tick, instance)));
    }
    const seen = new Set();
    const rectangles = plan.buffers.map(([lower, upper, offset, size, held]) => {
      const [, what] = held[0];
      const kind = what < 0 ? "workspace" : kinds[instance.tensors[what][2]].replace("_", " ");
      const fill = what < 0 ? WORKSPACE : COLOURS[instance.tensors[what][2] % COLOURS.length];
      seen.add(`${fill} ${kind}`);
      const [width, height] = [x(upper) - x(lower), y(offset) - y(offset + size)];
      const rectangle = svg("rect", { x: x(lower).toFixed(2), y: y(offset + size).toFixed(2), fill,
        width: Math.max(width, 0.4).toFixed(2), height: Math.max(height, 0.4).toFixed(2) });
      if (width > 3 && height > 3) rectangle.classList.add("edged");
      const names = held.map(([, id]) => (id < 0 ? `workspace of ${instance.operators[-1 - id][0]}` : instance.tensors[id][0]));
      rectangle.append(svg("title", {}, `${names.join(", then ")}: ${bytes(size, instance)} at ${offset}, steps ${lower} to ${upper - 1}`));
      return canvas.appendChild(rectangle);
    });
    const level = (name, value, text, above) => {
      canvas.append(svg("line", { class: name, x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
      canvas.append(svg("text", { class: "strong", x: WIDTH - RIGHT - 4, y: y(value) + (above ? -5 : 13), "text-anchor": "end" }, text));
    };
    // The words of the lower one go below it where both would not have room above.
    const crowded = room > plan.height && y(plan.height) - y(room) < 18;
    level("height", plan.height, `height ${bytes(plan.height, instance)}`, !crowded);
    if (room > 0 && room <= high) level("budget", room, `budget less fixed ${bytes(room, instance)}`, room >= plan.height);
    const cursor = canvas.appendChild(svg("line", { class: "cursor", y1: TOP, y2: MAP_HEIGHT - 14 }));
    follow(canvas, memory.length);
    at("address-map").replaceChildren(canvas);
    const memoryOf = instance.fixed + plan.height;
    const above = schedule.peak > 0 ? `, ${((100 * memoryOf) / schedule.peak - 100).toFixed(4)} % above the peak` : "";
    const proof = plan.bound === plan.height ? " (proved least)" : ` (none is lower than ${bytes(plan.bound, instance)})`;
    at("plan-facts").textContent = `${plan.buffers.length} buffers in an arena of ${bytes(plan.height, instance)}${proof}, ` +
      `packed by ${plan.method}, aligned to ${plan.alignment}; with ${bytes(instance.fixed, instance)} fixed${above}`;
    at("address-key").replaceChildren(...[...seen].sort().map((entry) => {
      const [span, spot] = [document.createElement("span"), document.createElement("i")];
      spot.style.background = entry.slice(0, 7);
      span.append(spot, entry.slice(8));
      return span;
    }));
    return (step) => {
      cursor.setAttribute("x1", x(step + 0.5));
      cursor.setAttribute("x2", x(step + 0.5));
      plan.buffers.forEach(([lower, upper], index) => rectangles[index].classList.toggle("dead", step < lower || step >= upper));
    };
  };

  // Where each tensor is during a step, and the workspace under the name of its operator's.
  const addresses = (schedule, step) => {
    const found = new Map();
    for (const [lower, upper, offset, , held] of schedule.plan?.buffers ?? []) {
      if (step < lower || step >= upper) continue;
      const now = held.filter(([from]) => from <= step).at(-1);
      if (now) found.set(now[1] < 0 ? "workspace" : now[1], offset);
    }
    return found;
  };

  // What each step is, in a strip below the axis: neighbours of one kind are one piece.
  const strip = (canvas, { phases }, x) => {
    for (let from = 0; from < phases.length; ) {
      let to = from;
      while (to < phases.length && phases[to] === phases[from]) to++;
      canvas.append(svg("rect", { class: phases[from], x: x(from), width: x(to) - x(from), y: HEIGHT - BOTTOM + 3, height: STRIP }));
      from = to;
    }
  };

  const row = (made, ...cells) => {
    const element = document.createElement("tr");
    element.className = made ? "made" : "";
    cells.forEach((text, index) => {
      const cell = element.insertCell();
      cell.textContent = text;
      cell.className = index > 1 ? "number" : "";
    });
    return element;
  };

  const show = (wanted) => {
    if (!shown) return;
    const { instance, memory, workspace } = shown;
    const step = Math.max(0, Math.min(memory.length - 1, wanted));
    slider.value = step;
    shown.point(step);
    shown.pointPlan(step);
    const place = addresses(shown, step);
    const address = (key) => (shown.plan ? [place.get(key)?.toLocaleString("en") ?? ""] : []);
    at("step-number").textContent = `${step} of ${memory.length - 1}`;
    at("action").textContent = `${words(shown, step)}. Memory ${bytes(memory[step], instance)}.`;
    const total = memory[step];
    const share = (value) => (total > 0 ? `${((100 * value) / total).toFixed(1)} %` : "");
    const { there, made } = residents(shown, step);
    const sorted = there.map((id) => [id, ...instance.tensors[id]]).sort((a, b) => b[2] - a[2] || a[0] - b[0]);
    const rows = sorted.slice(0, SHOWN).map(([id, name, size, kind]) =>
      row(made.has(id), name + (made.has(id) ? " (new)" : ""), kinds[kind].replace("_", " "), bytes(size, instance), share(size), ...address(id)));
    const others = [["fixed", instance.fixed, "fixed"], ["workspace of this step", workspace[step] ?? 0, "workspace"]];
    const head = others.filter(([, size]) => size > 0).map(([name, size, key]) =>
      row(false, name, "", bytes(size, instance), share(size), ...address(key)));
    const rest = sorted.slice(SHOWN);
    const sum = rest.reduce((all, [, , size]) => all + size, 0);
    if (rest.length) rows.push(row(false, `${rest.length} smaller tensors`, "", bytes(sum, instance), share(sum)));
    alive.tBodies[0].replaceChildren(...head, ...rows);
  };

  const choose = (value) => {
    if (data) return present(decode(data.schedules[Number(value)], data.instances[data.schedules[Number(value)].instance]));
    at("facts").textContent = "Loading the schedule.";
    Promise.all([load(value), load(select.dataset.instance)]).then(
      ([schedule, instance]) => { if (select.value === value) present(decode(schedule, instance)); },
      (error) => { at("facts").textContent = error.message; },
    );
  };

  const present = (schedule) => {
    shown = schedule;
    const { instance, memory, budget } = shown;
    slider.max = memory.length - 1;
    const limit = shown.budget_bytes ? `, budget ${budget} (${bytes(shown.budget_bytes, instance)})` : "";
    at("facts").textContent = `${instance.name}, ${shown.label}${limit}: ${memory.length} steps, ${time(shown.time, instance)}, ` +
      `peak ${bytes(shown.peak, instance)}, ${shown.recomputations} recomputation${shown.recomputations === 1 ? "" : "s"}`;
    shown.point = draw(shown);
    shown.pointPlan = drawPlan(shown);
    show(shown.peak_step ?? 0);
  };

  select.addEventListener("change", () => choose(select.value));
  slider.addEventListener("input", () => show(Number(slider.value)));
  at("to-peak").addEventListener("click", () => show(shown?.peak_step ?? 0));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.view");
    if (!button) return;
    select.value = button.dataset.schedule;
    choose(select.value);
    at("schedules").scrollIntoView();
  });
  choose(select.value);
})();
