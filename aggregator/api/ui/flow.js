// The flow, drawn: sources on the left, hub topics on the right, and what runs between them.

import { el, kindOf, setText, svg } from "./dom.js";
import { count, some } from "./format.js";

const SIGNS = { good: "●", warn: "◐", bad: "▲", none: "" };
const GAP = 8;
const ROW = 46;
const FLAT = 30;
/** With more nodes than this on a side, each has one line. */
const TALL = 8;
/** More links than this do not move: sixty frames a second come first. */
const MOVING = 40;
const OTHERS = "";

/**
 * The flow as an element. `latest` has the newest answers of /api/overview and /api/flow.
 * `update(moment)` draws them again, with the rates of that moment.
 */
export function flow(latest) {
  const view = { chart: latest.chart, rows: rowsOf(latest.now), moment: null };
  const place = el("div", { class: "flow" });
  // So that nothing moves when it is drawn.
  place.style.minHeight = `${heightOf(latest.chart)}px`;
  let width = 0;
  const draw = () => {
    if (!width) return;
    place.replaceChildren(drawn(view, width));
    place.style.minHeight = "0";
  };
  new ResizeObserver(([{ contentRect }]) => {
    if (Math.abs(contentRect.width - width) < 1) return;
    width = contentRect.width;
    draw();
  }).observe(place);
  const update = (moment) => {
    Object.assign(view, { chart: latest.chart, rows: rowsOf(latest.now), moment });
    refresh(place, view);
  };
  return { node: place, update };
}

/** How high the drawing of a chart is, where it is wide enough for nodes of two lines. */
function heightOf({ sources, topics, other_sources: more, other_topics: others }) {
  const most = Math.max(sources.length + (more ? 1 : 0), topics.length + (others ? 1 : 0));
  return most * ((most > TALL ? FLAT : ROW) + GAP) - GAP;
}

const rowsOf = (now) => new Map(now.sources.map((it) => [it.alias, it]));

/** Records per second of each link, as of the newest moment where it says so. */
function rates(view) {
  const { chart, moment } = view;
  const known = new Map(chart.links.map((it) => [key(it), it.records_per_second ?? 0]));
  if (!moment?.flows) return known;
  for (const name of known.keys()) known.set(name, 0);
  for (const it of moment.flows) {
    const source = chart.sources.includes(it.source) ? it.source : null;
    const topic = chart.topics.includes(it.topic) ? it.topic : null;
    const name = key({ source, topic });
    if (known.has(name)) known.set(name, known.get(name) + it.records_per_second);
  }
  return known;
}

const key = ({ source, topic }) => JSON.stringify([source, topic]);

/** Both sides as nodes, each with its rate. */
function nodes(view, known) {
  const { chart } = view;
  const sums = { source: new Map(), topic: new Map() };
  for (const it of chart.links) {
    for (const side of ["source", "topic"]) {
      const name = it[side] ?? OTHERS;
      sums[side].set(name, (sums[side].get(name) ?? 0) + known.get(key(it)));
    }
  }
  const left = chart.sources.map((alias) => sourceNode(view, alias, sums.source.get(alias) ?? 0));
  const right = chart.topics.map((topic) => topicNode(view, topic, sums.topic.get(topic) ?? 0));
  if (chart.other_sources)
    left.push(group(`${chart.other_sources} more sources`, sums.source, "source"));
  if (chart.other_topics)
    right.push(group(`${chart.other_topics} more topics`, sums.topic, "topic"));
  return { left, right };
}

function sourceNode(view, alias, rate) {
  const row = view.rows.get(alias);
  const now = view.moment?.sources.find((it) => it.alias === alias);
  const state = now?.state ?? row?.state ?? "RUNNING";
  const isEmpty = state === "RUNNING" && row?.topics === 0;
  return {
    id: alias,
    name: row?.title || alias,
    rate,
    kind: isEmpty ? "warn" : kindOf(state),
    word: isEmpty ? "no topic matches" : state.toLowerCase().replace("_", " "),
    href: `#/source/${encodeURIComponent(alias)}`,
  };
}

function topicNode(view, topic, rate) {
  const notRead = view.chart.links
    .filter((it) => it.topic === topic)
    .reduce((sum, it) => sum + it.not_read, 0);
  return {
    id: topic,
    name: topic,
    rate,
    kind: notRead ? "warn" : "none",
    word: notRead ? `${some(notRead, "partition")} not read` : "",
    href: `#/topic/${encodeURIComponent(topic)}`,
  };
}

const group = (name, sums, side) => ({
  id: OTHERS,
  name,
  rate: sums.get(OTHERS) ?? 0,
  kind: "none",
  word: "",
  href: side === "topic" ? "#/topics" : "#/",
});

const said = (node) =>
  `${node.name}${node.word ? `, ${node.word}` : ""}, ${count(node.rate)} records per second`;

function drawn(view, width) {
  const known = rates(view);
  const { left, right } = nodes(view, known);
  const room = Math.round(Math.min(230, width * 0.36));
  const row = Math.max(left.length, right.length) > TALL || width < 420 ? FLAT : ROW;
  const tallest = Math.max(left.length, right.length) * (row + GAP) - GAP;
  const put = (side) => {
    const begin = (tallest - (side.length * (row + GAP) - GAP)) / 2;
    side.forEach((it, at) => (it.y = begin + at * (row + GAP)));
  };
  put(left);
  put(right);
  const layout = { known, left, right, row, x: room, end: width - room };
  return svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${tallest}`,
      width,
      height: tallest,
      role: "group",
      "aria-label": "The flow from the sources to the topics of the hub",
    },
    svg("g", { class: "links" }, links(view, layout)),
    left.map((it) => box(it, 0, layout, "source")),
    right.map((it) => box(it, layout.end, layout, "topic")),
  );
}

/** Each link is as wide as its share of the busiest node, which is as high as a node can be. */
function links(view, { known, left, right, row, x, end }) {
  const most = Math.max(1e-9, ...left.map((it) => it.rate), ...right.map((it) => it.rate));
  const scale = (row - 8) / most;
  const used = new Map();
  const at = (node, rate, side) => {
    const name = `${side}${node.id}`;
    const begin = used.get(name) ?? node.y + (row - node.rate * scale) / 2;
    used.set(name, begin + rate * scale);
    return begin + (rate * scale) / 2;
  };
  const sorted = ordered(view.chart.links, left, right);
  const moves = sorted.length <= MOVING;
  return sorted.map(({ link, from, to }) => {
    const rate = known.get(key(link));
    const middle = (x + end) / 2;
    const [y1, y2] = [at(from, rate, "from"), at(to, rate, "to")];
    const path = `M${x} ${y1}C${middle} ${y1} ${middle} ${y2} ${end} ${y2}`;
    const kind = from.kind === "good" && link.not_read ? "warn" : from.kind;
    const thick = Math.max(1.5, rate * scale);
    return svg(
      "g",
      {
        class: `link ${kind}${rate > 0 ? "" : " idle"}`,
        "data-from": from.id,
        "data-to": to.id,
        on: {
          click: () => {
            location.hash = to.href;
          },
        },
      },
      svg(
        "title",
        {},
        `${from.name} → ${to.name}: ${count(rate)} records/s, lag ${count(link.lag)}, ` +
          `${some(link.partitions, "partition")}, ${count(link.not_read)} not read`,
      ),
      svg("path", { class: "ribbon", d: path, "stroke-width": thick.toFixed(1) }),
      moves && rate > 0 && kind !== "bad" ? pulse(path, rate / most) : null,
    );
  });
}

/** How long a dot takes for its way, in ms: the busier a link is, the less. */
const TIMES = { slow: 4000, steady: 2500, fast: 1500 };

/** What moves along a link. Drawn again, it continues where it was. */
function pulse(path, share) {
  const pace = share > 0.5 ? "fast" : share > 0.1 ? "steady" : "slow";
  const made = svg("path", { class: `pulse ${pace}`, d: path });
  made.style.animationDelay = `-${Math.round(performance.now() % TIMES[pace])}ms`;
  return made;
}

/** Links in the order of their nodes, so that they cross as little as they can. */
function ordered(all, left, right) {
  const find = (side, id) => side.find((it) => it.id === (id ?? OTHERS));
  return all
    .map((link) => ({ link, from: find(left, link.source), to: find(right, link.topic) }))
    .filter((it) => it.from && it.to)
    .sort((one, other) => one.from.y - other.from.y || one.to.y - other.to.y);
}

function box(node, x, { x: room, row }, side) {
  const rate = `${count(node.rate)}/s`;
  const isFlat = row === FLAT;
  const sign = SIGNS[node.kind];
  const letters = Math.floor((room - 24 - (isFlat && room > 130 ? 54 : 0) - (sign ? 16 : 0)) / 7.4);
  const name =
    node.name.length > letters ? `${node.name.slice(0, Math.max(3, letters - 1))}…` : node.name;
  const light = (on) => () => {
    for (const it of document.querySelectorAll(".flow .link")) {
      const own = (side === "source" ? it.dataset.from : it.dataset.to) === node.id;
      it.classList.toggle("lit", on && own);
      it.classList.toggle("dim", on && !own);
    }
  };
  return svg(
    "a",
    {
      href: node.href,
      class: `node ${node.kind}`,
      "aria-label": said(node),
      on: {
        mouseenter: light(true),
        mouseleave: light(false),
        focus: light(true),
        blur: light(false),
      },
    },
    svg("title", {}, said(node)),
    svg("rect", { x: x + 0.5, y: node.y + 0.5, width: room - 1, height: row - 1, rx: 6 }),
    svg("rect", {
      class: "edge",
      x: side === "source" ? x + room - 4 : x,
      y: node.y,
      width: 4,
      height: row,
      rx: 2,
    }),
    svg(
      "text",
      { class: "title", x: x + 12, y: node.y + (isFlat ? 20 : 19) },
      sign ? svg("tspan", { class: "sign" }, `${sign} `) : null,
      name,
    ),
    isFlat
      ? room > 130
        ? svg("text", { class: "rate end", x: x + room - 12, y: node.y + 20 }, rate)
        : null
      : svg(
          "text",
          { class: "rate", x: x + 12, y: node.y + 36 },
          // The mean of ten seconds would say of one that is away that it still flows.
          node.kind === "bad"
            ? node.word
            : node.word && node.kind !== "good"
              ? `${node.word} · ${rate}`
              : rate,
        ),
  );
}

/**
 * Draws it again with the newest rates. Where someone points at it, or is in it by keyboard,
 * nothing moves or is replaced: what is there has the new figures.
 */
function refresh(place, view) {
  const old = place.firstElementChild;
  if (!old) return;
  const made = drawn(view, place.clientWidth);
  if (place.querySelector("a:hover, .link:hover, a:focus-visible")) {
    reword(old, made);
    return;
  }
  const focused = place.contains(document.activeElement)
    ? document.activeElement.getAttribute("href")
    : null;
  place.replaceChildren(made);
  if (focused === null) return;
  [...place.querySelectorAll("a")]
    .find((it) => it.getAttribute("href") === focused)
    ?.focus({ preventScroll: true });
}

const nameOf = (it) => it.getAttribute("href") ?? `${it.dataset.from} → ${it.dataset.to}`;

/** Gives each node and link of a drawing the words and the colors of the same one of another. */
function reword(old, made) {
  const others = new Map([...made.querySelectorAll(".node, .link")].map((it) => [nameOf(it), it]));
  for (const one of old.querySelectorAll(".node, .link")) {
    const other = others.get(nameOf(one));
    if (!other) continue;
    const lights = ["lit", "dim"].filter((it) => one.classList.contains(it));
    one.setAttribute("class", other.getAttribute("class"));
    one.classList.add(...lights);
    const parts = [".sign", ".rate"];
    // The name of what has the focus would be read aloud each second.
    if (one !== document.activeElement) {
      parts.push("title");
      const label = other.getAttribute("aria-label");
      if (label) one.setAttribute("aria-label", label);
    }
    for (const part of parts) {
      const [from, to] = [other.querySelector(part), one.querySelector(part)];
      if (from && to) setText(to, from.textContent);
    }
  }
}
