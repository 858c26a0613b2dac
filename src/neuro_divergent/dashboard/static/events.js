// Verdicts, events and the console.

import { figure, h, moment, table, text } from "./tools.js";

const ABOUT = new Set(["event", "time", "step", "epoch"]);

export function verdictsOf(verdicts) {
  return verdicts.slice(-12).reverse().map((one) => h("section", { class: `verdict ${one.level === "info" ? "info" : ""}` }, h("h3", {}, text(one.what ?? one.name ?? "verdict"), h("span", { class: "soft" }, ` at step ${one.step}${typeof one.certainty === "number" ? `, certainty ${figure(one.certainty, 2)}` : ""}`)),
    filled(one.evidence) ? h("p", { class: "soft" }, text(one.evidence)) : null, ...remedies(one)));
}

function remedies(one) {
  const parts = [["Set", one.remedy], ["Of the model, set", one.model_remedy], ["", one.advice]].filter(([, what]) => filled(what));
  return parts.length ? [h("p", {}, h("b", {}, "What to do: "), parts.map(([lead, what]) => `${typeof what === "object" ? `${lead} ` : ""}${text(what)}`).join(". "))] : [];
}

function filled(value) { return Boolean(value) && (typeof value !== "object" || Object.keys(value).length > 0); }

function rest(event) {
  return Object.entries(event).filter(([name, value]) => !ABOUT.has(name) && value !== null && value !== "" && !(typeof value === "object" && !filled(value))).map(([name, value]) => `${name}: ${text(value)}`).join(" · ");
}

export function eventsTab() {
  const element = h("div");
  return {
    element,
    show: (found) => {
      const events = found.events.slice().reverse();
      const lines = found.console.map((one) => `${new Date((one.time || 0) * 1000).toLocaleTimeString()}  ${one.level}  ${one.text}`);
      element.replaceChildren(h("h2", {}, "Console"), lines.length || found.output ? h("pre", { tabindex: 0 }, [...lines, found.output || ""].join("\n")) : h("p", { class: "soft" }, "Nothing was logged."),
        h("h2", {}, "Events"), found.left_out ? h("p", { class: "soft" }, `${found.left_out} earlier events are left out.`) : "",
        table(["time", "event", "step", "epoch", "what"], events.map((one) => [moment(one.time), one.event, one.step, one.epoch, rest(one)]), { caption: "Events", numbers: [2, 3], wrap: [4] }));
    },
  };
}
