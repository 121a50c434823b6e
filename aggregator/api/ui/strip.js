// The strip: throughput, lag and latency of all sources, now in large, with the last 15 minutes.

import { el, setText } from "./dom.js";
import { behind, briefly, bytes, count, counted, percentile, short } from "./format.js";
import { follow, history } from "./live.js";
import { plot } from "./plot.js";

/** How many sources the sum leaves out, as their lag is not known. */
function without(sources) {
  const many = sources.filter((it) => it.lag === null).length;
  return many ? `, ${count(many)} of ${count(sources.length)} sources unknown` : "";
}

const TILES = [
  {
    title: "Throughput",
    large: (it) => [count(it.total.records_per_second), "records/s"],
    small: (it) => `${bytes(it.total.bytes_per_second)}/s, mean of ${count(it.rate_seconds)} s`,
    lines: [["records/s", "records_per_second"]],
    say: count,
    axis: short,
  },
  {
    title: "Lag",
    large: (it) => [count(it.total.lag), "offsets"],
    small: (it) =>
      `the slowest partition is ${behind(it.total)} behind${without(it.sources)}`,
    lines: [["offsets", "lag"]],
    say: count,
    axis: short,
  },
  {
    title: "Copying takes",
    large: (it) => [percentile(it.total.latency.flight_ms, 50), "half of the records"],
    small: (it) => `99 of 100: ${percentile(it.total.latency.flight_ms, 99)}, from fetch to hub`,
    lines: [
      ["p50", "flight_p50_ms"],
      ["p99", "flight_p99_ms"],
    ],
    say: (it) => (it === null ? "none" : counted(it)),
    axis: (it) => briefly(it / 1000),
  },
];

export function strip() {
  return el("div", { class: "strip" }, TILES.map(tile));
}

function tile({ title, large, small, lines, say, axis }) {
  const value = el("span", { class: "value" });
  const unit = el("span", { class: "unit" });
  const more = el("p", { class: "soft" });
  const columns = () => {
    const kept = history();
    return kept
      ? [kept.times, lines.map(([, name]) => kept.series[name])]
      : [[], lines.map(() => [])];
  };
  const [at, values] = columns();
  const named = lines.map(([name], number) => [name, values[number]]);
  const drawn = plot("15 minutes", at, named, { say, axis, height: 110 });
  const node = el(
    "section",
    { class: "panel tile", "aria-label": title },
    el("h2", {}, title),
    el("p", { class: "now" }, value, " ", unit),
    more,
    drawn.figure,
  );
  return follow(node, (moment) => {
    const [word, of] = large(moment);
    for (const [part, text] of [
      [value, word],
      [unit, of],
      [more, small(moment)],
    ]) {
      setText(part, text);
    }
    drawn.update(...columns());
  });
}
