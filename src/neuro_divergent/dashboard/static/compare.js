// Several runs side by side: the ranking, overlaid curves, differences of settings; one HTML file to send.

import { chart, COLOURS } from "./chart.js";
import { asPage } from "./export.js";
import { ask, download, figure, h, percent, state, table } from "./tools.js";

export function comparing(ids, metric) {
  const element = h("div"), inside = h("div");
  element.append(h("h1", {}, "Compare"), inside);
  const curve = { of: "validation_loss" };
  const overlay = chart("Runs by epoch", { xlabel: "epoch", wide: true, height: 320 });
  const bySteps = chart("Training loss by step", { xlabel: "step", wide: true });
  let found = null;

  async function load(signal) {
    if (ids.length < 1) {
      const all = await ask("/api/runs", { signal });
      const groups = Map.groupBy ? [...Map.groupBy(all.runs.filter((run) => run.scored?.rows), (run) => `${run.scored.rows} ${run.scored.h}`).values()].filter((group) => group.length > 1) : [];
      inside.replaceChildren(h("p", {}, "Select two or more runs in the table, and press Compare. These were scored on the same rows of the same table:"),
        groups.length ? h("ul", {}, groups.sort((a, b) => b.length - a.length).slice(0, 30).map((group) => h("li", {}, h("a", { href: `#/compare?runs=${group.slice(0, 50).map((run) => run.id).join(",")}` }, `${group.length} runs`), ` on ${figure(group[0].data.series)} series, ${figure(group[0].data.rows)} rows (${group[0].data.fingerprint.slice(0, 8)}), ${group[0].scored.h} steps ahead`))) : h("p", { class: "soft" }, "No two runs were."));
      return;
    }
    found = await ask(`/api/compare?runs=${ids.join(",")}${metric ? `&metric=${encodeURIComponent(metric)}` : ""}`, { signal });
    draw();
  }

  function name(id) { return found.runs.find((run) => run.id === id).name; }

  function draw() {
    const metrics = h("select", { "aria-label": "Score", onchange: () => { location.hash = `#/compare?runs=${ids.join(",")}&metric=${metrics.value}`; } }, [...new Set([...found.metrics, found.metric])].map((one) => h("option", { value: one }, one)));
    metrics.value = found.metric;
    const columns = [...new Set(Object.values(found.curves).flatMap((own) => Object.keys(own.epochs)))].filter((one) => !one.endsWith("_mean"));
    if (!columns.includes(curve.of)) curve.of = columns[0];
    const which = h("select", { "aria-label": "Curve", onchange: () => { curve.of = which.value; curves(); } }, columns.map((one) => h("option", { value: one }, one)));
    which.value = curve.of;
    const board = h("section", {}, h("h2", {}, `Ranking by ${found.metric}`), found.refusal.length ? h("div", { class: "problem", role: "alert" }, h("p", {}, h("b", {}, "These runs are not ranked together: "), `${found.refusal.join("; ")}.`), found.groups.length > 1 ? h("p", {}, "Those that were scored alike are ranked by themselves below.") : "") : "", found.groups.map(ranking));
    const changed = h("section", {}, h("h2", {}, "Differences of settings"), found.differences.length ? table(["setting", ...found.runs.map((run) => run.name)], found.differences.map((one) => [one.setting, ...found.runs.map((run) => one.values[run.id] ?? "–")]), { caption: "Differences of settings", wrap: [0, ...found.runs.map((_, place) => place + 1)] }) : h("p", { class: "soft" }, "All settings are the same."));
    const overview = h("section", {}, table(["", "run", "model", "best score", "epochs", "steps"], found.runs.map((run) => [state(run), h("a", { href: `#/run/${run.id}` }, run.name), run.model, `${figure(run.score)} ${run.score_name || ""}`, figure(run.epoch), figure(run.step)]), { numbers: [4, 5], wrap: [1], caption: "Compared runs" }));
    const send = h("button", { type: "button", onclick: () => download("comparison.html", asPage("Comparison of runs", [overview, board, changed], [overlay, bySteps]), "text/html") }, "Save as one HTML file");
    inside.replaceChildren(h("div", { class: "bar" }, h("label", {}, "Score", metrics), h("label", {}, "Curve", which), send), overview, board, h("div", { class: "grid" }, overlay.element, bySteps.element), changed);
    curves();
  }

  function ranking(group) {
    const rows = group.runs.map((run, place) => ({ mark: place ? null : "top1", cells: [String(place + 1), run.name, figure(run.value), typeof group.naive === "number" && group.naive ? `${percent(Math.abs(1 - run.value / group.naive))} ${run.value <= group.naive ? "lower" : "higher"} than naive` : ""] }));
    if (typeof group.naive === "number") rows.push({ mark: "naive", cells: ["", "seasonal naive", figure(group.naive), ""] });
    return [h("p", { class: "soft" }, `${group.h} steps ahead, table ${(group.data?.fingerprint || "").slice(0, 8)}`), table(["", "run", found.metric, ""], rows, { numbers: [2], wrap: [1], caption: "Ranking" })];
  }

  function curves() {
    overlay.title = `${curve.of} by epoch`;
    overlay.element.querySelector("figcaption").firstChild.textContent = overlay.title;
    const shown = Object.entries(found.curves);
    overlay.update(shown.filter(([, own]) => own.epochs[curve.of]).map(([id, own], place) => ({ name: name(id), ...own.epochs[curve.of], colour: COLOURS[place % 8], dash: place >= 8 ? "5 3" : null })));
    bySteps.update(shown.map(([id, own], place) => ({ name: name(id), ...own.steps.loss, colour: COLOURS[place % 8], width: 1.2, dash: place >= 8 ? "5 3" : null })));
  }

  return { title: "Compare", element, load, watches: ids, changed: async (changed) => { if (ids.some((id) => changed.has(id))) await load(); } };
}
