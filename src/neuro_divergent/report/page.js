"use strict";
(function () {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const narrow = () => window.innerWidth < 600;

  // The colours of the figures are chosen for white paper; on dark paper their lighter siblings are read more easily.
  const LIGHTER = {
    "#0072B2": "#4AA8E0", "#D55E00": "#F08A4B", "#009E73": "#2FC79A", "#CC79A7": "#E29AC4", "#8C564B": "#BF9186",
    "rgba(0,114,178,": "rgba(74,168,224,",
  };
  const dark = () => window.matchMedia("(prefers-color-scheme: dark)").matches;

  function themed(traces) {
    let text = JSON.stringify(traces);
    if (dark()) Object.keys(LIGHTER).forEach((own) => { text = text.split('"' + own).join('"' + LIGHTER[own]); });
    return JSON.parse(text, (key, value) => (key === "color" && (value === "ink" || value === "soft") ? colour(value) : value));
  }

  function layout(own) {
    const axis = { gridcolor: colour("line"), linecolor: colour("line"), zeroline: false, automargin: true, fixedrange: false };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("ink"), size: narrow() ? 11 : 12, family: "system-ui, sans-serif" },
      margin: { l: narrow() ? 40 : 56, r: 12, t: own.legend === false ? 12 : 36, b: 40 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      hovermode: own.hovermode || "x unified",
      hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
      bargap: 0.06,
      showlegend: own.legend !== false,
      xaxis: Object.assign({}, axis, { title: { text: own.xlabel || "" }, showgrid: false, type: own.xtype || undefined, range: own.xrange }),
      yaxis: Object.assign({}, axis, { title: { text: own.ylabel || "" }, type: own.log ? "log" : undefined, range: own.yrange }),
    };
  }

  function draw(place) {
    const charts = JSON.parse(document.getElementById(place.dataset.charts).textContent);
    const chart = charts[place.dataset.shown || 0];
    return Plotly.react(place, themed(chart.traces), layout(chart.layout), { responsive: true, displaylogo: false, displayModeBar: false });
  }

  function choose(box) {
    const target = document.getElementById(box.dataset.target);
    if (target.classList.contains("chart")) {
      target.dataset.shown = box.value;
      draw(target);
    } else {
      Array.from(target.querySelectorAll("svg")).forEach((image, number) => image.toggleAttribute("hidden", String(number) !== box.value));
    }
  }

  const places = () => Array.from(document.querySelectorAll(".chart"));
  if (typeof Plotly !== "undefined") places().forEach(draw);
  // On a phone a wide picture scrolls, and of a series the end is looked at.
  document.querySelectorAll(".still[data-end]").forEach((image) => { image.parentElement.scrollLeft = image.parentElement.scrollWidth; });
  document.querySelectorAll("select[data-target]").forEach((box) => box.addEventListener("change", () => choose(box)));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places().forEach(draw));
})();
