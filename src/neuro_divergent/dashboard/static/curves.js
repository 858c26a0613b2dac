// Losses by step and by epoch, learning rate, gradient norm, throughput, memory.

import { chart, COLOURS } from "./chart.js";
import { ask, bytes, h, store, stored } from "./tools.js";

export function curvesTab(id) {
  const settings = { smooth: 1, ...stored("curves", {}) };
  const steps = chart("Loss by step", { xlabel: "step", wide: true, onZoom: (zoom) => zoomed(zoom), log: stored("log", false) });
  const epochs = chart("Loss by epoch", { xlabel: "epoch" });
  const rate = chart("Learning rate", { xlabel: "step" });
  const norm = chart("Gradient norm", { xlabel: "step" });
  const speed = chart("Throughput", { xlabel: "step", ylabel: "steps per second", canLog: false, zero: true });
  const memory = chart("Memory of the process", { xlabel: "step", ylabel: "MB", canLog: false, zero: true });
  const grid = h("div", { class: "grid" }, steps.element, epochs.element, rate.element, norm.element, speed.element, memory.element);
  const label = h("output", { for: "smooth" });
  const slider = h("input", { id: "smooth", type: "range", min: 0, max: 10, step: 1, oninput: () => { settings.smooth = slider.value === "0" ? 1 : 2 ** Number(slider.value); show(); store("curves", settings); refresh(); } });
  slider.value = settings.smooth <= 1 ? 0 : Math.log2(settings.smooth);
  const metrics = h("div", { class: "grid" });
  const drawn = new Map();
  let zoom = null, found = null, naive = {};
  const element = h("div", {}, h("div", { class: "bar" }, h("label", {}, "Smoothing", slider, label)), grid, h("h2", {}, "Metrics and logged values"), metrics);

  function show() { label.textContent = settings.smooth <= 1 ? "off" : `mean of ${settings.smooth} steps`; }

  async function fetched(signal) {
    const range = zoom ? `&from=${zoom[0]}&to=${zoom[1]}` : "";
    found = await ask(`/api/runs/${id}/curves?points=900&smooth=${settings.smooth}${range}`, { signal });
  }

  async function refresh() { try { await fetched(); draw(); } catch (error) { console.warn(error.message); } }

  function zoomed(range) { zoom = range; refresh(); }

  function pair(name, text, colour) {
    const raw = found.steps.curves[name], mean = found.steps.curves[`${name}_mean`];
    return mean ? [{ name: text, ...raw, colour, soft: true, width: 1 }, { name: `${text}, smoothed`, ...mean, colour }] : [{ name: text, ...raw, colour }];
  }

  function draw() {
    const byEpoch = found.epochs.curves, perEpoch = found.steps.steps && found.epochs.epochs ? found.run.step / Math.max(1, found.run.epoch) : null;
    const held = byEpoch.validation_loss && perEpoch ? [{ name: "validation", x: byEpoch.validation_loss.x.map((epoch) => epoch * perEpoch), y: byEpoch.validation_loss.y, colour: COLOURS[1], points: true }] : [];
    steps.update([...pair("loss", "training", COLOURS[0]), ...held], `${found.steps.steps.toLocaleString("en")} steps`);
    const lines = ["train_loss", "validation_loss"].filter((name) => byEpoch[name]).map((name, place) => ({ name: place || name === "validation_loss" ? "validation" : "training", ...byEpoch[name], colour: COLOURS[name === "validation_loss" ? 1 : 0], points: byEpoch[name].x.length < 60 }));
    epochs.update([...lines, ...level(byEpoch.validation_loss, naive.validation_loss)]);
    rate.update(pair("learning_rate", "learning rate", COLOURS[2]));
    norm.update(pair("gradient_norm", "gradient norm", COLOURS[3]));
    speed.update([{ name: "steps per second", ...found.steps.curves.steps_per_second, colour: COLOURS[5] }]);
    const used = found.steps.curves.memory;
    memory.update([{ name: "memory", x: used.x, y: used.y.map((value) => value === null ? null : value / 2 ** 20), colour: COLOURS[6] }], used.y.length ? bytes(used.y.at(-1)) : "not recorded");
    for (const name of Object.keys(byEpoch)) {
      if (["train_loss", "validation_loss", "learning_rate"].includes(name) || name.endsWith("_mean")) continue;
      if (!drawn.has(name)) {
        drawn.set(name, chart(name, { xlabel: "epoch", height: 190 }));
        metrics.append(drawn.get(name).element);
      }
      drawn.get(name).update([{ name, ...byEpoch[name], points: byEpoch[name].x.length < 60 }, ...level(byEpoch[name], naive[name])]);
    }
  }

  function level(curve, value) {
    return curve?.x.length && typeof value === "number" ? [{ name: "seasonal naive", x: [curve.x[0], curve.x.at(-1)], y: [value, value], colour: "var(--soft)", dash: "5 4" }] : [];
  }

  async function showLogged(names, signal) {
    for (const name of names) {
      const key = `logged ${name}`;
      if (!drawn.has(key)) {
        drawn.set(key, chart(name, { xlabel: "step", height: 190, note: "logged" }));
        metrics.append(drawn.get(key).element);
      }
      drawn.get(key).update([{ name, ...await ask(`/api/runs/${id}/logged/${encodeURIComponent(name)}`, { signal }) }]);
    }
  }

  show();
  return {
    element,
    early: fetched,
    show: async (whole, signal) => {
      naive = whole.about.naive || {};
      draw();
      await showLogged(whole.logged.slice(0, 24), signal);
    },
  };
}
