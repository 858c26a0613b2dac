// Forecasts of held-out rows beside the truth and the seasonal naive forecast, after every validation that wrote them.

import { chart, COLOURS } from "./chart.js";
import { ask, figure, h, percent, table } from "./tools.js";

export function forecastsTab(id) {
  const element = h("div");
  let epochs = [], chosen = null, follow = true, shown = null, best = null;
  const picker = h("input", { id: "epoch", type: "range", min: 0, max: 0, step: 1, oninput: () => { chosen = Number(picker.value); follow = chosen === epochs.length - 1; load(); } });
  const label = h("output", { for: "epoch" }), inside = h("div");

  async function load(signal) {
    label.textContent = `after epoch ${epochs[chosen]}${best === null ? "" : best === epochs[chosen] ? ", the best score" : `; the best score was after epoch ${best}`}`;
    if (shown === epochs[chosen]) return;
    const found = await ask(`/api/runs/${id}/snapshots/${epochs[chosen]}`, { signal });
    shown = epochs[chosen];
    draw(found);
  }

  function draw(found) {
    const series = found.series || [];
    const steps = chart("Mean absolute error by step ahead", { xlabel: "steps ahead", canLog: false, zero: true });
    inside.replaceChildren(h("p", {}, `Mean absolute error ${figure(found.error)}; seasonal naive (season ${found.season}) ${figure(found.naive_error)}: `, verdict(found.error, found.naive_error)),
      h("div", { class: "grid" }, steps.element, h("div", {}, ranking(found.worst, "Worst series"), ranking(found.best, "Best series"))), h("h2", {}, "Forecasts"), h("div", { class: "grid" }, series.map((one) => picture(one, found))));
    const ahead = (found.by_step?.model || []).map((_, place) => place + 1);
    steps.update([{ name: "model", x: ahead, y: found.by_step.model, colour: COLOURS[0], points: true }, { name: "seasonal naive", x: ahead, y: found.by_step.naive, colour: "var(--soft)", dash: "5 4" }]);
  }

  function verdict(own, naive) {
    if (!naive || own === null) return "";
    const gain = 1 - own / naive;
    return h("b", { class: gain >= 0 ? "good" : "bad" }, `${percent(Math.abs(gain))} ${gain >= 0 ? "better" : "worse"}`);
  }

  function ranking(rows, title) {
    return rows?.length ? [h("h2", {}, title), table(["series", "error", "naive", "beside naive"], rows.map((one) => [one.id, figure(one.error), figure(one.naive_error), verdict(one.error, one.naive_error)]), { numbers: [1, 2], wrap: [0], caption: title })] : "";
  }

  function picture(one, found) {
    const past = one.history.length, all = [...one.history_times, ...one.times];
    const one_chart = chart(one.id, { canLog: false, note: `error ${figure(one.error)}, naive ${figure(one.naive_error)}`, xText: (place) => (all[Math.round(place)] ?? "").replace(" 00:00:00", "").slice(0, 16), height: 230 });
    const before = one.history.map((_, place) => place), ahead = one.times.map((_, place) => past + place);
    const bands = Object.entries(one.intervals || {}).sort((a, b) => Number(b[0]) - Number(a[0])).map(([level, [low, high]], place) => ({ name: `${level} %`, x: ahead, low, high, y: one.forecast, colour: COLOURS[0], opacity: 0.13 + 0.1 * place }));
    one_chart.update([...bands, { name: "past", x: before, y: one.history, colour: "var(--ink)", width: 1.2 }, { name: "truth", x: ahead, y: one.actual, colour: "var(--ink)", dash: "3 2" }, { name: "naive", x: ahead, y: one.naive, colour: "var(--soft)", dash: "5 4", width: 1.3 }, { name: found.model || "forecast", x: ahead, y: one.forecast, colour: COLOURS[0], width: 2.2 }]);
    return one_chart.element;
  }

  return {
    element,
    show: async (whole, signal) => {
      const more = whole.snapshots.length !== epochs.length;
      epochs = whole.snapshots;
      best = whole.run.score_epoch ?? null;
      if (!epochs.length) {
        element.replaceChildren(h("p", {}, "This run has no forecasts yet. A callback writes them after every validation: forecasts and intervals of held-out windows beside the truth and the seasonal naive forecast."), h("pre", {}, "nd.TrainingConfig(callbacks=[nd.ForecastSnapshots()], checkpoints=...)"));
        return;
      }
      if (more) element.replaceChildren(h("div", { class: "bar" }, h("label", {}, "Validation", picker, label)), inside);
      picker.max = epochs.length - 1;
      if (follow || chosen === null) chosen = epochs.length - 1;
      picker.value = chosen;
      await load(signal);
    },
  };
}
