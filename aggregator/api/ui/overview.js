// The overview: many sources, one hub, and what needs a person first.

import { ask } from "./api.js";
import { behind, bytes, count, el, latency, seconds, stateOf, table } from "./dom.js";

const name = (source) => source.title || source.alias;
const link = (source) => el("a", { href: `#/source/${encodeURIComponent(source.alias)}` }, name(source));

/** How far hub records are in Delta. */
function landing(tee) {
  const behind = tee.seconds_behind ? `, ${seconds(tee.seconds_behind)} behind` : "";
  return `${tee.state.toLowerCase()}, ${count(tee.records)} records${behind}`;
}

/** What the last audit found, and how long ago. */
function verdict(audit, at) {
  if (!audit?.at) return "none yet";
  const ago = `${seconds((Date.parse(at) - Date.parse(audit.at)) / 1000)} ago`;
  return el("span", { class: audit.wrong ? "bad" : null }, `${audit.wrong ? "wrong" : audit.not_compared ? "partly" : audit.not_judged ? `well, ${count(audit.not_judged)} not judged` : "all is well"}, ${ago}`);
}

export async function overview() {
  const now = await ask("/api/overview");
  const all = now.sources;
  const rate = all.some((it) => it.records_per_second !== null) ? all.reduce((sum, it) => sum + (it.records_per_second ?? 0), 0) : null;
  const parts = [el("h1", {}, `Sources of ${now.name}`)];
  if (now.attention.length) {
    parts.push(el("h2", {}, "Needs a person"), el("ul", { class: "attention" }, now.attention.map((it) => el("li", { class: it.level }, it.source ? [el("a", { href: `#/source/${encodeURIComponent(it.source)}` }, it.source), " "] : [], it.what))));
  }
  if (!all.length) {
    parts.push(el("p", {}, "No source is configured yet. Add one: aggregator sources add, or POST /connectors."));
    return { at: now, parts };
  }
  parts.push(
    el("div", { class: "flow" },
      el("ul", { "aria-label": "Sources", tabindex: "0" }, all.map((it) => el("li", {}, link(it), stateOf(it), el("span", { class: "soft" }, it.records_per_second === null ? "" : `${count(it.records_per_second)}/s`)))),
      el("div", { class: "arrow", "aria-hidden": "true" }, "→"),
      el("div", { class: "hub" }, el("strong", {}, "hub"), el("span", { class: "soft" }, now.hub_cluster_id), el("span", {}, rate === null ? "" : `${count(rate)} records/s`))),
    table("Sources; age is of half, 95 and 99 of a hundred records when the hub has them", [
      ["source", link],
      ["state", stateOf],
      ["topics", (it) => count(it.topics), true],
      ["partitions", (it) => count(it.partitions), true],
      ["records/s", (it) => count(it.records_per_second), true],
      ["bytes/s", (it) => bytes(it.bytes_per_second), true],
      ["lag", (it) => (it.lag ? `${count(it.lag)} (${bytes(it.lag_bytes)})` : count(it.lag)), true],
      ["behind", behind, true],
      ["age p50 / p95 / p99", latency, true],
      ["gaps", (it) => count(it.gaps), true],
      ["quarantined", (it) => count(it.quarantined), true],
    ], all),
    el("h2", {}, "Hub"),
    el("dl", { class: "facts" },
      [["cluster", now.hub_cluster_id || "unknown"], ["lanes", count(now.lanes)], ["last checkpoint", now.checkpoint_at ? `${seconds((Date.parse(now.at) - Date.parse(now.checkpoint_at)) / 1000)} ago` : "none yet"], ["open gaps", count(now.gaps.open)], ["last audit", verdict(now.audit, now.at)], ...(now.tee ? [["Delta", landing(now.tee)]] : []), ["runs for", seconds((Date.parse(now.at) - Date.parse(now.started_at)) / 1000)], ["version", now.version]]
        .map(([key, value]) => el("div", {}, el("dt", {}, key), el("dd", {}, value)))));
  return { at: now, parts };
}
