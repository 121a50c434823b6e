// A plot over time, drawn by uPlot; its newest values are above it in words.

import uPlot from "./vendor/uPlot.js";
import { el, setText } from "./dom.js";
import { count } from "./format.js";

/** Hours and minutes in UTC, as in the tables; with seconds where they are less than one apart. */
const clocks = (moments) => {
  const apart = moments.length > 1 ? moments[1] - moments[0] : 60;
  return moments.map((moment) => {
    if (moment === null) return "";
    const text = new Date(moment * 1000).toISOString();
    return apart >= 86_400 ? text.slice(5, 10) : text.slice(11, apart < 60 ? 19 : 16);
  });
};

/** A moment in UTC in words, as exactly as a plot of these moments shows it. */
function clock(moment, moments) {
  const text = new Date(moment * 1000).toISOString().replace("T", " ");
  const span = moments.at(-1) - moments[0];
  return span > 86_400 ? text.slice(5, 16) : text.slice(11, span > 3600 ? 16 : 19);
}

/** Lines of more points than this are too dense for dashes: their colors distinguish them. */
const DENSE = 200;
/** Steps of the time axis, in seconds: close enough that a short time has labels, too. */
const STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
].concat([1, 2, 7, 14, 28].map((days) => days * 86_400));
/** Room for the labels beside a plot, in px a letter; it grows in steps, so it seldom moves. */
const LETTER = 6.6;
const ROOM = 12;
const roomFor = (labels) => {
  const longest = Math.max(3, ...(labels ?? []).map((it) => it?.length ?? 0));
  return ROOM * Math.ceil((longest * LETTER + 10) / ROOM);
};
const DASHES = [[], [6, 3], [2, 3]];
const widthOf = (place) => Math.max(180, place.clientWidth);

let shown = [];

/** A plot is as wide as its place, also after a zoom, or when the phone is turned. */
const places = new ResizeObserver((changed) => {
  for (const { target } of changed) {
    const found = shown.find((it) => it.root.parentElement === target);
    if (found && found.width !== widthOf(target)) {
      found.setSize({ width: widthOf(target), height: found.height });
    }
  }
});

/** Ends the plots that are in the page no more: each listens to the window until then. */
export function forgetPlots() {
  const gone = shown.filter((it) => !it.root.isConnected);
  shown = shown.filter((it) => it.root.isConnected);
  for (const it of gone) {
    places.unobserve(it.root.parentElement);
    it.destroy();
  }
}

/**
 * A plot of lines, each [name, values]. `say` puts a value into words, `axis` beside the plot.
 * `update(at, values of each line)` draws other values without making it again.
 */
export function plot(title, at, lines, look = {}) {
  const { say = count, axis = say, height = 170, mark, dashed = at.length <= DENSE } = look;
  const place = el("div", { class: "plot", "aria-hidden": "true" });
  place.style.minHeight = `${height}px`;
  const swatches = lines.map((_, number) => el("i", { class: `swatch s${number + 1}` }));
  const words = lines.map(() => el("span", {}));
  const when = el("span", { class: "soft" });
  const legend = lines.map(([name], number) =>
    el("span", { class: "series" }, swatches[number], ` ${name} `, words[number]),
  );
  const caption = el("figcaption", {}, el("strong", {}, title), legend, when);
  const figure = el("figure", {}, caption, place);
  let data = [at, ...lines.map(([, values]) => values)];
  let made = null;
  const describe = (index) => {
    const number = index ?? data[0].length - 1;
    for (const [line, word] of words.entries()) {
      const text = say(data[line + 1][number]);
      setText(word, text);
    }
    when.textContent = index === undefined || index === null ? "" : clock(data[0][number], data[0]);
  };
  describe();
  // Its width is known when it is in the page.
  requestAnimationFrame(() => {
    if (!figure.isConnected) return;
    const drawn = {
      dashed,
      swatches,
      names: lines.map(([name]) => name),
      axis,
      height,
      mark,
      describe,
    };
    made = new uPlot(options(figure, place, drawn), data, place);
    shown.push(made);
    places.observe(place);
  });
  const update = (moments, values) => {
    data = [moments, ...values];
    made?.setData(data);
    if (made === null || made.cursor.idx === null || made.cursor.idx === undefined) describe();
  };
  return { figure, update };
}

function options(figure, place, { dashed, swatches, names, axis, height, mark, describe }) {
  const ink = getComputedStyle(figure.querySelector("figcaption")).color;
  const faint = faded(ink, 0.14);
  const shared = {
    stroke: ink,
    grid: { stroke: faint, width: 1 },
    ticks: { show: false },
    font: "11px system-ui",
  };
  const colors = swatches.map((it) => getComputedStyle(it).color);
  return {
    width: widthOf(place),
    height,
    // The last label on the time axis has room beside the plot.
    padding: [6, 18, null, null],
    legend: { show: false },
    cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { size: 6 } },
    hooks: { setCursor: [(it) => describe(it.cursor.idx)], draw: mark ? [mark] : [] },
    scales: {
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 1) * 1.05)] },
    },
    tzDate: (moment) => uPlot.tzDate(new Date(moment * 1000), "Etc/UTC"),
    axes: [
      {
        ...shared,
        incrs: STEPS,
        // The first moment of a step may be after the newest one, where a label would be cut off.
        filter: (it, moments) => moments.map((one) => (one <= it.scales.x.max ? one : null)),
        space: (_, __, low, high) => (high - low < 180 ? 72 : 52),
        values: (_, moments) => clocks(moments),
        size: 22,
      },
      {
        ...shared,
        size: (_, labels) => roomFor(labels),
        space: 34,
        values: (_, numbers) => numbers.map(axis),
      },
    ],
    series: [
      {},
      ...names.map((label, number) => ({
        label,
        stroke: colors[number],
        width: 1.75,
        fill: number === 0 ? faded(colors[0], 0.13) : undefined,
        dash: dashed ? DASHES[number % DASHES.length] : [],
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}

/** A color as it is computed, with another opacity. */
function faded(color, opacity) {
  const parts = color.match(/[\d.]+/g) ?? ["128", "128", "128"];
  return `rgba(${parts.slice(0, 3).join(", ")}, ${opacity})`;
}
