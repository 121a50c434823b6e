// Live figures: one stream of moments a second, and what on the page follows them.

import { ask, heard, open } from "./api.js";

const RETRY = 2000;
/** A stream that is silent for longer is gone: an idle one has a ping every 15 seconds. */
const GONE = 40_000;
const KEPT = 900;
/** After this long without a moment of the stream, a page's own answer is shown instead. */
const SILENT = 3000;

/** The newest moment, and the last fifteen minutes by the second. */
let moment = null;
let past = null;
let arrivedAt = 0;
let stream = null;
const followers = new Set();
const waiting = new Set();

/** Calls `update` with each moment while `node` is in the page; first when the page is shown. */
export function follow(node, update) {
  waiting.add({ node, update });
  return node;
}

/** A page was shown: what is in it follows from now on, what is not is forgotten. See `follow`. */
export function settle() {
  const begun = [...waiting].filter((it) => it.node.isConnected);
  waiting.clear();
  for (const it of begun) followers.add(it);
  if (moment) for (const it of begun) it.update(moment);
}

function notify() {
  for (const it of followers) {
    try {
      if (it.node.isConnected) it.update(moment);
      else followers.delete(it);
    } catch (error) {
      // One that fails must end neither the stream nor the others.
      followers.delete(it);
      console.error(error);
    }
  }
}

/** A moment that a page has asked for: it counts while the stream brings none. */
export function offer(found) {
  if (moment && Date.now() - arrivedAt < SILENT) return;
  moment = found;
  notify();
}

/** The history of all sources: { times, series, sparks }; null before it is known. */
export const history = () => past;
export const newest = () => moment;
export const isLive = () => Date.now() - arrivedAt < SILENT;

/** Adds the figures of a moment to the series of a history, and lets the oldest go. */
export function extend(kept, at, figures) {
  const { times, series } = kept;
  // Its times are rounded to tenths: the moment that it ends with comes by the stream as well.
  if (times.length && at < times.at(-1) + 0.1) return;
  const { age_ms: age, flight_ms: flight } = figures.latency ?? {};
  const values = {
    records_per_second: figures.records_per_second,
    bytes_per_second: figures.bytes_per_second,
    lag: figures.lag ?? null,
    flight_p50_ms: flight?.p50 ?? null,
    flight_p99_ms: flight?.p99 ?? null,
    age_p50_ms: age?.p50 ?? null,
    age_p99_ms: age?.p99 ?? null,
  };
  times.push(at);
  for (const [name, value] of Object.entries(values)) series[name].push(value);
  if (times.length <= KEPT) return;
  times.shift();
  for (const name of Object.keys(values)) series[name].shift();
}

function take(found) {
  moment = found;
  arrivedAt = heard.at = Date.now();
  if (past) extend(past, Date.parse(found.at) / 1000, found.total);
  notify();
}

/** Follows the stream until `stop`; while it is away, pages are asked as often as they say. */
export async function start() {
  if (stream || document.hidden) return;
  const mine = (stream = new AbortController());
  while (!mine.signal.aborted) {
    try {
      past = await ask("/api/live/history");
      await listen(mine.signal);
    } catch {
      // It is tried again; pages show meanwhile what they ask for.
    }
    await new Promise((done) => setTimeout(done, RETRY));
  }
}

export function stop() {
  stream?.abort();
  stream = null;
}

/** Reads the stream until it ends, is silent for too long, or `signal` ends it. */
async function listen(signal) {
  const line = new AbortController();
  let silence = 0;
  const arrived = () => {
    clearTimeout(silence);
    silence = setTimeout(() => line.abort(), GONE);
  };
  arrived();
  try {
    const both = AbortSignal.any([signal, line.signal]);
    await read(await open("/api/live/stream", both), arrived);
  } finally {
    clearTimeout(silence);
    // One that cannot be read any further would keep its connection.
    line.abort();
  }
}

async function read(answer, arrived) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    arrived();
    text += value;
    const messages = text.split("\n\n");
    text = messages.pop();
    for (const it of messages) {
      const data = it.split("\n").find((line) => line.startsWith("data: "));
      if (data) take(JSON.parse(data.slice(6)));
    }
  }
}

// A hidden page follows nothing.
document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
