// The history of a source, a hub topic, or all: minutes from the tables, and the last ones by the
// second, in one plot.

import { ask } from "./api.js";
import { el, kindOfLevel } from "./dom.js";
import { briefly, brieflyOfMillis, bytes, count, counted, seconds, short } from "./format.js";
import { extend, follow, isLive } from "./live.js";
import { plot } from "./plot.js";

/** What can be looked at: its name, how far back in seconds, and the step of the tables. */
const RANGES = [
  ["15 minutes", 900, null],
  ["6 hours", 21_600, "0s"],
  ["7 days", 604_800, "10m"],
];
/** The range that was chosen, on whichever page; null before anyone has chosen. */
let chosen = null;
/** Whose history: of all sources together, of one, or of what goes into a hub topic. */
export const ALL = { name: null, query: "", stored: "&total=true" };
export function ofSource(alias) {
  const query = `&source=${encodeURIComponent(alias)}`;
  return { name: alias, query, stored: query };
}
export function ofTopic(topic) {
  const query = `&hub_topic=${encodeURIComponent(topic)}`;
  return { name: topic, query, stored: `${query}&total=true`, isTopic: true };
}

/** All opens with enough hours for something to have happened, the others by the second. */
const rangeOf = (whose) => chosen ?? (whose === ALL ? RANGES[1] : RANGES[0]);

const rate = (name) => (row) => (row.seconds ? row[name] / row.seconds : null);
const orNone = (say) => (value) => (value === null ? "none" : say(value));

/** Each plot: its title, its lines as [name, of a row of the tables, of the live series]. */
const PLOTS = [
  ["Records per second", [["records/s", rate("records"), "records_per_second"]], count, short],
  ["Bytes per second", [["bytes/s", rate("bytes"), "bytes_per_second"]], bytes, bytes],
  ["Lag in offsets", [["lag", (row) => row.lag, "lag"]], count, short],
  ["Behind", [["behind", (row) => row.seconds_behind, null]], seconds, briefly],
  [
    "Copy latency",
    [
      ["p50", (row) => row.flight_p50_ms, "flight_p50_ms"],
      ["p99", (row) => row.flight_p99_ms, "flight_p99_ms"],
    ],
    counted,
    brieflyOfMillis,
  ],
  [
    "Age of records at the hub",
    [
      ["p50", (row) => row.age_p50_ms, "age_p50_ms"],
      ["p99", (row) => row.age_p99_ms, "age_p99_ms"],
    ],
    counted,
    brieflyOfMillis,
  ],
];

const FRESH = 30_000;
/** Of what happened in the range the newest are shown. */
export const MOST = 200;
/** What is known: of which source and range, when it was asked for, its seconds, rows, events. */
let known = { key: "", at: 0, live: null, rows: [], cut: "", events: [] };
/** What was asked for last: an answer to an older question that comes later is not taken. */
let wanted = "";

/** What happened in the chosen range, the oldest first; and why newer events are not kept. */
export const past = () => known;

/**
 * The plots of a hub topic: tasks count no latency by topic, and lags of it are in the tables. A
 * topic has no row of a minute in which nothing was copied, so rates have 0 in place of a hole.
 */
const OF_TOPIC = [
  ...PLOTS.slice(0, 2).map(([title, [line], ...how]) => [title, [[...line, 0]], ...how]),
  ["Lag in offsets", [["lag", (row) => row.lag, null]], count, short],
];

/** Asks for what the chosen range needs, once in a while. */
export async function learn(whose) {
  const [name, span, step] = rangeOf(whose);
  const key = JSON.stringify([whose.query, name]);
  wanted = key;
  const isFresh = known.key === key && Date.now() - known.at < FRESH;
  const eventsOf = whose.isTopic ? "" : whose.query;
  const [live, stored, { events, failing }] = await Promise.all([
    isFresh ? null : ask(`/api/live/history?${whose.query.slice(1)}`),
    isFresh || step === null
      ? null
      : ask(`/api/history?since=${span}s&step=${step}${whose.stored}`),
    ask(`/api/events?since=${span}s&limit=${MOST}${eventsOf}`),
  ]);
  if (wanted !== key) return;
  if (isFresh) {
    Object.assign(known, { events, failing });
    return;
  }
  const { rows, cut } = stored ?? { rows: [], cut: "" };
  known = { key, at: Date.now(), live, rows, cut, events, failing };
}

/**
 * Tables have no percentiles of all sources together: each row has those of the slowest source.
 * Live ones are of all records, so the same line does not show both.
 */
const slowest = ([title, lines, say, axis]) =>
  say === counted
    ? [`${title}: the slowest source`, lines.map(([name, of]) => [name, of, null]), say, axis]
    : [title, lines, say, axis];

/** Whether the range shows seconds from memory only, and no rows of the tables. */
const isBySecond = (whose) => rangeOf(whose)[2] === null;

/** The plots, as far as the range has what they show. */
function plotsOf(whose) {
  const all = whose.isTopic ? OF_TOPIC : PLOTS;
  if (isBySecond(whose)) return all.filter(([, lines]) => lines.every(([, , name]) => name));
  return whose === ALL ? all.map(slowest) : all;
}

/** What a live moment has of it; null where it is no part of the moment. */
function figuresIn(moment, whose) {
  if (whose === ALL) return moment.total;
  if (!whose.isTopic) return moment.sources.find((it) => it.alias === whose.name) ?? null;
  const into = moment.flows?.filter((it) => it.topic === whose.name) ?? [];
  const sum = (name) => into.reduce((all, it) => all + it[name], 0);
  return into.length
    ? { records_per_second: sum("records_per_second"), bytes_per_second: sum("bytes_per_second") }
    : null;
}

/** The plots, with the choice of a range above them. They follow live moments. */
export function history(whose, redraw) {
  const marks = [el("i", { class: "tick warn" }), el("i", { class: "tick bad" })];
  const head = el(
    "div",
    { class: "heading" },
    el("h2", {}, "History (UTC)"),
    choice(whose, redraw),
    el("p", { class: "soft legend" }, marks[0], " warning ", marks[1], " error"),
  );
  if (!known.rows.length && !known.live.times.length) {
    const why = isBySecond(whose)
      ? "There is none yet: figures come each second, once records are copied."
      : "There is none yet: rows are kept as often as timeline.interval says.";
    return el("section", {}, head, el("p", { class: "soft" }, why));
  }
  const made = plotsOf(whose).map((it) => onePlot(it, marks, isBySecond(whose)));
  const place = el(
    "div",
    { class: "plots" },
    made.map((it) => it.figure),
  );
  const { key } = known;
  follow(place, (moment) => {
    const found = figuresIn(moment, whose);
    // While another page is asked for, what is known may be of that one already.
    if (!found || !isLive() || known.key !== key) return;
    extend(known.live, Date.parse(moment.at) / 1000, found);
    for (const it of made) it.refresh();
  });
  const cut = known.cut ? el("p", { class: "soft" }, `The ${known.cut}.`) : null;
  return el("section", {}, head, cut, place);
}

/** Draws a line for each event of these levels into a plot. */
function marked(drawn, [warning, error]) {
  const colors = {
    warn: getComputedStyle(warning).color,
    bad: getComputedStyle(error).color,
  };
  const { ctx, bbox } = drawn;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  for (const it of known.events) {
    const x = drawn.valToPos(Date.parse(it.at) / 1000, "x", true);
    const color = colors[kindOfLevel(it.level)];
    if (!color || x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = color;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** Where rows are missing for longer, in seconds, a line has a hole: the instance was down. */
const HOLE = 90;

/**
 * Rows that ended before `first` as moments and columns; with a hole where rows are missing, or what
 * a line has in place of one.
 */
export function columnsOf(rows, lines, first) {
  const at = [];
  const columns = lines.map(() => []);
  for (const row of rows) {
    const end = Date.parse(row.at) / 1000;
    const missing = at.length ? end - row.seconds - at.at(-1) : 0;
    if (missing > Math.max(HOLE, row.seconds / 2)) {
      at.push(at.at(-1) + 1, end - row.seconds);
      for (const [number, [, , , hole]] of lines.entries())
        columns[number].push(hole ?? null, hole ?? null);
    }
    if (end >= first) break;
    at.push(end);
    for (const [number, [, of]] of lines.entries()) columns[number].push(of(row));
  }
  return [at, columns];
}

/** The values of a plot: rows of the tables as far as there are no seconds of it. */
function dataOf(lines, bySecond) {
  const { live, rows } = known;
  const isLive = lines.every(([, , name]) => name !== null);
  const first = isLive ? (live.times[0] ?? Infinity) : Infinity;
  const [at, stored] = columnsOf(rows, lines, first);
  if (!isLive) return [at, stored];
  const columns = lines.map(([, , name]) => live.series[name]);
  // Beside rows of a minute, seconds are joined to minutes as well.
  const [times, newest] = bySecond ? [live.times, columns] : means(live.times, columns);
  return [[...at, ...times], stored.map((values, number) => [...values, ...newest[number]])];
}

/** Series of seconds as the means of each minute. */
function means(times, columns) {
  const begins = times.flatMap((it, at) =>
    at === 0 || Math.floor(it / 60) !== Math.floor(times[at - 1] / 60) ? [at] : [],
  );
  const mean = (values) => {
    const some = values.filter((it) => it !== null);
    return some.length ? some.reduce((sum, it) => sum + it, 0) / some.length : null;
  };
  const spans = begins.map((begin, number) => [begin, begins[number + 1] ?? times.length]);
  return [
    spans.map(([, end]) => times[end - 1]),
    columns.map((values) => spans.map(([begin, end]) => mean(values.slice(begin, end)))),
  ];
}

function onePlot([title, lines, say, axis], marks, bySecond) {
  const [at, values] = dataOf(lines, bySecond);
  const all = lines.map(([name], number) => [name, values[number]]);
  const mark = (drawn) => marked(drawn, marks);
  const made = plot(title, at, all, { say: orNone(say), axis, height: 150, mark });
  return { figure: made.figure, refresh: () => made.update(...dataOf(lines, bySecond)) };
}

function choice(whose, redraw) {
  return el(
    "div",
    { class: "choice", role: "group", "aria-label": "How far back" },
    RANGES.map((it) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(it === rangeOf(whose)),
          on: {
            click: () => {
              chosen = it;
              redraw(true);
            },
          },
        },
        it[0],
      ),
    ),
  );
}
