"use strict";
(function () {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const narrow = () => window.innerWidth < 600;

  function themed(traces) {
    return JSON.parse(JSON.stringify(traces), (key, value) => (value === "ink" || value === "soft" ? colour(value) : value));
  }

  function layout(own) {
    const axis = { gridcolor: colour("line"), linecolor: colour("line"), zeroline: false, automargin: true, fixedrange: false };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("ink"), size: narrow() ? 11 : 12, family: "system-ui, sans-serif" },
      margin: { l: narrow() ? 40 : 56, r: 12, t: 12, b: 40 },
      legend: { orientation: "h", y: -0.18, yanchor: "top", x: 0 },
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
      Array.from(target.querySelectorAll("img")).forEach((image, number) => { image.hidden = String(number) !== box.value; });
    }
  }

  const places = () => Array.from(document.querySelectorAll(".chart"));
  if (typeof Plotly !== "undefined") places().forEach(draw);
  document.querySelectorAll("select[data-target]").forEach((box) => box.addEventListener("change", () => choose(box)));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places().forEach(draw));
})();
