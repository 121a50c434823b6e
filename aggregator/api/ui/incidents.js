// What went wrong and what came of it: gaps, quarantine, recoveries, audits; and what can be done.

import { ask } from "./api.js";
import { preview, sure } from "./dialog.js";
import { el, moment, table } from "./dom.js";
import { count } from "./format.js";

export async function incidents(_, redraw) {
  const [now, audit] = await Promise.all([ask("/api/incidents"), ask("/api/verify")]);
  const all = now.incidents;
  const open = all.filter((it) => it.open);
  const records = open.filter((it) => it.kind === "quarantine");
  return {
    at: now,
    parts: [
      el("h1", {}, "Gaps, quarantine, recoveries and audits"),
      el(
        "p",
        {},
        open.length
          ? `${count(open.length)} ${open.length === 1 ? "waits" : "wait"} for a decision.`
          : "Nothing waits for a decision.",
      ),
      ...now.failing.map((why) => el("p", { class: "bad" }, why)),
      el(
        "div",
        { class: "actions" },
        verify(audit, redraw),
        records.length > 1
          ? button(`Retry these ${count(records.length)} records`, () =>
              retry(
                records.map((it) => it.id),
                redraw,
              ),
            )
          : null,
      ),
      audit.running
        ? el("p", { role: "status" }, `An audit runs: ${audit.progress || "it starts"}`)
        : null,
      audit.error
        ? el("p", { class: "bad" }, `The last audit has no result: ${audit.error}`)
        : null,
      all.length
        ? table(
            "The newest first",
            [
              ["at (UTC)", (it) => moment(it.at)],
              ["kind", (it) => it.kind],
              ["source", (it) => it.source],
              ["what", (it) => it.what, "text"],
              [
                "state",
                (it) =>
                  el(
                    "span",
                    { class: it.level === "info" ? null : it.level === "error" ? "bad" : "warn" },
                    it.state,
                  ),
              ],
              ...(open.length ? [["decide", (it) => (it.open ? decide(it, redraw) : "")]] : []),
            ],
            all,
          )
        : el("p", {}, "Nothing was ever lost, refused, recovered or compared."),
    ],
  };
}

const button = (word, click, what = "") =>
  el(
    "button",
    { type: "button", "aria-label": what ? `${word} ${what}` : null, on: { click } },
    word,
  );

function decide(it, redraw) {
  if (it.kind === "gap") {
    return button(
      "Accept",
      () =>
        sure(
          "Accept this gap?",
          [
            el("p", {}, it.what),
            el("p", {}, "What is in it stays lost. Its partition continues after it, at once."),
          ],
          "Accept it",
          () => ask("/api/gaps/accept", "POST", { gaps: [it.id] }),
          redraw,
        ),
      it.what.split(",")[0],
    );
  }
  return button("Retry", () => retry([it.id], redraw), it.id);
}

function retry(origins, redraw) {
  preview(
    "Try again to write to the hub?",
    async () => {
      const reply = await ask("/api/quarantine/retry", "POST", { origins, dry_run: true });
      return [
        el(
          "p",
          {},
          "Each record is written once, with its origin and timestamp; it comes later than its order would have it. What the hub refuses again stays in quarantine.",
        ),
        table(
          "What would be done",
          [
            ["record", (it) => it.origin],
            ["hub topic", (it) => it.hub_topic],
            ["what", (it) => it.detail, "text"],
          ],
          reply.records,
        ),
      ];
    },
    "Retry",
    async () => {
      const reply = await ask("/api/quarantine/retry", "POST", { origins, dry_run: false });
      const failed = reply.records.filter((it) => it.state !== "retried");
      if (reply.error)
        throw new Error(`${count(reply.records.length)} were tried, then: ${reply.error}`);
      if (failed.length)
        throw new Error(
          `${count(failed.length)} of ${count(reply.records.length)} were not written: ${failed[0].detail}`,
        );
    },
    redraw,
  );
}

function verify(audit, redraw) {
  if (audit.running) return null;
  return button("Verify now", () =>
    sure(
      "Compare the hub with its sources?",
      "Every record below the checkpoint is read at its source and at the hub, in a process of its own with low priority. Nothing is changed; the result is kept with the other audits. It can take long.",
      "Verify",
      () => ask("/api/verify", "POST", {}),
      redraw,
    ),
  );
}
