// Searches: progress, convergence, importances, Pareto front, trials.

import { chart, COLOURS } from "./chart.js";
import { ask, cards, figure, h, percent, problem, state, table } from "./tools.js";

const STATES = { complete: "var(--c0)", pruned: "var(--c4)", failed: "var(--c1)" };

export function studies() {
  const inside = h("div"), element = h("div", {}, h("h1", {}, "Searches"), inside);
  const load = async (signal) => {
    const found = await ask("/api/runs", { signal });
    inside.replaceChildren(found.studies.length ? table(["search", "directory"], found.studies.map((one) => [h("a", { href: `#/search/${one.id}` }, one.name), one.path]), { wrap: [1], caption: "Searches" })
      : h("div", { class: "empty" }, h("p", {}, "There is no search below these directories. One that has a directory appears here:"), h("pre", {}, "nd.TPESearch(model, space, directory=\"runs/search\").fit(data)\nneuro-divergent search table.csv --h 12 --out runs/search")));
  };
  return { title: "Searches", element, load, changed: (changed) => (changed.has("table") ? load() : null) };
}

export function oneStudy(id) {
  const element = h("div");
  let timer = null;
  async function load(signal) {
    if (!id) return;
    const [found, all] = await Promise.all([ask(`/api/studies/${id}`, { signal }), ask("/api/runs", { signal })]);
    draw(found, all.runs.filter((run) => run.study === id));
    if (!timer && signal) {  // the database tells nobody that it changed
      timer = setInterval(() => (document.hidden ? null : load().catch((error) => element.prepend(problem(error)))), 2000);
      signal.addEventListener("abort", () => clearInterval(timer));
    }
  }

  function draw(found, runs) {
    const count = (name) => found.trials.filter((trial) => trial.state === name).length;
    const several = found.directions.length > 1, sign = found.directions[0] === "maximize" ? -1 : 1;
    const done = found.trials.filter((trial) => trial.state === "complete" && trial.values.length && trial.values[0] !== null);
    const best = several ? null : done.reduce((one, other) => (!one || sign * other.values[0] < sign * one.values[0] ? other : one), null);
    const budget = found.facts.search?.max_trials ?? found.facts.search?.n_trials ?? found.facts.budget;
    const history = chart("Scores of the trials", { xlabel: "trial", wide: true });
    const important = chart("What the score depends on", { bars: true, canLog: false, xText: (place) => found.importances[place]?.name || "", note: "share of the scores' variance, each setting by itself" });
    const front = several ? chart("Objectives", { xlabel: "objective 1", ylabel: "objective 2", canLog: false }) : null;
    const stages = chart("Scores while training", { xlabel: "stage" });
    const names = [...new Set(found.trials.flatMap((trial) => Object.keys(trial.params)))];
    const rows = found.trials.slice().sort((a, b) => order(rank(a, sign), rank(b, sign)) || b.number - a.number).slice(0, 300);
    const link = (number) => runs.find((run) => `${run.name}/`.includes(`trials/${String(number).padStart(5, "0")}/`))?.id;
    element.replaceChildren(h("h1", {}, found.name), h("div", { class: "bar" }, count("running") ? state({ state: "running" }) : null, budget ? [h("progress", { max: budget, value: found.trials.length, "aria-label": "Trials" }), `${found.trials.length} of ${budget} trials`] : `${found.trials.length} trials`),
      cards([[figure(done.length), "complete"], [figure(count("pruned")), "pruned"], [figure(count("running")), "running"], [figure(count("paused")), "paused"], [figure(count("failed")), "failed", count("failed") ? "bad" : ""], best ? [figure(best.values[0]), `best, trial ${best.number}`, "good"] : null, several ? [figure(found.front.length), "on the Pareto front"] : null]),
      h("div", { class: "grid" }, several ? front.element : history.element, important.element, found.trials.some((trial) => trial.stages.length > 1) ? stages.element : ""), h("h2", {}, "Trials"),
      table(["trial", "state", ...found.directions.map((_, place) => (several ? `objective ${place + 1}` : "score")), ...names, ""], rows.map((trial) => ({ mark: trial === best || found.front.includes(trial.number) ? "top1" : null, cells: [link(trial.number) ? h("a", { href: `#/run/${link(trial.number)}` }, trial.number) : trial.number, trial.state, ...found.directions.map((_, place) => figure(trial.values[place] ?? null)), ...names.map((name) => figure(trial.params[name] ?? null)), trial.note || ""] })), { caption: "Trials", wrap: [2 + found.directions.length + names.length] }));
    if (several) {
      const onFront = done.filter((trial) => found.front.includes(trial.number)).sort((a, b) => a.values[0] - b.values[0]);
      front.update([{ name: "trials", x: done.map((trial) => trial.values[0]), y: done.map((trial) => trial.values[1]), points: "only", colour: COLOURS[7] }, { name: "Pareto front", x: onFront.map((trial) => trial.values[0]), y: onFront.map((trial) => trial.values[1]), points: true, colour: COLOURS[1] }]);
    } else history.update([...["complete", "pruned"].map((name) => ({ name, colour: STATES[name], points: "only", ...scores(found.trials.filter((trial) => trial.state === name)) })), { name: "best so far", ...steps(found), colour: COLOURS[2], width: 2 }]);
    important.update([{ name: "share", x: found.importances.map((_, place) => place), y: found.importances.map((one) => one.share) }], found.importances.length ? `strongest: ${found.importances[0].name} (${percent(found.importances[0].share)})` : "needs 8 complete trials");
    stages.update(found.trials.filter((trial) => trial.stages.length > 1).slice(-60).map((trial) => ({ name: `trial ${trial.number}`, quiet: true, soft: true, x: trial.stages.map((pair) => pair[0]), y: trial.stages.map((pair) => pair[1]), colour: STATES[trial.state] || COLOURS[2] })));
  }
  return { title: "Search", element, load, watches: [], changed: () => null };
}

function rank(trial, sign) {
  if (trial.state === "running") return -Infinity;
  return trial.state === "complete" && trial.values[0] !== null && trial.values.length ? sign * trial.values[0] : Infinity;
}

function scores(trials) {
  const some = trials.map((trial) => [trial.number, trial.values[0] ?? trial.stages.at(-1)?.[1]]).filter((pair) => pair[1] !== null && pair[1] !== undefined);
  return { x: some.map((pair) => pair[0]), y: some.map((pair) => pair[1]) };
}

function steps(found) {
  const x = [], y = [];
  found.convergence.forEach(([number, value], place) => {
    if (place) { x.push(number); y.push(found.convergence[place - 1][1]); }
    x.push(number); y.push(value);
  });
  if (x.length) { x.push(Math.max(...found.trials.map((trial) => trial.number))); y.push(y.at(-1)); }
  return { x, y };
}

function order(a, b) { return a === b ? 0 : a < b ? -1 : 1; }
