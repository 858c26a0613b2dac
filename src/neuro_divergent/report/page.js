"use strict";
(function () {
  // The values under the pointer: a line in the chart, and a box beside it.
  const box = document.createElement("div");
  box.className = "tip";
  box.hidden = true;
  document.body.append(box);
  const known = new WeakMap();
  const number = (value) => Number(value.toPrecision(Math.abs(value) >= 1e4 ? 6 : 4)).toLocaleString("en-US", { maximumSignificantDigits: 6 });

  function line(text, colour) {
    const row = document.createElement("div");
    if (colour) {
      const mark = document.createElement("i");
      mark.style.background = colour === "ink" || colour === "soft" ? "var(--" + colour + ")" : colour;
      row.append(mark);
    }
    row.append(text);
    return row;
  }

  function cursor(image) {
    if (!known.has(image)) {
      const path = document.createElementNS(image.namespaceURI, "path");
      path.setAttribute("class", "cursor");
      image.append(path);
      known.set(image, { data: JSON.parse(image.dataset.hover), path: path });
    }
    return known.get(image);
  }

  function show(image, event) {
    const { data, path } = cursor(image);
    const frame = image.getBoundingClientRect();
    const x = (event.clientX - frame.left) * image.viewBox.baseVal.width / frame.width;
    let near = 0;
    data.at.forEach((at, i) => { if (Math.abs(at - x) < Math.abs(data.at[near] - x)) near = i; });
    path.setAttribute("d", "M" + data.at[near] + " 28V" + (image.viewBox.baseVal.height - 42));
    path.style.visibility = "visible";
    box.replaceChildren(line(data.x[near]));
    data.of.forEach(([name, colour, first, high, low]) => {
      const value = high[near - first], other = low && low[near - first];
      if (value === undefined || value === null) return;
      box.append(line(name + ": " + (low ? number(other) + " to " : "") + number(value), colour));
    });
    box.hidden = false;
    const left = event.clientX + 16 + box.offsetWidth > window.innerWidth ? event.clientX - 16 - box.offsetWidth : event.clientX + 16;
    box.style.left = Math.max(4, left) + "px";
    box.style.top = Math.max(4, Math.min(event.clientY + 12, window.innerHeight - box.offsetHeight - 4)) + "px";
  }

  function hide(image) {
    box.hidden = true;
    cursor(image).path.style.visibility = "hidden";
  }

  document.querySelectorAll(".still[data-hover]").forEach((image) => {
    image.addEventListener("pointermove", (event) => show(image, event));
    image.addEventListener("pointerdown", (event) => show(image, event));
    image.addEventListener("pointerleave", () => hide(image));
  });

  // On a phone a wide picture scrolls, and of a series the end is looked at.
  function toEnd(inside) {
    inside.querySelectorAll(".still[data-end]").forEach((image) => { image.parentElement.scrollLeft = image.parentElement.scrollWidth; });
  }
  toEnd(document);

  function choose(name, value) {
    const target = document.getElementById(name);
    Array.from(target.children).forEach((choice, i) => { choice.hidden = String(i) !== value; });
    toEnd(target);
  }
  document.querySelectorAll("select[data-target]").forEach((list) => list.addEventListener("change", () => choose(list.dataset.target, list.value)));
  document.querySelectorAll("a[data-choice]").forEach((link) => link.addEventListener("click", () => {
    const name = link.getAttribute("href").slice(1);
    const list = document.querySelector('select[data-target="' + name + '"]');
    if (list) list.value = link.dataset.choice;
    choose(name, link.dataset.choice);
  }));
})();
