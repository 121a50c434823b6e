// A plot over time, drawn by uPlot; its newest values stand below it in words.

import uPlot from "./vendor/uPlot.js";
import { count, el } from "./dom.js";

/** Hours and minutes in UTC, as in the tables. */
const clock = (moment) => new Date(moment * 1000).toISOString().slice(11, 16);
const DASHES = [[], [6, 3], [2, 3]];

let shown = [];

/** Ends the plots of the page before: each listens to the window until then. */
export function forgetPlots() {
  for (const it of shown) it.destroy();
  shown = [];
}

export function plot(title, at, lines) {
  const place = el("div", { "aria-hidden": "true" });
  const newest = lines.map(([name, values]) => `${name} ${count(values.at(-1))}`).join(", ");
  const figure = el("figure", {}, el("figcaption", {}, `${title}; newest: ${newest}`), place);
  // Its width is known when it is in the page.
  requestAnimationFrame(() => {
    const color = getComputedStyle(figure).color;
    const axis = { stroke: color, grid: { stroke: "#88888844" }, ticks: { stroke: "#88888844" } };
    if (!figure.isConnected) return;
    shown.push(new uPlot({
      width: Math.max(240, figure.clientWidth), height: 180, legend: { show: false }, cursor: { show: false },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, high ?? 1)] } },
      tzDate: (moment) => uPlot.tzDate(new Date(moment * 1000), "Etc/UTC"),
      axes: [{ ...axis, values: (_, moments) => moments.map(clock) }, { ...axis, size: 60 }],
      series: [{}, ...lines.map(([label], number) => ({ label, stroke: color, width: 2, dash: DASHES[number % DASHES.length], spanGaps: false }))],
    }, [at, ...lines.map(([, values]) => values)], place));
  });
  return figure;
}
