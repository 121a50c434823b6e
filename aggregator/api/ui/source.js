// One source: topics, why something is not read, its history, and what can be done.

import { ask } from "./api.js";
import {
  el,
  facts,
  matchesNothing,
  more,
  setText,
  stateOf,
  states,
  table,
  topicLink,
  trail,
} from "./dom.js";
import { fill, preview, sure } from "./dialog.js";
import { age, behind, bytes, count, percentiles, seconds, some } from "./format.js";
import { heat } from "./heat.js";
import { history, learn, ofSource } from "./history.js";
import { follow, offer } from "./live.js";

const ACTIONS = {
  pause: [
    "Pause",
    "Nothing of it is read until it is resumed, over restarts too. All other sources flow on. What it keeps meanwhile is copied later.",
  ],
  resume: ["Resume", "It continues from where it is."],
  restart: [
    "Restart",
    "What reads it ends cleanly and starts again within some seconds. Nothing is lost or copied twice.",
  ],
};

export async function source(alias, redraw) {
  const path = `/api/sources/${encodeURIComponent(alias)}`;
  const [now, each] = await Promise.all([
    ask(path),
    ask(`/api/lag?source=${encodeURIComponent(alias)}`),
    learn(ofSource(alias)),
  ]);
  const it = now.source;
  offer({ at: now.at, rate_seconds: 60, total: it, sources: [it], flows: null });
  const key = `partitions of ${alias}`;
  return {
    at: now,
    parts: [
      trail([["Overview", "#/"]]),
      el("h1", {}, it.title ? `${it.title} (${alias})` : alias),
      el("p", { class: "lead" }, stateOf(it), " ", since(it)),
      matchesNothing(it)
        ? el(
            "p",
            { class: "warn" },
            "None of its topics matches its config, so nothing is copied: look at topics.include of this source.",
          )
        : null,
      actions(now, path, redraw),
      facts(figures(it)),
      history(ofSource(alias), redraw),
      el("h2", {}, "Topics"),
      topicsOf(now.topics),
      el("h2", {}, "Partitions"),
      heat(each.rows, (row) => row.topic),
      more(
        key,
        `Its ${some(it.partitions, "partition")}, and what reads each`,
        () => partitions(each.rows),
        redraw,
      ),
    ],
  };
}

/** Since when it is in its state, and why. */
function since(it) {
  if (it.reason.startsWith("paused since ")) return it.reason.slice("paused ".length);
  const at = it.since.slice(0, 19).replace("T", " ");
  return `since ${at} UTC${it.reason ? `: ${it.reason}` : ""}`;
}

function actions(now, path, redraw) {
  const { alias, title, state } = now.source;
  const act = (name) => {
    const [word, what] = ACTIONS[name];
    const go = () =>
      sure(`${word} ${title || alias}?`, what, word, () => ask(`${path}/${name}`, "PUT"), redraw);
    return el("button", { type: "button", on: { click: go } }, word);
  };
  return el(
    "div",
    { class: "actions" },
    state === "PAUSED" ? act("resume") : [act("pause"), act("restart")],
    rewind(now, redraw),
  );
}

/** Lag in bytes at another moment: by the same mean size, so that it fits the lag beside it. */
function lagBytes(own, it) {
  if (own.lag === null) return null;
  if (own.lag === it.lag) return it.lag_bytes;
  if (it.lag && it.lag_bytes !== null) return (it.lag_bytes * own.lag) / it.lag;
  return it.records ? (it.bytes * own.lag) / it.records : null;
}

/** Its figures: those that live moments have follow them. */
function figures(it) {
  const now = (say, alsoSay = () => "") => {
    const main = el("span", {}, "");
    const beside = el("span", { class: "beside" }, "");
    return follow(el("span", {}, main, " ", beside), (moment) => {
      const found = moment.sources?.find((other) => other.alias === it.alias) ?? it;
      setText(main, say(found));
      setText(beside, alsoSay(found));
    });
  };
  /** In bytes as well, where that is known. */
  const inBytes = (value, per = "") => (value === null ? "" : bytes(value) + per);
  return [
    [
      "records/s",
      now(
        (own) => count(own.records_per_second),
        (own) => inBytes(own.bytes_per_second, "/s"),
      ),
    ],
    [
      "lag",
      now(
        (own) => count(own.lag),
        (own) => inBytes(lagBytes(own, it)),
      ),
    ],
    ["behind", now(behind)],
    ["copy latency p50 / p95 / p99", now((own) => percentiles(own.latency.flight_ms)), "wide"],
    ["age at the hub p50 / p95 / p99", now(age), "wide"],
    ["records since the start", count(it.records)],
    ["lost in gaps", count(it.lost)],
  ];
}

function topicsOf(topics) {
  return table(
    "Topics, counts since the start",
    [
      ["topic", (t) => t.topic],
      ["at the hub", (t) => topicLink(t.hub_topic)],
      ["partitions", (t) => count(t.partitions), true],
      ["states", (t) => states(t.states)],
      ["records", (t) => count(t.records), true],
      ["bytes", (t) => bytes(t.bytes), true],
      ["lag", (t) => count(t.lag), true],
      ["lag in bytes", (t) => bytes(t.lag_bytes), true],
      ["behind", (t) => seconds(t.seconds_behind), true],
      ["why not read", (t) => t.reasons.slice(0, 3).join("; ") || "-"],
    ],
    topics,
  );
}

function partitions(rows) {
  return table(
    "Each partition",
    [
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
    ],
    rows,
  );
}

const SPANS = [
  ["600", "10 minutes"],
  ["3600", "an hour"],
  ["21600", "6 hours"],
  ["86400", "a day"],
  ["604800", "a week"],
  ["", "to the beginning of its logs"],
];

/** Back to where it was: what that comes to is shown before, and the source has to be paused for it. */
function rewind(now, redraw) {
  const { alias, state: its } = now.source;
  const topics = [["", "all topics"], ...now.topics.map((t) => [t.topic, t.topic])];
  const wanted_from = () =>
    fill(
      `Rewind ${alias}`,
      "Positions go back, and what the hub lacks from there on is written once more. What it holds is not written twice.",
      [
        ["topic", "Topic", "", "", topics],
        ["by", "How far back", "", "3600", SPANS],
      ],
      "Show what would be done",
      ({ topic, by }) => {
        const wanted = {
          rewind: true,
          source: alias,
          ...(topic ? { topic } : {}),
          ...(by ? { by_seconds: Number(by) } : { to: "earliest" }),
        };
        preview(
          `Rewind ${alias}?`,
          async () => {
            const reply = await ask("/api/positions", "POST", { ...wanted, dry_run: true });
            return [
              its === "PAUSED"
                ? null
                : el(
                    "p",
                    { class: "warn" },
                    "The source has to be paused before this can be done.",
                  ),
              ...reply.notes.map((note) => el("p", { class: "warn" }, note)),
              el(
                "p",
                {},
                reply.tail
                  ? `${count(reply.tail)} offsets of the hub are read before it continues.`
                  : "",
              ),
              table(
                "What would be done",
                [
                  ["topic", (m) => m.topic],
                  ["partition", (m) => m.partition, true],
                  ["now", (m) => count(m.position), true],
                  ["new", (m) => count(m.new), true],
                  ["difference", (m) => count(m.difference), true],
                  ["what will happen", (m) => m.what, "text"],
                ],
                reply.moves,
              ),
            ];
          },
          "Rewind",
          () => ask("/api/positions", "POST", { ...wanted, dry_run: false }),
          redraw,
        );
      },
    );
  return el("button", { type: "button", on: { click: wanted_from } }, "Rewind");
}
