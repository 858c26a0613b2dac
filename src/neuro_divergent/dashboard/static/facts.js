// What a run is made of: model, data, settings, files.

import { chart, COLOURS } from "./chart.js";
import { heat } from "./heat.js";
import { ask, bytes, cards, figure, h, moment, s, table } from "./tools.js";

export function modelTab(id) {
  const element = h("div");
  let details = null;
  return {
    element,
    show: async (found, signal) => {
      details ??= await ask(`/api/runs/${id}/details`, { signal });
      const layers = details.layers || [];
      const total = layers.reduce((sum, layer) => sum + layer.parameters, 0), trained = layers.reduce((sum, layer) => sum + layer.trainable, 0);
      const sized = layers.filter((layer) => layer.parameters > 0);
      const bars = chart("Parameters by layer", { bars: true, canLog: false, xText: (place) => sized[place]?.name.split(".").slice(-2).join(".") || "", wide: true });
      const tables = h("div");
      element.replaceChildren(cards([[found.run.model || "own network", "model"], [figure(total), "parameters"], [figure(trained), "of them trained"], [figure(sized.length), "layers with parameters"]]),
        bars.element, h("h2", {}, "Gradients and weights by layer"), tables, h("h2", {}, "Architecture"),
        layers.length ? h("div", { class: "tree" }, table(["part", "type", "size", "parameters"], layers.map((layer) => [`${"  ".repeat(layer.name ? layer.name.split(".").length : 0)}${layer.name.split(".").pop() || "(whole)"}`, layer.type, layer.size, layer.parameters ? figure(layer.parameters) : ""]), { numbers: [3], wrap: [2], caption: "Architecture" })) : h("p", { class: "soft" }, "This run does not say what its network is made of."),
        h("h2", {}, "Settings of the model"), settingsList(found.about.model));
      bars.update([{ name: "parameters", x: sized.map((_, place) => place), y: sized.map((layer) => layer.parameters), colour: COLOURS[0] }]);
      if (!found.tables.length) tables.append(h("p", { class: "soft" }, "Nothing was recorded by layer. callbacks=[nd.GradientNormMonitor(every=50)] records the gradients of every parameter."));
      for (const name of found.tables) tables.append(heat(name, await ask(`/api/runs/${id}/table/${encodeURIComponent(name)}`, { signal })));
    },
  };
}

function settingsList(value) {
  if (!value || !Object.keys(value).length) return h("p", { class: "soft" }, "Not recorded.");
  return h("dl", {}, Object.entries(value).map(([name, item]) => [h("dt", {}, name), h("dd", {}, typeof item === "object" ? JSON.stringify(item) : String(item))]));
}

export function dataTab(id) {
  const element = h("div");
  let details = null;
  return {
    element,
    show: async (found, signal) => {
      const data = found.about.data;
      if (!data) { element.replaceChildren(h("p", { class: "soft" }, "This run does not describe its data. Forecasters do; a Trainer on plain arrays has no table.")); return; }
      details ??= await ask(`/api/runs/${id}/details`, { signal });
      const series = details.series || [], missing = data.rows - data.observed;
      const scored = found.about.scored || {};
      element.replaceChildren(cards([[figure(data.series), "series"], [figure(data.rows), "rows"], [data.freq, "frequency"], [figure(missing), "rows without a value (gaps)", missing ? "warn" : ""], [figure(data.held_out), "rows held out"], [data.seasons.length ? data.seasons.join(", ") : "none", "seasons that the data confirms"]]),
        h("p", {}, `${day(data.first)} to ${day(data.last)}`), h("p", { class: "soft" }, `Fingerprint ${data.fingerprint}. Scored on rows ${String(scored.rows || "").slice(0, 16)}, ${scored.h} steps ahead.`),
        h("h2", {}, "Data report"), h("ul", {}, data.report.map((line) => h("li", {}, line))),
        h("h2", {}, "Columns"), settingsList(Object.fromEntries(Object.entries(data.columns).filter(([, value]) => value && value.length))),
        h("h2", {}, `Series${series.length < data.series ? ` (the first ${series.length})` : ""}`),
        table(["series", "", "rows", "missing", "longest gap", "held out", "mean", "lowest", "highest", "from", "to"], series.map((one) => [one.id, spark(one.picture, one.id), figure(one.rows), figure(one.missing), figure(one.longest_gap), figure(one.held_out), figure(one.mean), figure(one.low), figure(one.high), day(one.first), day(one.last)]), { numbers: [2, 3, 4, 5, 6, 7, 8], wrap: [0], caption: "Series" }));
    },
  };
}

function day(moment) { return String(moment ?? "–").replace(" 00:00:00", ""); }

function spark(values, name) {
  const seen = values.filter((value) => value !== null), low = Math.min(...seen), high = Math.max(...seen);
  let path = "", pen = false;
  values.forEach((value, place) => {
    if (value === null) { pen = false; return; }
    path += `${pen ? "L" : "M"}${((place / Math.max(1, values.length - 1)) * 118 + 1).toFixed(1)},${(22 - ((value - low) / (high - low || 1)) * 20).toFixed(1)}`;
    pen = true;
  });
  return s("svg", { viewBox: "0 0 120 24", width: 120, height: 24, role: "img", "aria-label": `Course of ${name}` }, s("path", { d: path, fill: "none", stroke: "var(--c0)", "stroke-width": 1.3 }));
}

export function settingsTab() {
  const element = h("div");
  return {
    element,
    show: (found) => {
      const files = [...found.checkpoints.map((one) => ["checkpoint", one]), ...found.models.map((one) => ["model", one])];
      element.replaceChildren(h("h2", {}, "Checkpoints and models"), files.length ? table(["", "name", "step", "size", "written"], files.map(([kind, one]) => [kind, one.name, figure(one.step), bytes(one.bytes), moment(one.time)]), { numbers: [2, 3], caption: "Checkpoints and models" }) : h("p", { class: "soft" }, "No checkpoint yet."),
        found.refit ? h("p", {}, "A second training on all rows is in the directory refit.") : "",
        found.command ? [h("h2", {}, "Command"), h("pre", {}, found.command.join(" "))] .at(1) : "",
        h("h2", {}, "Directory"), h("pre", {}, found.run.path), h("h2", {}, "Training settings"), settingsList(found.config));
    },
  };
}
