// Source partitions as a map: a square each, by how far behind it is.

import { el } from "./dom.js";
import { behind, count } from "./format.js";
import { follow } from "./live.js";

/** Behind since before it was looked at, or not measured yet: it may be far more than is known. */
const isUnknown = (row) =>
  row.lag === null ||
  (row.lag > 0 &&
    (row.seconds_behind === null || (row.seconds_behind_at_least && row.seconds_behind < 3600)));

/** The steps of the map: class, words, and what belongs to it. The first that fits counts. */
const STEPS = [
  ["h-paused", "paused", (row) => row.state === "PAUSED"],
  ["h-off", "not read", (row) => row.state !== "RUNNING"],
  ["h-none", "not known how far behind", isUnknown],
  ["h0", "at the end, or less than 10 s behind", (row) => (row.seconds_behind ?? 0) < 10],
  ["h1", "up to a minute behind", (row) => row.seconds_behind < 60],
  ["h2", "up to an hour behind", (row) => row.seconds_behind < 3600],
  ["h3", "more than an hour behind", () => true],
];

const stepOf = (row) => STEPS.find(([, , fits]) => fits(row));

let newest = [];

/**
 * The map, a line for each name that `nameOf` has for rows, with a legend that counts each step; rows
 * of later calls replace it.
 */
export function heat(rows, nameOf) {
  newest = rows;
  if (!rows.length) return null;
  let drawn = null;
  const node = el("figure", { class: "heat" });
  return follow(node, () => {
    if (drawn === newest) return;
    drawn = newest;
    node.replaceChildren(...map(drawn, nameOf));
  });
}

function map(rows, nameOf) {
  const used = STEPS.map((step) => [step, rows.filter((it) => stepOf(it) === step).length]).filter(
    ([, many]) => many,
  );
  const words = used.map(([[, word], many]) => `${count(many)} ${word}`);
  return [
    el(
      "figcaption",
      {},
      used.map(([[name]], number) =>
        el("span", { class: "series" }, el("i", { class: `cell ${name}` }), ` ${words[number]}`),
      ),
    ),
    el(
      "div",
      { role: "img", "aria-label": `Partitions: ${words.join("; ")}` },
      [...grouped(rows, nameOf)].map(([name, own]) =>
        el(
          "div",
          { class: "heat-row" },
          el("span", { class: "heat-name", title: name }, name),
          el("div", { class: "cells" }, own.map(square)),
        ),
      ),
    ),
  ];
}

const square = (row) =>
  el("i", {
    class: `cell ${stepOf(row)[0]}`,
    title:
      `${row.topic}-${row.partition}: ${row.state.toLowerCase()}, lag ${count(row.lag)}, ` +
      `${behind(row)} behind${row.reason ? `; ${row.reason}` : ""}`,
  });

function grouped(rows, nameOf) {
  const found = new Map();
  for (const it of rows) {
    const name = nameOf(it);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(it);
  }
  return found;
}
