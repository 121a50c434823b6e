// Hub topics: what each source gives to one, how it is at both ends, and the newest records there.

import { ask, heard } from "./api.js";
import { explained, readable } from "./configs.js";
import { el, facts, moment, more, sourceLink, states, table, topicLink, trail } from "./dom.js";
import { bytes, count, readAs, seconds, written } from "./format.js";
import { heat } from "./heat.js";
import { history, learn, ofTopic } from "./history.js";

const FRESH = 10_000;
/** With many sources each is looked at less often: about one of them in this time. */
const APART = 2000;
/** With more sides than these, what is long of each is folded: a topic may have fifty sources. */
const MANY = 6;
/** What is known of a topic at a cluster, and since when: no other waits for one that hangs. */
const looks = new Map();
const AT_ONCE = 2;
/** What comes within this time is shown together. */
const TOGETHER = 250;
const waiting = [];
let busy = 0;
let due = null;

/** The newest answers about a topic: a look that arrives is no reason to ask for them again. */
let newest = { name: "", at: 0, answers: [] };
const RECENT = 4000;

/** The beginning of a long text: the JSON has the whole. */
const cut = (text) =>
  text === null ? "null" : text.length > 300 ? `${text.slice(0, 300)}…` : text;
const rate = (it) => count(it.records_per_second);
/** Up to when all that its sources acknowledged is there. */
const complete = (it) => (it.complete_up_to === null ? "unknown" : moment(it.complete_up_to));
const behind = (it) => seconds(it.seconds_behind);

export async function topics() {
  const now = await ask("/api/hub/topics");
  return {
    at: now,
    parts: [
      el("h1", {}, "Topics at the hub"),
      now.topics.length
        ? table(
            "Rates and lag over all sources of a topic",
            [
              ["topic", (it) => topicLink(it.topic)],
              [
                "sources",
                (it) =>
                  [...new Set(it.sources.map((side) => side.title || side.source))].join(", "),
              ],
              ["source partitions", (it) => count(it.partitions), true],
              ["records/s", rate, true],
              ["records", (it) => count(it.records), true],
              ["bytes", (it) => bytes(it.bytes), true],
              ["lag", (it) => count(it.lag), true],
              ["lag in bytes", (it) => bytes(it.lag_bytes), true],
              ["complete up to (UTC)", complete],
            ],
            now.topics,
          )
        : el(
            "p",
            {},
            now.phase === "STARTING" || now.phase === "STANDBY"
              ? "Nothing is copied yet: it has not begun."
              : "Nothing is copied: no source is configured, or none has a topic that matches.",
          ),
    ],
  };
}

async function answersAbout(name) {
  if (newest.name === name && Date.now() - newest.at < RECENT) return newest.answers;
  const answers = await Promise.all([
    ask("/api/overview"),
    ask(`/api/hub/topics/${encodeURIComponent(name)}`),
    ask(`/api/lag?hub_topic=${encodeURIComponent(name)}`).then(({ rows }) => rows),
  ]);
  newest = { name, at: Date.now(), answers };
  return answers;
}

export async function topic(name, redraw) {
  const place = location.hash;
  const [[now, it, parts]] = await Promise.all([answersAbout(name), learn(ofTopic(name))]);
  const sides = [
    [null, name, "the hub"],
    ...it.sources.map((side) => [side.source, side.topic, side.title || side.source]),
  ];
  const titles = new Map(it.sources.map((side) => [side.source, side.title]));
  const fresh = Math.max(FRESH, APART * sides.length);
  const found = sides.map(([source, topic, title]) => ({
    title,
    topic,
    ...look({ source, topic, fresh, place, redraw }),
  }));
  return {
    at: now,
    parts: [
      trail([["Topics", "#/topics"]]),
      el("h1", {}, name),
      el(
        "p",
        { class: "lead" },
        el("a", { href: `#/records/${encodeURIComponent(name)}` }, "Look for records"),
        " at the hub or at a source: by offset, time, key or header.",
      ),
      facts([
        ["records/s, last minute", rate(it)],
        ["records since the start", count(it.records)],
        ["bytes", bytes(it.bytes)],
        ["lag", count(it.lag)],
        ["lag in bytes", bytes(it.lag_bytes)],
        ["complete up to (UTC)", complete(it), "wide"],
      ]),
      it.held_up
        ? el("p", { class: "warn" }, `It is complete no further, because ${it.held_up}.`)
        : null,
      history(ofTopic(name), redraw),
      el("h2", {}, "Sources"),
      table(
        "What goes into it",
        [
          ["source", (side) => sourceLink(side.source, side.title)],
          ["its topic", (side) => side.topic],
          ["partitions", (side) => count(side.partitions), true],
          ["states", (side) => states(side.states)],
          ["records/s", rate, true],
          ["records", (side) => count(side.records), true],
          ["lag", (side) => count(side.lag), true],
          ["lag in bytes", (side) => bytes(side.lag_bytes), true],
          ["behind", behind, true],
        ],
        it.sources,
      ),
      parts.length ? el("h2", {}, "Partitions") : null,
      heat(parts, (row) => titles.get(row.cluster) || row.cluster),
      differences(found, redraw),
      ...found.flatMap((it) => side(it, redraw, found.length > MANY)),
    ],
  };
}

/** What is known of a side; when that is no longer `fresh`, it is asked for in its turn. */
function look(wanted) {
  const key = JSON.stringify([wanted.source, wanted.topic]);
  const known = looks.get(key) ?? { at: 0 };
  if (known.asking || Date.now() - known.at < wanted.fresh) return known;
  looks.set(key, { ...known, asking: true });
  waiting.push([key, wanted]);
  next();
  return looks.get(key);
}

/** A browser has few connections to a host: clusters that hang must not take them all. */
async function next() {
  if (busy >= AT_ONCE || !waiting.length) return;
  const [key, { source, topic, place, redraw }] = waiting.shift();
  const { facts, seen, ...known } = looks.get(key);
  if (location.hash !== place) {
    // Its page was left: it is looked at when someone comes back.
    looks.set(key, { ...known, facts, seen, asking: false });
    next();
    return;
  }
  busy += 1;
  const at = source === null ? "" : `&source=${encodeURIComponent(source)}`;
  try {
    const answer = await ask(`/api/topics/${encodeURIComponent(topic)}/look?records=5${at}`);
    // What it was like before a cluster went away stays, below the reason.
    const own = answer.error ? { facts, seen } : { facts: answer, seen: Date.now() + heard.ahead };
    looks.set(key, { ...own, error: answer.error, at: Date.now() });
  } catch (error) {
    looks.set(key, { facts, seen, error: error.message, at: Date.now() });
  }
  busy -= 1;
  next();
  if (location.hash !== place) return;
  due ??= setTimeout(() => {
    due = null;
    redraw();
  }, TOGETHER);
}

function differences(found, redraw) {
  const answered = found.filter((side) => side.facts);
  const names = [...new Set(answered.flatMap((side) => Object.keys(side.facts.configs)))].sort();
  const rows = [
    ["partitions", (side) => side.facts.partitions.length],
    ["replication factor", (side) => side.facts.replication_factor],
    ...names.map((name) => [name, (side) => readable(name, side.facts.configs[name])]),
  ].filter(([, value]) => new Set(answered.map(value)).size > 1);
  if (answered.length < 2 || !rows.length) return null;
  const words = "Where they differ";
  const all = () =>
    table(
      words,
      [
        ["config", ([name]) => name],
        ...answered.map((side) => [`at ${side.title}`, ([, value]) => value(side), "value"]),
        ["what that means", ([name]) => explained(name), "text wide"],
      ],
      rows,
    );
  const key = `differences of ${found[0].topic}`;
  return found.length > MANY ? more(key, words, all, redraw) : all();
}

function side({ title, topic, facts, seen, error }, redraw, isFolded) {
  const head = el("h2", {}, `${topic} at ${title}`);
  const away = error ? el("p", { class: "bad" }, error) : null;
  if (!facts) return [head, away ?? el("p", { class: "soft" }, "It is being asked.")];
  const many = facts.partitions.length;
  const holders = many === 1 ? "1 partition holds" : `${count(many)} partitions hold`;
  const held = facts.partitions.reduce((sum, it) => sum + it.latest - it.earliest, 0);
  const words = `The newest records at ${title}`;
  const newestOf = () => records(words, facts.records);
  return [
    head,
    away,
    more(
      `logs of ${topic} at ${title}`,
      `${holders} ${count(held)} offsets.`,
      () => ends(title, facts.partitions),
      redraw,
    ),
    el("p", { class: "soft" }, "As of ", moment(new Date(seen).toISOString()), " UTC."),
    ...facts.notes.map((note) => el("p", { class: "warn" }, note)),
    !facts.records.length
      ? el("p", { class: "soft" }, "None of its newest offsets holds a record.")
      : isFolded
        ? more(`records of ${topic} at ${title}`, words, newestOf, redraw)
        : newestOf(),
  ];
}

function records(caption, rows) {
  return table(
    caption,
    [
      ["at (UTC)", (it) => written(it.timestamp_ms, moment)],
      ["partition", (it) => it.partition, true],
      ["offset", (it) => it.offset, true],
      ["key", (it) => cut(it.key), "text"],
      ["value", (it) => (it.problem ? `${cut(it.value)}\n${it.problem}` : cut(it.value)), "text"],
      ["read as", readAs],
      ["bytes", (it) => bytes(it.value_bytes), true],
      [
        "headers",
        (it) => it.headers.map((header) => `${header.name}: ${header.value ?? "null"}`).join("\n"),
        "text",
      ],
    ],
    rows,
  );
}

/** What each log holds: from its first offset up to the next that it will give. */
function ends(title, partitions) {
  return table(
    `The logs at ${title}`,
    [
      ["partition", (it) => it.partition, true],
      ["first offset", (it) => count(it.earliest), true],
      ["log end", (it) => count(it.latest), true],
      ["offsets", (it) => count(it.latest - it.earliest), true],
    ],
    partitions,
  );
}
