// One source: topics, why something is not read, what it did in the last hours, and what can be done.

import { ask } from "./api.js";
import { behind, bytes, count, el, isOpen, latency, matchesNothing, more, seconds, stateOf, states, table } from "./dom.js";
import { fill, preview, sure } from "./dialog.js";
import { plot } from "./plot.js";

const ACTIONS = {
  pause: ["Pause", "Nothing of it is read until it is resumed, over restarts too. All other sources flow on. What it keeps meanwhile is copied later."],
  resume: ["Resume", "It continues from where it is."],
  restart: ["Restart", "What reads it ends cleanly and starts anew, within some seconds. Nothing is lost or copied twice."],
};

export async function source(alias, redraw) {
  const path = `/api/sources/${encodeURIComponent(alias)}`;
  const key = `partitions of ${alias}`;
  const [now, past, each] = await Promise.all([
    ask(path),
    ask(`/api/history?since=6h&source=${encodeURIComponent(alias)}`),
    isOpen(key) ? ask(`/api/lag?source=${encodeURIComponent(alias)}`) : null,
  ]);
  const it = now.source;
  const act = (name) => el("button", { type: "button", on: { click: () => sure(`${ACTIONS[name][0]} ${it.title || alias}?`, ACTIONS[name][1], ACTIONS[name][0], () => ask(`${path}/${name}`, "PUT"), redraw) } }, ACTIONS[name][0]);
  const rows = past.rows;
  const at = rows.map((row) => Date.parse(row.at) / 1000);
  const of = (make) => rows.map((row) => make(row));
  return {
    at: now,
    parts: [
      el("h1", {}, it.title ? `${it.title} (${alias})` : alias),
      el("p", {}, stateOf(it), " ", it.reason.startsWith("paused since ") ? it.reason.slice("paused ".length) : `since ${it.since.slice(0, 19).replace("T", " ")} UTC${it.reason ? `: ${it.reason}` : ""}`),
      matchesNothing(it) ? el("p", { class: "warn" }, "None of its topics matches its config, so nothing is copied: look at topics.include of this source.") : null,
      el("div", { class: "actions" }, it.state === "PAUSED" ? act("resume") : act("pause"), it.state === "PAUSED" ? null : act("restart"), rewind(now, redraw)),
      el("dl", { class: "facts" }, [["records/s", count(it.records_per_second)], ["bytes/s", bytes(it.bytes_per_second)], ["lag", count(it.lag)], ["lag in bytes", bytes(it.lag_bytes)], ["behind", behind(it)], ["age p50 / p95 / p99", latency(it)], ["records since the start", count(it.records)], ["lost in gaps", count(it.lost)]].map(([key, value]) => el("div", {}, el("dt", {}, key), el("dd", {}, value)))),
      table("Topics", [
        ["topic", (t) => t.topic],
        ["at the hub", (t) => el("a", { href: `#/topic/${encodeURIComponent(t.hub_topic)}` }, t.hub_topic)],
        ["partitions", (t) => count(t.partitions), true],
        ["states", (t) => states(t.states)],
        ["records", (t) => count(t.records), true],
        ["bytes", (t) => bytes(t.bytes), true],
        ["lag", (t) => count(t.lag), true],
        ["lag in bytes", (t) => bytes(t.lag_bytes), true],
        ["behind", (t) => (t.seconds_behind === null ? "unknown" : seconds(t.seconds_behind)), true],
        ["why not read", (t) => t.reasons.slice(0, 3).join("; ") || "-"],
      ], now.topics),
      more(key, `Its ${count(it.partitions)} partitions, and what reads each`, () => (each ? partitions(each.rows) : null), redraw),
      el("h2", {}, "The last six hours (UTC)"),
      rows.length < 2
        ? el("p", { class: "soft" }, "A row a minute is written down; there are not two yet.")
        : el("div", { class: "plots" },
            plot("Records per second", at, [["records/s", of((row) => (row.seconds ? row.records / row.seconds : null))]]),
            plot("Bytes per second", at, [["bytes/s", of((row) => (row.seconds ? row.bytes / row.seconds : null))]], bytes),
            plot("Lag in offsets", at, [["lag", of((row) => row.lag)]]),
            plot("Lag in bytes", at, [["lag", of((row) => row.lag_bytes)]], bytes),
            plot("Behind, in seconds", at, [["behind", of((row) => row.seconds_behind)]]),
            plot("Age of records at the hub, ms", at, [["p50", of((row) => row.age_p50_ms)], ["p95", of((row) => row.age_p95_ms)], ["p99", of((row) => row.age_p99_ms)]]),
            plot("From fetch to hub, ms", at, [["p50", of((row) => row.flight_p50_ms)], ["p95", of((row) => row.flight_p95_ms)], ["p99", of((row) => row.flight_p99_ms)]])),
    ],
  };
}

function partitions(rows) {
  return table("Each partition", [
    ["topic", (row) => row.topic],
    ["partition", (row) => row.partition, true],
    ["state", (row) => row.state.toLowerCase()],
    ["position", (row) => count(row.position), true],
    ["log end", (row) => count(row.log_end), true],
    ["lag", (row) => count(row.lag), true],
    ["lag in bytes", (row) => bytes(row.lag_bytes), true],
    ["behind", behind, true],
    ["lane", (row) => row.lane || "-"],
    ["why not read", (row) => row.reason || "-", "text"],
  ], rows);
}

const SPANS = [["600", "10 minutes"], ["3600", "an hour"], ["21600", "6 hours"], ["86400", "a day"], ["604800", "a week"], ["", "to the beginning of its logs"]];

/** Back to where it was: what that comes to is shown before, and the source has to be paused for it. */
function rewind(now, redraw) {
  const { alias, state: its } = now.source;
  const topics = [["", "all topics"], ...now.topics.map((t) => [t.topic, t.topic])];
  const wanted_from = () => fill(`Rewind ${alias}`, "Positions go back, and what the hub lacks from there on is written once more. What it holds is not written twice.",
    [["topic", "Topic", "", "", topics], ["by", "How far back", "", "3600", SPANS]],
    "Show what would be done", ({ topic, by }) => {
      const wanted = { rewind: true, source: alias, ...(topic ? { topic } : {}), ...(by ? { by_seconds: Number(by) } : { to: "earliest" }) };
      preview(`Rewind ${alias}?`, async () => {
        const reply = await ask("/api/positions", "POST", { ...wanted, dry_run: true });
        return [
          its === "PAUSED" ? null : el("p", { class: "warn" }, "The source has to be paused before this can be done."),
          ...reply.notes.map((note) => el("p", { class: "warn" }, note)),
          el("p", {}, reply.tail ? `${count(reply.tail)} offsets of the hub are read before it continues.` : ""),
          table("What would be done", [["topic", (m) => m.topic], ["partition", (m) => m.partition, true], ["now", (m) => count(m.position), true], ["new", (m) => count(m.new), true], ["difference", (m) => count(m.difference), true], ["what will happen", (m) => m.what, "text"]], reply.moves),
        ];
      }, "Rewind", () => ask("/api/positions", "POST", { ...wanted, dry_run: false }), redraw);
    });
  return el("button", { type: "button", on: { click: wanted_from } }, "Rewind");
}
