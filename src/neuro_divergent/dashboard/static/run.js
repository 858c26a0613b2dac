// One run: its head with the buttons, and the tabs.

import { curvesTab } from "./curves.js";
import { dataTab, modelTab, settingsTab } from "./facts.js";
import { forecastsTab } from "./forecasts.js";
import { eventsTab, verdictsOf } from "./events.js";
import { editNotes } from "./notes.js";
import { ask, cards, Problem, figure, h, moment, percent, problem, span, state } from "./tools.js";

const TABS = [["curves", "Curves", curvesTab], ["forecasts", "Forecasts", forecastsTab], ["model", "Model", modelTab], ["data", "Data", dataTab], ["events", "Events and console", eventsTab], ["settings", "Settings and files", settingsTab]];

export function oneRun(id, tab) {
  const head = h("div"), notes = h("div"), inside = h("div"), answer = h("p", { role: "status", class: "soft" });
  const [, title, make] = TABS.find((one) => one[0] === tab) || TABS[0];
  const content = make(id);
  const tabs = h("nav", { class: "tabs", "aria-label": "Parts of the run" }, TABS.map(([name, text]) => h("a", { href: `#/run/${id}/${name}`, "aria-current": text === title ? "page" : null }, text)));
  const element = h("div", {}, head, answer, notes, tabs, inside);
  inside.append(content.element);

  async function stop(save) {
    try {
      await ask(`/api/runs/${id}/stop`, { body: { save } });
      answer.textContent = save ? "Asked to stop: it will finish its step, save a checkpoint and end." : "Asked to stop: it will finish its step and end, without another checkpoint.";
    } catch (error) {
      answer.replaceChildren(problem(error));
    }
  }

  function drawHead(found) {
    const run = found.run;
    const running = run.state === "running" && found.can_stop;
    const gain = run.gain === null || run.gain === undefined ? null : [`${percent(Math.abs(run.gain))} ${run.gain >= 0 ? "better" : "worse"}`, `than seasonal naive (${figure(run.naive_score)})`, run.gain >= 0 ? "good" : "bad"];
    head.replaceChildren(h("h1", {}, run.name), h("div", { class: "bar" }, state(run), run.why ? h("span", { class: "soft" }, run.why) : null, (run.tags || []).map((tag) => h("span", { class: "tag" }, tag)),
      h("button", { type: "button", onclick: () => editNotes(run, load) }, "Tags and note"),
      running ? h("button", { type: "button", class: "main", onclick: () => stop(true) }, "Stop and save") : null,
      running ? h("button", { type: "button", onclick: () => stop(false) }, "Stop without saving") : null),
    run.note ? h("p", {}, run.note) : "",
    cards([[run.model || "own network", "model"], [figure(run.score), `best ${run.score_name || "score"}${run.score_epoch ? `, epoch ${run.score_epoch}` : ""}`], gain,
      [run.total_steps ? `${figure(run.step)} of ${figure(run.total_steps)}` : figure(run.step), "steps"], [figure(run.epoch), "epochs"], [span(run.seconds), "time"],
      run.state === "running" && run.left !== null ? [span(run.left), "left at most"] : null, [moment(run.started), "started"]]));
    notes.replaceChildren(...found.problems.map(problem), found.complete ? "" : h("p", { class: "problem" }, "The event log is very long: only its newest part is shown."),
      run.damaged_lines ? h("p", { class: "problem" }, `${run.damaged_lines} lines of the event log could not be read and are left out.`) : "", ...verdictsOf(found.verdicts));
  }

  let last = null;
  async function load(signal) {
    const [found] = await Promise.all([ask(`/api/runs/${id}`, { signal }), content.early ? content.early(signal) : null]);
    last = found;
    drawHead(found);
    try {
      await content.show(found, signal);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      inside.replaceChildren(problem(error instanceof Problem ? error : `This part of the run cannot be shown, because its files hold something unforeseen: ${error.message}`));
    }
  }

  return { title: `${title}`, element, load, watches: [id], changed: async (changed) => { if (changed.has(id) || !last) await load(); } };
}
