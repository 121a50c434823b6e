// The config in effect.

import { ask } from "./api.js";
import { el } from "./dom.js";

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
