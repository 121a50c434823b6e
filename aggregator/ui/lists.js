// Events, gaps and the config: what was, what is lost, and what is in effect.

import { ask } from "./api.js";
import { count, el, moment, table } from "./dom.js";

export async function events() {
  const [now, told] = await Promise.all([ask("/api/overview"), ask("/api/events?since=7d&limit=200")]);
  return { at: now, parts: [
    el("h1", {}, "Events of the last seven days"),
    told.failing ? el("p", { class: "bad" }, `Newer ones are not kept: ${told.failing}`) : null,
    told.events.length
      ? table("The newest 200, the newest first", [["at (UTC)", (it) => moment(it.at)], ["level", (it) => it.level], ["kind", (it) => it.kind], ["source", (it) => it.source], ["what", (it) => it.message]], told.events.toReversed())
      : el("p", {}, "Nothing has happened."),
  ] };
}

export async function gaps() {
  const now = await ask("/api/overview");
  const all = now.gaps.latest;
  return { at: now, parts: [
    el("h1", {}, "Gaps"),
    el("p", {}, `${count(now.gaps.total)} ever, ${count(now.gaps.open)} open, ${count(now.gaps.lost)} offsets lost as far as known. aggregator gaps lists all.`),
    all.length
      ? table("Open ones first", [["gap", (it) => it.id], ["found (UTC)", (it) => moment(it.found_at)], ["source", (it) => it.cluster], ["topic", (it) => it.topic], ["partition", (it) => it.partition, true], ["cause", (it) => it.cause], ["from", (it) => count(it.from_offset), true], ["to", (it) => count(it.to_offset), true], ["lost", (it) => count(it.lost), true], ["state", (it) => (it.resolved ? "decided" : "open")], ["why", (it) => it.note || it.reason]], all)
      : el("p", {}, "Nothing was ever lost."),
  ] };
}

export async function config() {
  const [now, told] = await Promise.all([ask("/api/overview"), ask("/api/config")]);
  return { at: now, parts: [el("h1", {}, "The config in effect"), el("p", { class: "soft" }, "Secrets are masked."), el("pre", { tabindex: "0", "aria-label": "Config" }, JSON.stringify(told, null, 2))] };
}
