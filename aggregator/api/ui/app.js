// Which page is shown, and that it stays fresh; says when data is old or there is no answer.

import { config } from "./config.js";
import { Away, Refused, hasToken, heard, keepToken } from "./api.js";
import { askToken } from "./dialog.js";
import { el, focusNamed, named, setText, state } from "./dom.js";
import { seconds } from "./format.js";
import { incidents } from "./incidents.js";
import * as live from "./live.js";
import { waiting } from "./loading.js";
import { overview } from "./overview.js";
import { forgetPlots } from "./plot.js";
import { records } from "./records.js";
import { source } from "./source.js";
import { timeline } from "./timeline.js";
import { topic, topics } from "./topic.js";

const OLD = 10;
/** How often a page is asked for at least, in ms, while no live moments come. */
const UNHEARD = 5000;
/** In these phases an instance says something new only when that changes. */
const NOT_BEGUN = ["STANDBY", "STARTING"];
const main = document.getElementById("main");
const age = document.getElementById("age");
const dialog = document.getElementById("dialog");
/** Each page, and how often it is asked for, in ms. */
const PAGES = {
  "": [overview, 2000],
  topics: [topics, 5000],
  topic: [topic, 10_000],
  incidents: [incidents, 10_000],
  events: [timeline, 5000],
  config: [config, 60_000],
  records: [records, 60_000],
  source: [source, 5000],
};
let timer;
let newest;

/** The parts of the page that is shown, and the words that each was made with. */
let shown = [];

/** How often a page was begun: what of an older one arrives later is not shown. */
let begun = 0;

/** What the next page is that is shown: of another address, or made again as a whole. */
let isArrival = false;
let isWhole = false;

/** Draws the page again; what has the same words as before is replaced only by a `whole` one. */
function redraw(whole) {
  if (whole === true) isWhole = true;
  return draw();
}

/** A page in the background asks for nothing. */
function poll() {
  if (!document.hidden) draw();
}

async function draw(arrived) {
  clearTimeout(timer);
  if (arrived === true) isArrival = true;
  const mine = (begun += 1);
  const [page, argument] = place();
  const [make, every] = Object.hasOwn(PAGES, page) ? PAGES[page] : [nowhere, 60_000];
  try {
    const asked = make(argument, redraw);
    // What only stays fresh needs no sign.
    const { at, parts } = await (isArrival || isWhole ? waiting(asked) : asked);
    if (mine !== begun) return;
    if (at) show(at);
    put(
      parts.filter((it) => it),
      isArrival || isWhole,
    );
    isWhole = false;
    live.settle();
    if (at) live.start();
  } catch (error) {
    if (mine !== begun) return;
    if (error instanceof Refused && error.status === 401) return askWho();
    failed(error);
  }
  mark(page);
  if (isArrival) arrive();
  // Where no moment comes by the stream, only an answer shows that the data is fresh.
  timer = setTimeout(poll, live.isLive() ? every : Math.min(every, UNHEARD));
  return undefined;
}

/** At another page one is at its top; where one comes back to, the browser knows the place. */
function arrive() {
  isArrival = false;
  main.focus({ preventScroll: true });
  if (history.state !== null) return;
  window.scrollTo(0, 0);
  history.replaceState("seen", "");
}

/** The name and the phase in the header, as of the newest answer. */
function show(at) {
  newest = at;
  document.getElementById("name").textContent = at.name;
  document.getElementById("phase").replaceChildren(state(at.phase));
}

function askWho() {
  const why = hasToken()
    ? "The token that this tab has is not known to this aggregator."
    : "This aggregator asks for a token.";
  const enter = () =>
    askToken(`${hasToken() ? `${why} Another one` : "It"} is kept in this tab only.`, (token) => {
      keepToken(token);
      draw(true);
    });
  put([
    el("h1", {}, "Not allowed"),
    el("p", {}, why),
    el("p", {}, el("button", { type: "button", on: { click: enter } }, "Enter a token")),
  ]);
  if (!dialog.open) enter();
}

const TITLES = { 404: "There is no such page", 503: "It is still starting, or busy" };

function failed(error) {
  if (error instanceof Refused) {
    const other = error.status < 500 ? "That was refused" : "It has failed";
    put([el("h1", {}, TITLES[error.status] ?? other), el("p", {}, error.message)]);
  } else if (!(error instanceof Away)) {
    console.error(error);
    put([el("h1", {}, "This page has failed"), el("p", {}, `${error}. Load it again.`)]);
  } else if (!newest || isArrival) {
    // What was shown stays, with its age; but not below another address.
    put([
      el("h1", {}, "No answer"),
      el("p", {}, "The aggregator does not run, or cannot be reached. It is tried again."),
      el("p", { class: "soft" }, error.message),
    ]);
  }
}

/** For an address that leads nowhere. */
async function nowhere() {
  return {
    at: null,
    parts: [
      el("h1", {}, "There is no such page"),
      el(
        "p",
        {},
        "Nothing is at ",
        el("code", {}, location.hash),
        ". ",
        el("a", { href: "#/" }, "To the overview"),
      ),
    ],
  };
}

function mark(page) {
  document.title = `${main.querySelector("h1")?.textContent ?? "aggregator"} · ${newest?.name ?? ""}`;
  const own = { source: "", topic: "topics", records: "topics" }[page] ?? page;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${own}`) link.setAttribute("aria-current", own === page ? "page" : "true");
    else link.removeAttribute("aria-current");
  }
}

function place() {
  const parts = location.hash.replace(/^#\/?/, "").split("/");
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return ["?"];
  }
}

/** Tables that may be scrolled sideways, in a part of a page. */
const regions = (part) =>
  [part, ...part.querySelectorAll(".scroll")].filter((it) => it.matches(".scroll"));

/** Replaces a part; its tables stay where they were scrolled to. */
function replace(old, part) {
  const places = new Map(regions(old).map((it) => [named(it), it.scrollLeft]));
  old.replaceWith(part);
  for (const it of regions(part)) {
    const left = places.get(named(it));
    if (left) it.scrollLeft = left;
  }
}

/** Shows these parts. One with the same words as before stays: someone may be reading it. */
function put(parts, isOther = true) {
  const held = main.contains(document.activeElement) ? document.activeElement : null;
  const focused = held && named(held);
  const { scrollX, scrollY } = window;
  const said = parts.map((it) => it.textContent);
  if (isOther || shown.length !== parts.length) {
    main.replaceChildren(...parts);
    shown = parts.map((node, at) => ({ node, said: said[at] }));
  } else {
    for (const [at, node] of parts.entries()) {
      if (shown[at].said === said[at]) continue;
      replace(shown[at].node, node);
      shown[at] = { node, said: said[at] };
    }
  }
  forgetPlots();
  if (held && !main.contains(document.activeElement)) {
    if (focused) focusNamed(focused);
    // What had it may be gone: then the keyboard continues in the page, not before all of it.
    if (!main.contains(document.activeElement)) main.focus({ preventScroll: true });
  }
  if (window.scrollX !== scrollX || window.scrollY !== scrollY) window.scrollTo(scrollX, scrollY);
}

/** Of when the data is, by this clock, in ms. */
function dataAt() {
  if (NOT_BEGUN.includes(newest.phase)) return heard.at;
  const at = Math.max(Date.parse(newest.at), Date.parse(live.newest()?.at ?? newest.at));
  return at - heard.ahead;
}

setInterval(() => {
  if (!newest) return;
  const old = (Date.now() - dataAt()) / 1000;
  // In steps: each change of it is read aloud.
  const stepped = old - (old % (old < 60 ? 10 : 60));
  // One that answers and has nothing new hangs, which is another matter.
  const why = Date.now() - heard.at < OLD * 1000 ? "no new data" : "no answer";
  const fresh = live.isLive() ? "live" : "up to date";
  setText(age, old < OLD ? fresh : `data is ${seconds(stepped)} old: ${why}`);
  age.className = old >= OLD ? "old" : fresh === "live" ? "live" : "";
}, 500);
// Its address would be another page: what is behind # is ours.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
// Plots are drawn in the colors of their time.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  shown = [];
  draw();
});
document.addEventListener("visibilitychange", poll);
window.addEventListener("hashchange", () => draw(true));
draw(true);
