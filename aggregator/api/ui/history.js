// The history of a source: minutes from the tables, and the last ones by the second, in one plot.

import { ask } from "./api.js";
import { el } from "./dom.js";
import { bytes, count, millis, seconds, short } from "./format.js";
import { extend, follow, isLive } from "./live.js";
import { plot } from "./plot.js";

/** What can be looked at: its name, how far back in seconds, and the step of the tables. */
const RANGES = [
  ["15 minutes", 900, null],
  ["6 hours", 21_600, "0s"],
  ["7 days", 604_800, "10m"],
];
let range = RANGES[1];

const rate = (name) => (row) => (row.seconds ? row[name] / row.seconds : null);
const orNone = (say) => (value) => (value === null ? "none" : say(value));

/** Each plot: its title, its lines as [name, of a row of the tables, of the live series]. */
const PLOTS = [
  ["Records per second", [["records/s", rate("records"), "records_per_second"]], count, short],
  ["Bytes per second", [["bytes/s", rate("bytes"), "bytes_per_second"]], bytes, bytes],
  ["Lag in offsets", [["lag", (row) => row.lag, "lag"]], count, short],
  ["Lag in bytes", [["lag", (row) => row.lag_bytes, null]], bytes, bytes],
  ["Behind", [["behind", (row) => row.seconds_behind, null]], seconds, seconds],
  [
    "From fetch to hub",
    [
      ["p50", (row) => row.flight_p50_ms, "flight_p50_ms"],
      ["p99", (row) => row.flight_p99_ms, "flight_p99_ms"],
    ],
    millis,
    millis,
  ],
  [
    "Age of records at the hub",
    [
      ["p50", (row) => row.age_p50_ms, "age_p50_ms"],
      ["p99", (row) => row.age_p99_ms, "age_p99_ms"],
    ],
    millis,
    millis,
  ],
];

const FRESH = 30_000;
/** What is known: of which source and range, when it was asked for, its seconds and its rows. */
let known = { key: "", at: 0, live: null, rows: [] };

/** Asks for the rows and the seconds of a source that the chosen range needs, once in a while. */
export async function learn(alias) {
  const [name, span, step] = range;
  const key = JSON.stringify([alias, name]);
  if (known.key === key && Date.now() - known.at < FRESH) return;
  const of = `source=${encodeURIComponent(alias)}`;
  const [live, stored] = await Promise.all([
    ask(`/api/live/history?${of}`),
    step === null ? null : ask(`/api/history?since=${span}s&step=${step}&${of}`),
  ]);
  known = { key, at: Date.now(), live, rows: stored?.rows ?? [] };
}

/** The plots, with the choice of a range above them. They follow live moments. */
export function history(alias, redraw) {
  const head = el("div", { class: "heading" }, el("h2", {}, "History (UTC)"), choice(redraw));
  if (!known.rows.length && !known.live.times.length) {
    return [
      head,
      el(
        "p",
        { class: "soft" },
        "A row a minute is kept, and each second in memory; there is none yet.",
      ),
    ];
  }
  const made = PLOTS.filter(
    ([, lines]) => range[2] !== null || lines.every(([, , name]) => name !== null),
  ).map(onePlot);
  const place = el(
    "div",
    { class: "plots" },
    made.map((it) => it.figure),
  );
  follow(place, (moment) => {
    const found = moment.sources.find((it) => it.alias === alias);
    if (!found || !isLive()) return;
    extend(known.live, Date.parse(moment.at) / 1000, found);
    for (const it of made) it.refresh();
  });
  return [head, place];
}

/** The values of a plot: rows of the tables as far as there are no seconds of it. */
function dataOf(lines) {
  const { live, rows } = known;
  const isLive = lines.every(([, , name]) => name !== null);
  const first = isLive ? (live.times[0] ?? Infinity) : Infinity;
  const older = rows.filter((row) => Date.parse(row.at) / 1000 < first);
  const at = older.map((row) => Date.parse(row.at) / 1000);
  return [
    isLive ? [...at, ...live.times] : at,
    lines.map(([, of, name]) => [...older.map(of), ...(isLive ? live.series[name] : [])]),
  ];
}

function onePlot([title, lines, say, axis]) {
  const [at, values] = dataOf(lines);
  const all = lines.map(([name], number) => [name, values[number]]);
  const drawn = plot(title, at, all, { say: orNone(say), axis, height: 150 });
  return { figure: drawn.figure, refresh: () => drawn.update(...dataOf(lines)) };
}

function choice(redraw) {
  return el(
    "div",
    { class: "choice", role: "group", "aria-label": "How far back" },
    RANGES.map((it) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(it === range),
          on: {
            click: () => {
              range = it;
              redraw(true);
            },
          },
        },
        it[0],
      ),
    ),
  );
}
