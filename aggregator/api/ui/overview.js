// The overview: what needs a person, what flows, how much and how fast, and each source in a row.

import { ask } from "./api.js";
import { el, facts, id, setText, sourceLink, stateOf, table } from "./dom.js";
import { flow } from "./flow.js";
import { age, ago, behind, bytes, count, percentiles, seconds } from "./format.js";
import { follow, history, offer } from "./live.js";
import { spark } from "./spark.js";
import { strip } from "./strip.js";

/** How far hub records are in Delta. */
function landing(tee) {
  const behind = tee.seconds_behind ? `, ${seconds(tee.seconds_behind)} behind` : "";
  return `${tee.state.toLowerCase()}, ${count(tee.records)} records${behind}`;
}

/** What the last audit found, and when. */
function verdict(audit) {
  if (!audit?.at) return "none yet";
  const good = audit.not_judged ? `well, ${count(audit.not_judged)} not judged` : "all is well";
  const found = audit.wrong ? "wrong" : audit.not_compared ? "partly" : good;
  return el(
    "span",
    { class: audit.wrong ? "bad" : null },
    `${found}, `,
    ticking((now, at) => ago(now.audit?.at ?? audit.at, at)),
  );
}

/** The newest answers: what follows them is not made again for each. */
const latest = { now: null, chart: null };

/** Words that change with time, and so are no reason to draw the page again. */
function ticking(say) {
  const node = el("span", {});
  return follow(node, (moment) => {
    const said = say(latest.now, moment.at > latest.now.at ? moment.at : latest.now.at);
    setText(node, said);
  });
}

const checked = (now, at) => (now.checkpoint_at ? ago(now.checkpoint_at, at) : "none yet");
const running = (now, at) => seconds((Date.parse(at) - Date.parse(now.started_at)) / 1000);

/** What the overview itself says of now: shown while no live moment has come. */
function momentOf(now) {
  const sum = (name) =>
    now.sources.reduce((all, it) => (it[name] === null ? all : (all ?? 0) + it[name]), null);
  const known = now.sources.map((it) => it.seconds_behind).filter((it) => it !== null);
  const total = {
    records_per_second: sum("records_per_second"),
    bytes_per_second: sum("bytes_per_second"),
    lag: sum("lag"),
    seconds_behind: known.length ? Math.max(...known) : null,
    seconds_behind_at_least: now.sources.some((it) => it.seconds_behind_at_least),
    // Of all together only live moments have it.
    latency: {},
  };
  return { at: now.at, rate_seconds: 60, total, sources: now.sources, flows: null };
}

/** What is said where no source is shown, by the phase. */
const EMPTY = {
  FAILED: ["It has failed.", "The reason is above. Its sources appear when it has started again."],
  STARTING: ["It is starting.", "Its sources appear as soon as they are found."],
  STANDBY: [
    "Another instance writes.",
    "This one takes over when that one has ended. Its sources appear then.",
  ],
};

function nothing(phase) {
  if (phase in EMPTY) {
    const [what, more] = EMPTY[phase];
    return el("div", { class: "empty" }, el("p", { class: "large" }, what), el("p", {}, more));
  }
  return el(
    "div",
    { class: "empty" },
    el("p", { class: "large" }, "No source is configured yet."),
    el(
      "p",
      {},
      "Add one with ",
      el("code", {}, "aggregator sources add"),
      " or ",
      el("code", {}, "POST /connectors"),
      ": its topics appear here as soon as they are found.",
    ),
  );
}

export async function overview() {
  const [now, chart] = await Promise.all([ask("/api/overview"), ask("/api/flow")]);
  Object.assign(latest, { now, chart });
  const all = now.sources;
  const parts = [el("h1", {}, `Sources of ${now.name}`), needs(now)];
  if (!all.length) {
    parts.push(nothing(now.phase));
    return { at: now, parts };
  }
  offer(momentOf(now));
  const drawing = chart.links.length ? flow(latest) : null;
  if (drawing) follow(drawing.node, drawing.update);
  parts.push(
    strip(),
    el(
      "section",
      { class: "panel", "aria-labelledby": "flow-title" },
      el(
        "div",
        { class: "ends" },
        el("h2", { id: "flow-title" }, "Sources"),
        el("p", { class: "soft" }, "records per second"),
        el("h2", {}, "Topics of the hub"),
      ),
      drawing ? drawing.node : el("p", { class: "soft" }, "No topic is copied yet."),
    ),
    sources(now),
    el("h2", {}, "Hub"),
    facts([
      ["cluster", now.hub_cluster_id ? id(now.hub_cluster_id) : "unknown"],
      ["lanes", count(now.lanes)],
      ["last checkpoint", ticking(checked)],
      ["open gaps", count(now.gaps.open)],
      ["last audit", verdict(now.audit)],
      ...(now.tee ? [["Delta", ticking((it) => landing(it.tee ?? now.tee))]] : []),
      ["runs for", ticking(running)],
      ["version", now.version],
    ]),
  );
  return { at: now, parts };
}

/** What needs a person, first; or that nothing does. */
function needs(now) {
  if (!now.attention.length) {
    return now.sources.length
      ? el(
          "p",
          { class: "calm" },
          el("span", { "aria-hidden": "true" }, "✓ "),
          "Nothing needs a person.",
        )
      : null;
  }
  const titles = new Map(now.sources.map((it) => [it.alias, it.title]));
  return el(
    "section",
    { "aria-labelledby": "needs" },
    el("h2", { id: "needs" }, "Needs a person"),
    el(
      "ul",
      { class: "attention" },
      now.attention.map((it) =>
        el(
          "li",
          { class: it.level },
          el("span", { class: "sign", "aria-hidden": "true" }, it.level === "error" ? "▲" : "◐"),
          el(
            "span",
            {},
            it.source ? [sourceLink(it.source, titles.get(it.source)), " "] : [],
            it.what,
          ),
        ),
      ),
    ),
  );
}

/**
 * A cell that follows its source: `say` gives its words, or an element. It has room for a number of
 * letters, because a column that only fits its words is wider at one moment than at the next.
 */
function live(alias, say, letters) {
  const node = el("span", { class: "live-cell" });
  node.style.minWidth = `${letters}ch`;
  return follow(node, (moment) => {
    const found = moment.sources.find((it) => it.alias === alias);
    const said = found ? say(found) : "unknown";
    if (said instanceof Node) {
      if (node.textContent !== said.textContent) node.replaceChildren(said);
    } else setText(node, said);
  });
}

function sources(now) {
  const titled = (source) => (it) => stateOf({ state: it.state, topics: source.topics });
  return table(
    "Sources; rates of the last 10 s, latencies and ages (p50 / p95 / p99) of the last minute",
    [
      ["source", (it) => sourceLink(it.alias, it.title)],
      ["state", (it) => live(it.alias, titled(it), 14)],
      ["records/s", (it) => rate(it.alias), true],
      ["bytes/s", (it) => live(it.alias, (own) => bytes(own.bytes_per_second), 8), true],
      ["lag", (it) => live(it.alias, (own) => count(own.lag), 7), true],
      ["behind", (it) => live(it.alias, behind, 8), true],
      [
        "copy latency",
        (it) => live(it.alias, (own) => percentiles(own.latency.flight_ms), 15),
        true,
      ],
      ["age at the hub", (it) => live(it.alias, age, 17), true],
      ["topics", (it) => count(it.topics), true],
      ["issues", issues],
    ],
    now.sources,
  );
}

function issues(source) {
  const found = [
    [source.gaps, source.gaps === 1 ? "gap ever" : "gaps ever"],
    [source.quarantined, "quarantined since the start"],
  ].filter(([many]) => many);
  if (!found.length) return el("span", { class: "soft" }, "none");
  return el(
    "span",
    { class: "warn" },
    found.map(([many, what]) => `${count(many)} ${what}`).join(", "),
  );
}

/** A rate beside its last fifteen minutes. */
function rate(alias) {
  const line = spark();
  const word = el("span", {});
  let kept = null;
  let begun = 0;
  return follow(el("span", { class: "with-spark" }, line.node, word), (moment) => {
    const found = moment.sources.find((it) => it.alias === alias);
    const said = count(found?.records_per_second);
    setText(word, said);
    const of = history()?.sparks[alias];
    if (of && kept?.of !== of) kept = { of, values: [...of] };
    if (!kept) return;
    // A point is of fifteen seconds: the newest one follows now.
    const number = Math.floor(Date.parse(moment.at) / 15_000);
    if (begun && number > begun) kept.values = [...kept.values.slice(1), null];
    begun = number;
    kept.values[kept.values.length - 1] = found?.records_per_second ?? null;
    line.update(kept.values);
  });
}
