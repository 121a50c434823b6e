// A plot over time, drawn by uPlot; its newest values stand below it in words.

import uPlot from "./vendor/uPlot.js";
import { count, el } from "./dom.js";

/** Hours and minutes in UTC, as in the tables; with seconds where they are less than one apart. */
const clocks = (moments) => {
  const end = moments.length > 1 && moments[1] - moments[0] < 60 ? 19 : 16;
  return moments.map((moment) => new Date(moment * 1000).toISOString().slice(11, end));
};
const DASHES = [[], [6, 3], [2, 3]];

const HEIGHT = 180;
const widthOf = (figure) => Math.max(240, figure.clientWidth);

let shown = [];

/** A plot is as wide as its place, also after somebody has zoomed, or turned the phone. */
const places = new ResizeObserver((changed) => {
  for (const { target } of changed) shown.find((it) => target.contains(it.root))?.setSize({ width: widthOf(target), height: HEIGHT });
});

/** Ends the plots of the page before: each listens to the window until then. */
export function forgetPlots() {
  places.disconnect();
  for (const it of shown) it.destroy();
  shown = [];
}

/** `say` tells a value of it in words, on the axis as well. */
export function plot(title, at, lines, say = count) {
  const place = el("div", { "aria-hidden": "true" });
  const newest = lines.map(([name, values]) => `${name} ${say(values.at(-1))}`).join(", ");
  const figure = el("figure", {}, el("figcaption", {}, `${title}; newest: ${newest}`), place);
  // Its width is known when it is in the page.
  requestAnimationFrame(() => {
    const color = getComputedStyle(figure).color;
    const axis = { stroke: color, grid: { stroke: "#88888844" }, ticks: { stroke: "#88888844" } };
    if (!figure.isConnected) return;
    shown.push(new uPlot({
      width: widthOf(figure), height: HEIGHT, legend: { show: false }, cursor: { show: false },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, high ?? 1)] } },
      tzDate: (moment) => uPlot.tzDate(new Date(moment * 1000), "Etc/UTC"),
      axes: [{ ...axis, space: 75, values: (_, moments) => clocks(moments) }, { ...axis, size: 70, values: (_, numbers) => numbers.map(say) }],
      series: [{}, ...lines.map(([label], number) => ({ label, stroke: color, width: 2, dash: DASHES[number % DASHES.length], spanGaps: false }))],
    }, [at, ...lines.map(([, values]) => values)], place));
    places.observe(figure);
  });
  return figure;
}
