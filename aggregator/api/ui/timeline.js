// The timeline: throughput, lag and latency of all sources, and what happened, on one axis.

import { ask } from "./api.js";
import { el, moment, sourceLink, table } from "./dom.js";
import { history, learn, past } from "./history.js";

export async function timeline(_, redraw) {
  const [now] = await Promise.all([ask("/api/overview"), learn(null)]);
  const { events, failing } = past();
  return {
    at: now,
    parts: [
      el("h1", {}, "Timeline"),
      failing ? el("p", { class: "bad" }, `Newer events are not kept: ${failing}`) : null,
      history(null, redraw),
      el("h2", {}, "Events"),
      events.length
        ? table(
            "The newest 200 of this time, the newest first",
            [
              ["at (UTC)", (it) => moment(it.at)],
              ["level", level],
              ["kind", (it) => it.kind],
              ["source", (it) => (it.source === null ? "-" : sourceLink(it.source))],
              ["what", (it) => it.message, "text"],
            ],
            events.toReversed(),
          )
        : el("p", {}, "Nothing has happened in this time."),
    ],
  };
}

function level(event) {
  const kind = { warning: "warn", error: "bad" }[event.level];
  return el("span", { class: kind ?? "soft" }, event.level);
}
