// The timeline: throughput, lag and latency of all sources, and what happened, on one axis.

import { ask } from "./api.js";
import { el, kindOfLevel, moment, sourceLink, table } from "./dom.js";
import { ALL, history, learn, MOST, past } from "./history.js";

export async function timeline(_, redraw) {
  const [now] = await Promise.all([ask("/api/overview"), learn(ALL)]);
  const { events, failing } = past();
  const titles = new Map(now.sources.map((it) => [it.alias, it.title]));
  return {
    at: now,
    parts: [
      el("h1", {}, "Timeline"),
      failing ? el("p", { class: "bad" }, `Newer events are not kept: ${failing}`) : null,
      history(ALL, redraw),
      el("h2", {}, "Events"),
      events.length
        ? table(
            `${events.length < MOST ? "All" : `The last ${MOST}`} of this time, the newest first`,
            [
              ["at (UTC)", (it) => moment(it.at)],
              ["level", level],
              ["kind", (it) => it.kind],
              ["source", (it) => linked(it.source, titles)],
              ["what", (it) => it.message, "text"],
            ],
            events.toReversed(),
          )
        : el("p", {}, "Nothing has happened in this time."),
    ],
  };
}

function level(event) {
  const kind = kindOfLevel(event.level);
  return el("span", { class: kind ?? "soft" }, event.level);
}

/** A source by its title; one that was taken out since has no page. */
function linked(alias, titles) {
  if (alias === null) return "-";
  return titles.has(alias) ? sourceLink(alias, titles.get(alias)) : alias;
}
