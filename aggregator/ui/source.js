// One source: topics, why something is not read, what it did in the last hours, and what can be done.

import { ask } from "./api.js";
import { behind, bytes, count, el, latency, seconds, state, table } from "./dom.js";
import { sure } from "./dialog.js";
import { plot } from "./plot.js";

const ACTIONS = {
  pause: ["Pause", "Nothing of it is read until it is resumed, over restarts too. All other sources flow on. What it keeps meanwhile is copied later."],
  resume: ["Resume", "It goes on from where it is."],
  restart: ["Restart", "What reads it ends cleanly and starts anew, within some seconds. Nothing is lost or copied twice."],
};

export async function source(alias, redraw) {
  const path = `/api/sources/${encodeURIComponent(alias)}`;
  const [now, past] = await Promise.all([ask(path), ask(`/api/history?since=6h&source=${encodeURIComponent(alias)}`)]);
  const it = now.source;
  const act = (name) => el("button", { type: "button", on: { click: () => sure(`${ACTIONS[name][0]} ${it.title || alias}?`, ACTIONS[name][1], ACTIONS[name][0], () => ask(`${path}/${name}`, "PUT"), redraw) } }, ACTIONS[name][0]);
  const rows = past.rows;
  const at = rows.map((row) => Date.parse(row.at) / 1000);
  const of = (make) => rows.map((row) => make(row));
  return {
    at: now,
    parts: [
      el("h1", {}, it.title ? `${it.title} (${alias})` : alias),
      el("p", {}, state(it.state), " since ", it.since.slice(0, 19).replace("T", " "), " UTC", it.reason ? `: ${it.reason}` : ""),
      it.state === "RUNNING" && it.topics === 0 ? el("p", { class: "warn" }, "None of its topics matches its config, so nothing is copied: look at topics.include of this source.") : null,
      el("div", { class: "actions" }, it.state === "PAUSED" ? act("resume") : act("pause"), it.state === "PAUSED" ? null : act("restart")),
      el("dl", { class: "facts" }, [["records/s", count(it.records_per_second)], ["bytes/s", bytes(it.bytes_per_second)], ["lag", count(it.lag)], ["behind", behind(it)], ["age p50 / p95 / p99", latency(it)], ["records since the start", count(it.records)], ["lost in gaps", count(it.lost)]].map(([key, value]) => el("div", {}, el("dt", {}, key), el("dd", {}, value)))),
      table("Topics", [
        ["topic", (t) => t.topic],
        ["at the hub", (t) => t.hub_topic],
        ["partitions", (t) => count(t.partitions), true],
        ["states", (t) => Object.entries(t.states).map(([name, many]) => `${many} ${name.toLowerCase()}`).join(", ")],
        ["records", (t) => count(t.records), true],
        ["bytes", (t) => bytes(t.bytes), true],
        ["lag", (t) => count(t.lag), true],
        ["behind", (t) => (t.seconds_behind === null ? "unknown" : seconds(t.seconds_behind)), true],
        ["why not read", (t) => t.reasons.slice(0, 3).join("; ") || "-"],
      ], now.topics),
      el("h2", {}, "The last six hours (UTC)"),
      rows.length < 2
        ? el("p", { class: "soft" }, "A row a minute is written down; there are not two yet.")
        : el("div", { class: "plots" },
            plot("Records per second", at, [["records/s", of((row) => (row.seconds ? row.records / row.seconds : null))]]),
            plot("Lag in offsets", at, [["lag", of((row) => row.lag)]]),
            plot("Age of records at the hub, ms", at, [["p50", of((row) => row.age_p50_ms)], ["p95", of((row) => row.age_p95_ms)], ["p99", of((row) => row.age_p99_ms)]])),
    ],
  };
}
