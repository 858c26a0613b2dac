// Verdicts, events and the console.

import { h, moment, table } from "./tools.js";

const ABOUT = new Set(["event", "time", "step", "epoch"]);

export function verdictsOf(verdicts) {
  return verdicts.slice(-12).reverse().map((one) => h("section", { class: `verdict ${one.level === "info" ? "info" : ""}` }, h("h3", {}, text(one.what ?? one.name ?? "verdict"), h("span", { class: "soft" }, ` at step ${one.step}`)),
    one.evidence ? h("p", {}, text(one.evidence)) : null, one.remedy ? h("p", {}, h("b", {}, "What to do: "), text(one.remedy)) : null));
}

function text(value) { return typeof value === "object" ? JSON.stringify(value) : String(value); }

function rest(event) {
  return Object.entries(event).filter(([name, value]) => !ABOUT.has(name) && value !== null).map(([name, value]) => `${name}: ${text(value)}`).join(" · ");
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
