// The table of all runs: sort, filter, search, tags and notes, select several to compare.

import { ask, figure, h, percent, problem, span, state, store, stored } from "./tools.js";
import { editNotes } from "./notes.js";

const SHOWN = 200;
const SECOND = new Set(["model", "data"]);  // left out on a phone, so that the score is in view
const COLUMNS = [
  ["state", "State", (run) => run.state],
  ["name", "Run", (run) => run.name],
  ["model", "Model", (run) => run.model],
  ["data", "Data", (run) => run.data?.fingerprint || ""],
  ["score", "Best score", (run) => run.score ?? Infinity],
  ["gain", "Beside naive", (run) => -(run.gain ?? -Infinity)],
  ["progress", "Progress", (run) => (run.total_steps ? run.step / run.total_steps : -1)],
  ["seconds", "Time", (run) => run.seconds ?? -1],
  ["started", "Started", (run) => -(run.started ?? 0)],
];

export function runs() {
  const settings = { sort: "started", down: false, text: "", state: "", tag: "", trials: false, ...stored("runs", {}) };
  const chosen = new Set();
  let table = { runs: [], studies: [], roots: [], unread: 0 }, limit = SHOWN;
  const body = h("tbody"), count = h("span", { class: "soft", role: "status" }), more = h("div", { class: "bar" }), note = h("div");
  const compare = h("button", { type: "button", class: "main", disabled: true, onclick: () => { location.hash = `#/compare?runs=${[...chosen].join(",")}`; } }, "Compare");
  const search = h("input", { type: "search", placeholder: "Search names, models, tags, notes", "aria-label": "Search", value: settings.text, oninput: () => { settings.text = search.value; limit = SHOWN; draw(); } });
  const states = h("select", { "aria-label": "State", onchange: () => { settings.state = states.value; draw(); } });
  const tags = h("select", { "aria-label": "Tag", onchange: () => { settings.tag = tags.value; draw(); } });
  const trials = h("input", { type: "checkbox", onchange: () => { settings.trials = trials.checked; draw(); } });
  trials.checked = settings.trials;
  const head = h("tr");
  const element = h("div", {}, h("h1", {}, "Runs"), h("div", { class: "bar" }, search, h("label", {}, "State", states), h("label", {}, "Tag", tags), h("label", {}, trials, "trials of searches"), compare, count), note,
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "All runs" }, h("table", { id: "runs" }, h("thead", {}, head), body)), more);

  function pool() { return table.runs.filter((run) => settings.trials || !run.study); }

  function fitting() {
    const words = settings.text.toLowerCase().split(/\s+/).filter(Boolean);
    return pool().filter((run) => (!settings.state || run.state === settings.state) && (!settings.tag || run.tags?.includes(settings.tag)))
      .filter((run) => {
        const text = `${run.name} ${run.model || ""} ${(run.tags || []).join(" ")} ${run.note || ""} ${run.state}`.toLowerCase();
        return words.every((word) => text.includes(word));
      });
  }

  function sorted(rows) {
    const key = COLUMNS.find((column) => column[0] === settings.sort)[2];
    const order = settings.down ? -1 : 1;
    return rows.map((run) => [key(run), run]).sort(([a, one], [b, other]) => (a < b ? -order : a > b ? order : one.name < other.name ? -1 : 1)).map((pair) => pair[1]);
  }

  function drawHead() {
    head.replaceChildren(h("th", { scope: "col" }, h("span", { class: "soft" }, "✓")), ...COLUMNS.map(([name, title]) => {
      const here = settings.sort === name;
      const act = () => { settings.down = here ? !settings.down : false; settings.sort = name; drawHead(); draw(); head.querySelector(`[data-name=${name}]`).focus(); };
      return h("th", { scope: "col", class: SECOND.has(name) ? "hide-small" : null, "aria-sort": here ? (settings.down ? "descending" : "ascending") : null }, h("button", { type: "button", "data-name": name, onclick: act }, title, here ? (settings.down ? " ↓" : " ↑") : ""));
    }));
  }

  function options(select, names, all, now) {
    select.replaceChildren(h("option", { value: "" }, all), ...names.map((name) => h("option", { value: name }, name)));
    select.value = names.includes(now) ? now : "";
  }

  function draw() {
    store("runs", settings);
    const rows = sorted(fitting());
    count.textContent = `${rows.length} of ${pool().length} runs${table.unread ? `, reading ${table.unread} more` : ""}`;
    body.replaceChildren(...rows.slice(0, limit).map(safeLine));
    more.replaceChildren(rows.length > limit ? h("button", { type: "button", onclick: () => { limit += 500; draw(); } }, `Show more (${rows.length - limit} left)`) : "");
  }

  // A run whose files hold something unforeseen must not hide the others.
  function safeLine(run) {
    try { return line(run); } catch { return h("tr", { "data-run": run.id }, h("td"), h("td", {}, state({ state: "damaged" })), h("td", { class: "name", colspan: COLUMNS.length - 1 }, h("a", { href: `#/run/${run.id}` }, run.name))); }
  }

  function line(run) {
    const box = h("input", { type: "checkbox", "aria-label": `Select ${run.name}`, onchange: () => { if (box.checked) chosen.add(run.id); else chosen.delete(run.id); select(); } });
    box.checked = chosen.has(run.id);
    const name = h("td", { class: "name" }, h("a", { href: `#/run/${run.id}` }, run.name), " ", h("button", { type: "button", class: "quiet", "aria-label": `Tags and note of ${run.name}`, title: "Tags and note", onclick: () => editNotes(run, load) }, "✎"), run.tags?.length || run.note || run.verdicts ? h("div", {}, (run.tags || []).map((tag) => h("span", { class: "tag" }, tag)), run.verdicts ? h("span", { class: "tag warn" }, `${run.verdicts} verdict${run.verdicts > 1 ? "s" : ""}`) : null, run.note ? h("span", { class: "soft" }, run.note.slice(0, 120)) : null) : null);
    const done = run.total_steps ? Math.min(1, run.step / run.total_steps) : null;
    const gain = run.gain === null || run.gain === undefined ? h("span", { class: "soft" }, "–") : h("span", { class: run.gain >= 0 ? "good" : "bad", title: `naive: ${figure(run.naive_score)}` }, `${percent(Math.abs(run.gain))} ${run.gain >= 0 ? "better" : "worse"}`);
    return h("tr", { "data-run": run.id }, h("td", {}, box), h("td", {}, state(run)), name, h("td", { class: "hide-small" }, run.model || "–"),
      h("td", { class: "hide-small" }, run.data ? [`${figure(run.data.series)} × ${figure(run.data.rows)} rows`, h("div", { class: "soft" }, `${run.data.freq} · ${(run.data.fingerprint || "").slice(0, 8)}`)] : "–"),
      h("td", { class: "number" }, figure(run.score), h("div", { class: "soft" }, run.score === null || run.score === undefined ? "" : run.score_name)), h("td", {}, gain),
      h("td", {}, done === null ? "–" : [h("progress", { max: 1, value: done, "aria-label": `Progress of ${run.name}` }), h("div", { class: "soft" }, run.state === "running" && run.left !== null ? `${percent(done)}, at most ${span(run.left)} left` : `step ${figure(run.step)} of ${figure(run.total_steps)}`)]),
      h("td", { class: "number" }, span(run.seconds)), h("td", {}, run.started ? new Date(run.started * 1000).toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" }) : "–"));
  }

  function select() {
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
  }

  async function load(signal) {
    table = await ask("/api/runs", { signal });
    options(states, [...new Set(table.runs.map((run) => run.state))].sort(), "all", settings.state);
    options(tags, [...new Set(table.runs.flatMap((run) => run.tags || []))].sort(), "all", settings.tag);
    note.replaceChildren(...table.problems.map(problem), table.runs.length || table.problems.length ? "" : h("div", { class: "empty" }, h("p", {}, `There is no run below ${table.roots.join(", ")} yet. A training with checkpoints makes one, and it appears here by itself:`),
      h("pre", {}, "neuro-divergent train table.csv --h 12 --out runs/first\n\nnd.NHITS(h=12, input_size=36).fit(data, nd.TrainingConfig(\n    checkpoints=nd.Checkpoints(directory=\"runs/first\")))")));
    draw();
  }

  drawHead();
  select();
  return { title: "Runs", element, load, watches: [], changed: () => load().catch((error) => note.replaceChildren(problem(error))) };
}
