// Builds elements out of values. Text is always set as text: nothing of a cluster becomes markup.

import { follow } from "./live.js";

const SVG = "http://www.w3.org/2000/svg";

export const el = (name, attributes, ...children) =>
  built(document.createElement(name), attributes, children);

/** The same for what is drawn. */
export const svg = (name, attributes, ...children) =>
  built(document.createElementNS(SVG, name), attributes, children);

function built(made, attributes = {}, children = []) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") {
      for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    } else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false)
      made.setAttribute(key, value);
  }
  const known = children.flat().filter((it) => it !== null && it !== undefined);
  made.append(...known.map((it) => (it instanceof Node ? it : String(it))));
  return made;
}

const CONTROLS = "a, button, summary, [role=region], [type=search]";

/** What an element is called for those who cannot see it. */
export const named = (it) => it?.getAttribute("aria-label") ?? it?.textContent;

/** Focuses what has this name, also after the page was drawn again. */
export function focusNamed(name) {
  const again = [...document.querySelectorAll(CONTROLS)].find((it) => named(it) === name);
  again?.focus({ preventScroll: true });
}

/**
 * A table; a column is [title, cell of a row, true for numbers or "text" for what is long].
 * On a narrow screen each row is a card, so the roles are named and each cell has its title.
 */
export function table(caption, columns, rows) {
  const kind = (it) => (it === true ? "number" : it || null);
  const titles = columns.map(([title, , of]) =>
    el("th", { scope: "col", role: "columnheader", class: kind(of) }, title),
  );
  const cell =
    (row) =>
    ([title, make, of]) =>
      el("td", { role: "cell", class: kind(of), "data-title": title }, make(row) ?? "-");
  const body = rows.map((row) => el("tr", { role: "row" }, columns.map(cell(row))));
  // A region that scrolls has to be reached by the keyboard as well.
  const region = el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      { role: "table" },
      el("caption", {}, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, titles)),
      el("tbody", { role: "rowgroup" }, body),
    ),
  );
  return body.length < SEARCHED ? region : el("div", {}, search(caption, body), region);
}

/** Tables with at least 20 rows can be searched; the words stay while the page is drawn again. */
const SEARCHED = 20;
const searches = new Map();

function search(caption, rows) {
  const [subject] = caption.split(/[;,]/);
  const found = el("span", { class: "soft", role: "status" });
  const input = el("input", {
    type: "search",
    "aria-label": `Search: ${subject}`,
    placeholder: "Search",
    on: {
      input: () => {
        searches.set(subject, input.value);
        show();
      },
    },
  });
  const show = () => {
    const words = input.value.trim().toLowerCase();
    let fits = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(words);
      if (!row.hidden) fits += 1;
    }
    const many = rows.length.toLocaleString("en");
    setText(found, words ? `${fits.toLocaleString("en")} of ${many}` : "");
  };
  input.value = searches.get(subject) ?? "";
  const showAgain = () => {
    if (input.value) show();
  };
  showAgain();
  // Cells that follow live moments have their words only then.
  return follow(el("p", { class: "search" }, input, found), showAgain);
}

/** Names and values side by side; a value is words or an element, and may need a "wide" place. */
export function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    pairs.map(([key, value, kind]) =>
      el("div", { class: kind }, el("dt", {}, key), el("dd", {}, value)),
    ),
  );
}

/** An id: in one piece, cut off where there is no room, and whole when pointed at. */
export const id = (text) => el("span", { class: "id", title: text }, text);

const GOOD = ["RUNNING"];
const WARN = ["CATCHING_UP", "PAUSED", "HELD", "STANDBY", "STARTING", "STOPPING", "DRAINING"];

/** What a state means: "good", "warn" or "bad". */
export const kindOf = (name) =>
  GOOD.includes(name) ? "good" : WARN.includes(name) ? "warn" : "bad";

/** What the level of an event means; null for what is only said. */
export const kindOfLevel = (level) => ({ WARN: "warn", ERROR: "bad" })[level] ?? null;

export function state(name) {
  return shown(kindOf(name), name.toLowerCase().replace("_", " "));
}

function shown(kind, word) {
  const sign = { good: "●", warn: "◐", bad: "▲" }[kind];
  return el(
    "span",
    { class: `state ${kind}` },
    el("span", { "aria-hidden": "true" }, `${sign} `),
    word,
  );
}

/** A source of which nothing is copied does not run well, whatever its state is called. */
export const matchesNothing = (source) => source.state === "RUNNING" && source.topics === 0;
export const stateOf = (source) =>
  matchesNothing(source) ? shown("warn", "no topic matches") : state(source.state);

const opened = new Set();

const isOpen = (key) => opened.has(key);

/** What is long is made when it is opened, and stays open while the page is drawn again. */
export function more(key, summary, make, redraw) {
  const made = el(
    "details",
    { open: isOpen(key) },
    el("summary", {}, summary),
    isOpen(key) ? make() : null,
  );
  made.addEventListener("toggle", () => {
    if (made.open === isOpen(key)) return;
    if (made.open) opened.add(key);
    else opened.delete(key);
    redraw();
  });
  return made;
}

/** How many partitions are in which state. */
export function states(counts) {
  return Object.entries(counts)
    .map(([name, many]) => `${many} ${name.toLowerCase()}`)
    .join(", ");
}

export function moment(text) {
  return el("time", { datetime: text }, text.slice(0, 19).replace("T", " "));
}

/** Sets the words of a node; one that has them already is left alone. */
export function setText(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

/** Where a page is: the pages above it, each [name, address], before its heading. */
export const trail = (above) =>
  el("p", { class: "trail" }, above.map(([name, href]) => [el("a", { href }, name), " › "]).flat());

export const sourceLink = (alias, title) =>
  el("a", { href: `#/source/${encodeURIComponent(alias)}` }, title || alias);
export const topicLink = (topic) =>
  el("a", { href: `#/topic/${encodeURIComponent(topic)}` }, topic);
