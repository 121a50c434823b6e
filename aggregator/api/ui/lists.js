// Events and the config: what was, and what is in effect.

import { ask } from "./api.js";
import { el, moment, table } from "./dom.js";

export async function events() {
  const [now, reply] = await Promise.all([
    ask("/api/overview"),
    ask("/api/events?since=7d&limit=200"),
  ]);
  return {
    at: now,
    parts: [
      el("h1", {}, "Events of the last seven days"),
      reply.failing ? el("p", { class: "bad" }, `Newer ones are not kept: ${reply.failing}`) : null,
      reply.events.length
        ? table(
            "The newest 200, the newest first",
            [
              ["at (UTC)", (it) => moment(it.at)],
              ["level", (it) => it.level],
              ["kind", (it) => it.kind],
              ["source", (it) => it.source],
              ["what", (it) => it.message],
            ],
            reply.events.toReversed(),
          )
        : el("p", {}, "Nothing has happened."),
    ],
  };
}

export async function config() {
  const [now, reply] = await Promise.all([ask("/api/overview"), ask("/api/config")]);
  return {
    at: now,
    parts: [
      el("h1", {}, "The config in effect"),
      el("p", { class: "soft" }, "Secrets are masked."),
      el("pre", { tabindex: "0", "aria-label": "Config" }, JSON.stringify(reply, null, 2)),
    ],
  };
}
