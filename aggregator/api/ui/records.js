// Records of a topic, at the hub or at a source: the newest, or from an offset or a time on.

import { ask, heard } from "./api.js";
import { el, moment, table, trail } from "./dom.js";
import { bytes, readAs, some, written } from "./format.js";
import { waiting } from "./loading.js";

const MOST = 20;

/** What is looked for, by topic: it stays while other pages are visited. */
const wishes = new Map();
/** What was found for it, and which records are compared with their source. */
let found = { topic: null, look: null, error: null, at: "" };
let compared = new Map();
/** How often was asked: the answer to an older question is not shown below a newer one. */
let finds = 0;

const wishOf = (topic) =>
  wishes.get(topic) ?? { source: "", partition: "", from: "newest", place: "", only: "" };

export async function records(topic, redraw) {
  const [now, it] = await Promise.all([
    ask("/api/overview"),
    ask(`/api/hub/topics/${encodeURIComponent(topic)}`),
  ]);
  const wish = wishOf(topic);
  if (found.topic !== topic) {
    compared = new Map();
    found = { topic, look: null, error: null, at: "" };
    await find(topic, it, wish);
  }
  const { look, error, at } = found;
  return {
    at: now,
    parts: [
      trail([
        ["Topics", "#/topics"],
        [topic, `#/topic/${encodeURIComponent(topic)}`],
      ]),
      el("h1", {}, `Records of ${topic}`),
      form(topic, it, wish, redraw),
      error ? el("p", { class: "bad", role: "alert" }, error) : null,
      ...(look?.notes ?? []).map((note) => el("p", { class: "warn" }, note)),
      look ? list(look, wish, at, redraw) : null,
    ],
  };
}

async function find(topic, it, wish) {
  const side = it.sources.find((each) => each.source === wish.source);
  const mine = (finds += 1);
  const query = new URLSearchParams({ records: String(MOST) });
  if (side) query.set("source", wish.source);
  if (wish.partition) query.set("partition", wish.partition);
  if (wish.from === "offset") query.set("offset", wish.place || "0");
  if (wish.from === "time") query.set("at", wish.place || "1h");
  const name = encodeURIComponent(side ? side.topic : topic);
  let answer;
  try {
    const look = await ask(`/api/topics/${name}/look?${query}`);
    const at = new Date(Date.now() + heard.ahead).toISOString();
    answer = { topic, look: look.error ? null : look, error: look.error, at };
  } catch (error) {
    answer = { topic, look: null, error: error.message, at: "" };
  }
  if (mine === finds) found = answer;
}

const FROM = [
  ["newest", "the newest"],
  ["offset", "from an offset"],
  ["time", "from a time"],
];

function form(topic, it, wish, redraw) {
  const sides = [
    ["", "the hub"],
    ...it.sources.map((each) => [each.source, each.title || each.source]),
  ];
  const count = found.look?.partitions.length ?? 0;
  const numbers = [["", "all"], ...Array.from({ length: count }, (_, at) => [`${at}`, `${at}`])];
  const send = async (event) => {
    event.preventDefault();
    const chosen = Object.fromEntries(new FormData(event.target));
    wishes.set(topic, chosen);
    compared = new Map();
    await waiting(find(topic, it, chosen));
    redraw(true);
  };
  return el(
    "form",
    { class: "panel finder", "aria-label": "What to look for", on: { submit: send } },
    choice("source", "Where", sides, wish.source),
    choice("partition", "Partition", numbers, wish.partition),
    choice("from", "Which", FROM, wish.from),
    field("place", "Offset, or time (1h, 2026-01-31T12:00Z)", wish.place, { change: readFrom }),
    field("only", `Of ${MOST} records only where key or a header contains`, wish.only),
    el("button", { class: "main" }, "Show"),
  );
}

/** Who writes an offset or a time wants what is from there on: the newest are not meant. */
function readFrom({ target }) {
  const { from } = target.form.elements;
  const place = target.value.trim();
  if (place && from.value === "newest") from.value = /^\d+$/.test(place) ? "offset" : "time";
}

function choice(name, label, options, value) {
  const id = `find-${name}`;
  const made = options.map(([of, text]) =>
    el("option", { value: of, selected: of === value }, text),
  );
  return el("div", {}, el("label", { for: id }, label), el("select", { id, name }, made));
}

function field(name, label, value, on = {}) {
  const id = `find-${name}`;
  const input = el("input", { id, name, value, autocomplete: "off", on });
  return el("div", {}, el("label", { for: id }, label), input);
}

function list(look, wish, at, redraw) {
  const shown = look.records.filter((it) => contains(it, wish.only));
  const read = look.records.length;
  if (!shown.length) {
    const none = read
      ? `None of the ${read} records that were read there contains it; only these were searched.`
      : "No record was found there.";
    return el("p", { class: "soft" }, none);
  }
  const side = look.source === null ? "at the hub" : `at ${look.source}`;
  const all = `${some(read, "record")} ${side}`;
  const words = shown.length < read ? `${shown.length} of ${all}` : all;
  return el(
    "section",
    { "aria-label": words },
    // It stays while other pages are visited, so it may be old.
    el("p", { class: "soft" }, words, ", as of ", moment(at), " UTC"),
    shown.map((it) => card(it, redraw)),
  );
}

function contains(record, only) {
  if (!only) return true;
  const texts = [record.key, ...record.headers.flatMap((it) => [it.name, it.value])];
  return texts.some((it) => it?.includes(only));
}

function card(record, redraw) {
  const name = `partition ${record.partition}, offset ${record.offset}`;
  const origin = record.origin === null ? null : placeOf(record.origin);
  const other = compared.get(record.origin);
  return el(
    "article",
    { class: "panel record", "aria-label": name },
    el(
      "p",
      { class: "record-head" },
      el("strong", {}, name),
      el("span", {}, written(record.timestamp_ms, exactly)),
      el("span", { class: "soft" }, `${readAs(record)}, ${bytes(record.value_bytes)}`),
      origin && !other
        ? el(
            "button",
            {
              type: "button",
              "aria-label": `Compare with ${record.origin}`,
              on: { click: () => compare(record, origin, redraw) },
            },
            `Compare with ${record.origin}`,
          )
        : null,
    ),
    record.problem ? el("p", { class: "warn" }, record.problem) : null,
    other ? sideBySide(record, other) : one(record),
  );
}

/** Cluster, topic, partition and offset of an origin such as eu/orders-5@1204. */
function placeOf(origin) {
  const [, source, topic, partition, offset] = /^([^/]*)\/(.+)-(\d+)@(\d+)$/.exec(origin) ?? [];
  return source === undefined ? null : { source, topic, partition, offset };
}

async function compare(record, { source, topic, partition, offset }, redraw) {
  const asked = new URLSearchParams({ source, partition, offset, records: "1" });
  try {
    const look = await waiting(ask(`/api/topics/${encodeURIComponent(topic)}/look?${asked}`));
    const same = look.records.find((it) => String(it.offset) === offset);
    const none = look.error || "The source does not hold it any more.";
    compared.set(record.origin, same ? { record: same } : { none });
  } catch (error) {
    compared.set(record.origin, { none: error.message });
  }
  redraw(true);
}

const FIELDS = [
  ["key", (it) => it.key ?? "null"],
  ["value", (it) => pretty(it.value)],
  ["timestamp", (it) => written(it.timestamp_ms, exactly)],
];

const headerOf = (record, name) => record.headers.find((it) => it.name === name);

function one(record) {
  return el(
    "dl",
    { class: "fields" },
    [...FIELDS.filter(([name]) => name !== "timestamp"), ["headers", headers]].map(([name, of]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, bounded(name, of(record)))),
    ),
  );
}

const MUCH = 500;

/** What is long scrolls in a place of its own, so that the next record is in sight. */
function bounded(name, text) {
  if (text.length <= MUCH) return text;
  return el(
    "div",
    { class: "much", tabindex: "0", role: "region", "aria-label": `The whole ${name}` },
    text,
  );
}

function sideBySide(record, { record: other, none }) {
  if (none) return [el("p", { class: "warn" }, none), one(record)];
  const names = new Set([...other.headers, ...record.headers].map((it) => it.name));
  const rows = [
    ...FIELDS,
    ...[...names].map((name) => [`header ${name}`, (it) => headerOf(it, name)?.value ?? "none"]),
  ];
  return table(
    `At the hub, and at its source: ${record.origin}`,
    [
      ["field", ([name]) => name],
      ["at the hub", ([, of]) => of(record), "text"],
      ["at the source", ([, of]) => of(other), "text"],
      ["same", ([name, of]) => verdict(name, isSame(record, other, name, of))],
    ],
    rows,
  );
}

/** Of values the text as it was read counts, not how it is shown. */
const isSame = (record, other, name, of) =>
  name === "value" ? record.value === other.value : of(record) === of(other);

/** The headers of the origin are the hub's own. */
function verdict(name, same) {
  if (same) return el("span", { class: "good" }, "✓ same");
  if (name.startsWith("header origin.")) return el("span", { class: "soft" }, "added at the hub");
  return el("span", { class: "bad" }, "✗ different");
}

const headers = (record) =>
  record.headers.map((it) => `${it.name}: ${it.value ?? "null"}`).join("\n") || "none";

/** Numbers that JavaScript may not hold exactly: what has one is shown as it is. */
const LONG = /[\d.]{16,}|\d[eE]/;

/** JSON with a line for each field; all else as it is. */
function pretty(value) {
  if (value === null) return "null";
  if (!/^\s*[[{]/.test(value) || LONG.test(value)) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

/** To the millisecond. */
const exactly = (text) => `${text.slice(0, 23).replace("T", " ")} UTC`;
