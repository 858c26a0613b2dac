// Elements, requests and figures. Text from run files becomes text nodes and attributes only, never markup.

const token = document.documentElement.dataset.token;

export function h(tag, settings = {}, ...children) {
  const element = document.createElement(tag);
  return filled(element, settings, children);
}

export function s(tag, settings = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return filled(element, settings, children);
}

function filled(element, settings, children) {
  for (const [name, value] of Object.entries(settings)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" && "value" in element) element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export class Problem extends Error {}

export async function ask(path, { body, signal } = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The dashboard does not answer. Is it still running?");
  }
  if (answer.ok) return answer.json();
  const text = await answer.text();
  let sentence = text;
  try { sentence = JSON.parse(text).error || text; } catch { /* a plain sentence */ }
  throw new Problem(sentence);
}

// The stream of changes. It is read by fetch, because a framed page sends its token as a header.
export async function listen(runs, changed, connected, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  while (!signal.aborted) {
    try {
      const answer = await fetch(`/api/live?runs=${runs.join(",")}`, { headers, signal });
      if (!answer.ok) throw new Error(answer.statusText);
      connected(true);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          if (part.startsWith("data: ")) changed(new Set(JSON.parse(part.slice(6))));
        }
      }
    } catch (error) {
      if (signal.aborted) return;
    }
    connected(false);
    await new Promise((go) => setTimeout(go, 1000));
  }
}

export function figure(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e");
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return String(Number(value.toPrecision(digits)));
}

export function percent(value) {
  if (Math.abs(value) > 10) return "over 1,000 %";
  return value === null || value === undefined ? "" : `${(100 * value).toFixed(Math.abs(value) < 0.1 ? 1 : 0)} %`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size] of [["GB", 2 ** 30], ["MB", 2 ** 20], ["kB", 1024]]) if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  return `${value} B`;
}

// What a verdict or an event says. A mapping becomes its names and values: {"lr": 0.5} is "lr = 0.5".
export function text(value) {
  if (Array.isArray(value)) return value.map(text).join(", ");
  if (value !== null && typeof value === "object") return Object.entries(value).map(([name, item]) => `${name} = ${text(item)}`).join(", ");
  return figure(value);
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.round(seconds);
  if (whole < 60) return seconds < 10 ? `${seconds.toFixed(1)} s` : `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export function moment(seconds) {
  return seconds ? new Date(seconds * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "–";
}

export function state(run) {
  return h("span", { class: `state ${run.state}`, title: run.why || run.state }, run.state);
}

export function table(head, rows, { numbers = [], caption = "", wrap = [] } = {}) {
  const cls = (place) => (numbers.includes(place) ? "number" : wrap.includes(place) ? "wrap" : null);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || String(head[0]) },
    h("table", {}, h("thead", {}, h("tr", {}, head.map((cell, place) => h("th", { scope: "col", class: cls(place) }, cell)))),
      h("tbody", {}, rows.map((row) => h("tr", { class: row.mark }, (row.cells || row).map((cell, place) => h("td", { class: cls(place) }, cell)))))));
}

export function cards(pairs) {
  return h("div", { class: "cards" }, pairs.filter((pair) => pair).map(([value, what, mood]) => h("div", { class: `card ${mood || ""}` }, h("b", { class: mood }, value), h("span", {}, what))));
}

export function problem(error) {
  return h("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error));
}

export function download(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = h("a", { href: URL.createObjectURL(blob), download: name.replace(/[^\w.-]+/g, "-").slice(0, 120) });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function stored(name, otherwise) {
  try { return JSON.parse(localStorage.getItem(`nd-${name}`)) ?? otherwise; } catch { return otherwise; }
}

export function store(name, value) {
  try { localStorage.setItem(`nd-${name}`, JSON.stringify(value)); } catch { /* a browser may refuse */ }
}
