// The router: an address after # names a view; a view gives an element, and learns of changes.

import { comparing } from "./compare.js";
import { oneRun } from "./run.js";
import { runs } from "./runs.js";
import { oneStudy, studies } from "./search.js";
import { h, listen, problem, store, stored } from "./tools.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
const VIEWS = [["#/", "Runs"], ["#/search", "Search"], ["#/compare", "Compare"]];
let current = null;

function viewOf(parts, query) {
  if (parts[0] === "run") return oneRun(parts[1], parts[2] || "curves");
  if (parts[0] === "search") return parts[1] ? oneStudy(parts[1]) : studies();
  if (parts[0] === "compare") return comparing((query.get("runs") || "").split(",").filter(Boolean), query.get("metric"));
  return runs(query);
}

async function go() {
  current?.stop.abort();
  const stop = new AbortController();
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  document.getElementById("views").replaceChildren(...VIEWS.map(([place, name]) => {
    const here = place === `#/${parts[0] === "run" ? "" : parts[0] || ""}`;
    return h("a", { href: place, "aria-current": here ? "page" : null }, name);
  }));
  const view = viewOf(parts, new URLSearchParams(query));
  current = { stop, view };
  const tell = serial((changed) => view.changed(changed));
  main.replaceChildren(view.element);
  document.title = `${view.title} · Neuro-Divergent`;
  try {
    await view.load(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) view.element.prepend(problem(error));
  }
  if (stop.signal.aborted) return;
  listen(view.watches || [], tell, (on) => { live.textContent = on ? "● live" : "○ not connected"; }, stop.signal);
}

// One update at a time: changes that come meanwhile are one more update afterwards.
function serial(act) {
  let busy = false, waiting = null;
  return async function run(changed) {
    if (busy) { waiting = new Set([...(waiting || []), ...changed]); return; }
    busy = true;
    try { await act(changed); } catch (error) { console.warn(error.message); }
    busy = false;
    if (waiting) { const next = waiting; waiting = null; run(next); }
  };
}

function theme(choice) {
  const dark = choice === "dark" || (choice === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = { system: "Theme: system", dark: "Theme: dark", light: "Theme: light" }[choice];
}

document.getElementById("theme").addEventListener("click", () => {
  const order = ["system", "dark", "light"];
  const next = order[(order.indexOf(stored("theme", "system")) + 1) % 3];
  store("theme", next);
  theme(next);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(stored("theme", "system")));
addEventListener("hashchange", () => { go(); main.focus({ preventScroll: true }); scrollTo(0, 0); });
theme(stored("theme", "system"));
go();
