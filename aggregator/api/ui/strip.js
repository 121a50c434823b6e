// The strip: throughput, lag and latency of all sources, now in large, with the last minutes.

import { el, setText } from "./dom.js";
import { behind, briefly, bytes, count, counted, percentile, seconds, short } from "./format.js";
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
      (it.total.seconds_behind === null
        ? "how far behind is unknown"
        : `the slowest partition is ${behind(it.total)} behind`) + without(it.sources),
    lines: [["offsets", "lag"]],
    say: count,
    axis: short,
  },
  {
    title: "Copy latency",
    large: (it) => [percentile(it.total.latency.flight_ms, 50), "p50"],
    small: (it) => `p99 ${percentile(it.total.latency.flight_ms, 99)}, from fetch to hub`,
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

/** How far back the plots reach: an instance that is young has no 15 minutes to show. */
export function reachOf(times) {
  const span = times.length ? times.at(-1) - times[0] : 0;
  return span ? `last ${seconds(span < 60 ? Math.round(span) : 60 * Math.round(span / 60))}` : "";
}

function tile({ title, large, small, lines, say, axis }) {
  const value = el("span", { class: "value" });
  const unit = el("span", { class: "unit" });
  const more = el("p", { class: "soft" });
  const reach = el("span", {});
  const columns = () => {
    const kept = history();
    return kept
      ? [kept.times, lines.map(([, name]) => kept.series[name])]
      : [[], lines.map(() => [])];
  };
  // Without values at first: words that are the same each time are no reason to make it again.
  const empty = lines.map(([name]) => [name, []]);
  const drawn = plot(reach, [], empty, { say, axis, height: 110, dashed: false });
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
    const [times, values] = columns();
    setText(reach, reachOf(times));
    drawn.update(times, values);
  });
}
