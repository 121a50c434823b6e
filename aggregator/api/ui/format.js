// Puts figures into words: counts, bytes, times. What is not known is "unknown", never 0.

const UNKNOWN = "unknown";
const isUnknown = (value) => value === null || value === undefined;

export function count(value) {
  if (isUnknown(value)) return UNKNOWN;
  if (value > 0 && value < 0.05) return "< 0.1";
  const digits = Math.abs(value) < 10 ? 1 : 0;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

/** How many there are of something: 1 partition, 3 partitions. */
export const some = (many, what) => `${count(many)} ${what}${many === 1 ? "" : "s"}`;

const THOUSANDS = [
  ["T", 1e12],
  ["G", 1e9],
  ["M", 1e6],
  ["k", 1e3],
];

export function bytes(value) {
  if (isUnknown(value)) return UNKNOWN;
  for (const [unit, size] of THOUSANDS) {
    // By what is shown of it: 999,960 bytes are 1.0 MB, not 1000.0 kB.
    if (value >= size * 0.99995) return `${(value / size).toFixed(1)} ${unit}B`;
  }
  return `${Math.round(value)} B`;
}

/** A count in few letters, for an axis or a narrow place: 1.2M. */
export function short(value) {
  if (isUnknown(value)) return "?";
  for (const [unit, size] of THOUSANDS) {
    if (value >= size * 10) return `${count(value / size)}${unit}`;
  }
  return count(value);
}

const UNITS = [
  ["d", 86_400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

/** A duration by its two largest units: 850 ms, 1.2 s, 42 s, 3 min 20 s, 4 h 19 min, 12 d. */
export function seconds(value) {
  if (isUnknown(value)) return UNKNOWN;
  if (value > 0 && value < 0.9995) return `${Math.max(1, Math.round(value * 1000))} ms`;
  if (value < 9.95) return `${Number(value.toFixed(1))} s`;
  const whole = Math.round(value);
  const at = UNITS.findIndex(([, size]) => whole >= size);
  const [unit, size] = UNITS[at];
  const rest = UNITS[at + 1];
  const large = Math.floor(whole / size);
  const small = rest ? Math.floor((whole % size) / rest[1]) : 0;
  const isLong = unit === "d" && large >= 10;
  return small && !isLong ? `${large} ${unit} ${small} ${rest[0]}` : `${large} ${unit}`;
}

/** A duration in one unit, for an axis: 4.3 h. */
export function briefly(value) {
  const [unit, size] = UNITS.find(([, least]) => value >= least) ?? ["s", 1];
  return value < 1 ? seconds(value) : `${Number((value / size).toFixed(1))} ${unit}`;
}

export const brieflyOfMillis = (value) => briefly(value / 1000);

/** No time that is longer than this is counted. */
const LONGEST_MS = 15_557_538;

/** A percentile of a series, which does not say by itself that the truth is longer. */
export const counted = (value) => `${value >= LONGEST_MS ? "> " : ""}${millis(value)}`;

export const millis = (value) => (isUnknown(value) ? UNKNOWN : seconds(value / 1000));

/** Three percentiles in one unit each; beyond what is counted the truth is longer, and so it says. */
export function percentiles(found) {
  if (!found) return "no records";
  if (found.longer_from === 50) return `> ${millis(found.p50)}`;
  if (found.p99 < 1000) return `${found.p50} / ${found.p95} / ${found.p99} ms`;
  return [50, 95, 99].map((at) => percentile(found, at, brieflyOfMillis)).join(" / ");
}

/** One percentile of them, by its name. */
export function percentile(found, at, say = millis) {
  if (found === undefined) return UNKNOWN;
  if (!found) return "no records";
  return `${at >= (found.longer_from ?? 100) ? "> " : ""}${say(found[`p${at}`])}`;
}

/** Age of live records; while a source catches up it says nothing of the copying. */
export function age(source) {
  return source.state === "CATCHING_UP" ? "catching up" : percentiles(source.latency.age_ms);
}

export function behind(source) {
  if (isUnknown(source.seconds_behind)) return UNKNOWN;
  return `${source.seconds_behind_at_least ? "> " : ""}${seconds(source.seconds_behind)}`;
}

const YEAR_10000 = 253_402_300_800_000;
/**
 * A record's time, by `say` in ISO form. Producers write micro- and nanoseconds as well, which
 * JavaScript rounds.
 */
export function written(ms, say) {
  if (ms < 0) return "none";
  if (ms < YEAR_10000) return say(new Date(ms).toISOString());
  return `${Number.isSafeInteger(ms) ? "" : "about "}${ms} ms`;
}

/** As what the value of a record is read. */
export const readAs = (record) =>
  record.value_schema === null
    ? record.value_format
    : `${record.value_format} ${record.value_schema}`;

/** How long ago something was, seen from another moment. */
export const ago = (then, now) =>
  `${seconds(Math.max(0, (Date.parse(now) - Date.parse(then)) / 1000))} ago`;
