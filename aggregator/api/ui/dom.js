// Builds elements out of values. Text is always set as text: nothing of a cluster becomes markup.

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((it) => it !== null && it !== undefined).map((it) => (it instanceof Node ? it : String(it))));
  return made;
}

const CONTROLS = "a, button, summary";

/** What an element is called to whoever cannot see it. */
export const named = (it) => it?.getAttribute("aria-label") ?? it?.textContent;

/** Whoever stood on something of this name stands there again, though the page was drawn anew. */
export function focusNamed(name) {
  const again = [...document.querySelectorAll(CONTROLS)].find((it) => named(it) === name);
  again?.focus({ preventScroll: true });
}

/** A table; a column is [title, cell of a row, true for numbers or "text" for what is long]. */
export function table(caption, columns, rows) {
  const kind = (it) => (it === true ? "number" : it || null);
  const head = el("tr", {}, columns.map(([title, , of]) => el("th", { scope: "col", class: kind(of) }, title)));
  const body = rows.map((row) => el("tr", {}, columns.map(([, cell, of]) => el("td", { class: kind(of) }, cell(row) ?? "-"))));
  // A region that scrolls has to be reached by the keyboard as well.
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, body)));
}

const GOOD = ["RUNNING"];
const WARN = ["CATCHING_UP", "PAUSED", "HELD", "STANDBY", "STARTING", "STOPPING", "DRAINING"];

export function state(name) {
  return shown(GOOD.includes(name) ? "good" : WARN.includes(name) ? "warn" : "bad", name.toLowerCase().replace("_", " "));
}

function shown(kind, word) {
  const sign = { good: "●", warn: "◐", bad: "▲" }[kind];
  return el("span", { class: `state ${kind}` }, el("span", { "aria-hidden": "true" }, `${sign} `), word);
}

/** Of which nothing is copied does not run well, whatever its state is called. */
export const matchesNothing = (source) => source.state === "RUNNING" && source.topics === 0;
export const stateOf = (source) => (matchesNothing(source) ? shown("warn", "no topic matches") : state(source.state));

const opened = new Set();

export const isOpen = (key) => opened.has(key);

/** What is long is made when somebody opens it, and stays open while the page is drawn anew. */
export function more(key, summary, make, redraw) {
  const made = el("details", { open: isOpen(key) }, el("summary", {}, summary), isOpen(key) ? make() : null);
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
  return Object.entries(counts).map(([name, many]) => `${many} ${name.toLowerCase()}`).join(", ");
}

export function count(value) {
  return value === null || value === undefined ? "unknown" : value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
}

export function bytes(value) {
  if (value === null || value === undefined) return "unknown";
  for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  return `${Math.round(value)} B`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "unknown";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) if (value >= 1.5 * size) return `${Math.round(value / size)} ${unit}`;
  return value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}

/** Latency of live records; while a source catches up their age says nothing of us. */
export function latency(source) {
  if (source.state === "CATCHING_UP") return "catching up";
  const age = source.latency.age_ms;
  return age ? `${count(age.p50)} / ${count(age.p95)} / ${count(age.p99)} ms` : "no records";
}

export function behind(source) {
  return source.seconds_behind === null ? "unknown" : `${source.seconds_behind_at_least ? "> " : ""}${seconds(source.seconds_behind)}`;
}

export function moment(text) {
  return el("time", { datetime: text }, text.slice(0, 19).replace("T", " "));
}
