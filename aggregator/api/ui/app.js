// Which page is shown, and that it stays fresh; says when data is old or there is no answer.

import { config } from "./config.js";
import { Refused, heard, keepToken } from "./api.js";
import { askToken } from "./dialog.js";
import { el, focusNamed, named, setText, state } from "./dom.js";
import { seconds } from "./format.js";
import { incidents } from "./incidents.js";
import * as live from "./live.js";
import { overview } from "./overview.js";
import { forgetPlots } from "./plot.js";
import { records } from "./records.js";
import { source } from "./source.js";
import { timeline } from "./timeline.js";
import { topic, topics } from "./topic.js";

const OLD = 10;
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

async function draw(arrived) {
  clearTimeout(timer);
  const mine = (begun += 1);
  const [page, argument] = place();
  const [make, every] = PAGES[page] ?? [nowhere, 60_000];
  try {
    const { at, parts } = await make(argument, draw);
    if (mine !== begun) return;
    if (at) show(at);
    put(
      parts.filter((it) => it),
      arrived === true,
    );
    live.settle();
    if (at) live.start();
  } catch (error) {
    if (mine !== begun) return;
    if (error instanceof Refused && error.status === 401) return askWho();
    failed(error, arrived);
  }
  mark(page);
  if (arrived === true) main.focus({ preventScroll: true });
  timer = setTimeout(draw, every);
  return undefined;
}

/** The name and the phase in the header, as of the newest answer. */
function show(at) {
  newest = at;
  document.getElementById("name").textContent = at.name;
  document.getElementById("phase").replaceChildren(state(at.phase));
}

function askWho() {
  put([el("h1", {}, "Not allowed"), el("p", {}, "This aggregator asks for a token.")]);
  if (!dialog.open) {
    askToken("It is kept in this tab only.", (token) => {
      keepToken(token);
      draw(true);
    });
  }
}

function failed(error, arrived) {
  const isAway =
    ["TimeoutError", "NetworkError"].includes(error.name) || error instanceof TypeError;
  if (!isAway && !(error instanceof Refused)) console.error(error);
  if (error instanceof Refused) {
    const titles = { 404: "There is no such page", 503: "It is still starting, or busy" };
    put([el("h1", {}, titles[error.status] ?? "That was refused"), el("p", {}, error.message)]);
  } else if (!newest || arrived === true) {
    // What was shown stays, with its age; but not below another address.
    put([
      el("h1", {}, "No answer"),
      el("p", {}, "The aggregator does not run, or cannot be reached. It is tried again."),
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

/** Shows these parts. One with the same words as before stays: someone may be reading it. */
function put(parts, isOther = true) {
  const focused = main.contains(document.activeElement) ? named(document.activeElement) : null;
  const { scrollX, scrollY } = window;
  const said = parts.map((it) => it.textContent);
  if (isOther || shown.length !== parts.length) {
    main.replaceChildren(...parts);
    shown = parts.map((node, at) => ({ node, said: said[at] }));
  } else {
    for (const [at, node] of parts.entries()) {
      if (shown[at].said === said[at]) continue;
      shown[at].node.replaceWith(node);
      shown[at] = { node, said: said[at] };
    }
  }
  forgetPlots();
  if (focused && !main.contains(document.activeElement)) focusNamed(focused);
  if (window.scrollX !== scrollX || window.scrollY !== scrollY) window.scrollTo(scrollX, scrollY);
}

setInterval(() => {
  if (!newest) return;
  const at = Math.max(Date.parse(newest.at), Date.parse(live.newest()?.at ?? newest.at));
  const old = (Date.now() + heard.ahead - at) / 1000;
  // One that answers and has nothing new hangs, which is another matter.
  const why = Date.now() - heard.at < OLD * 1000 ? "no new data" : "no answer";
  const fresh = live.isLive() ? "live" : "up to date";
  setText(age, old < OLD ? fresh : `data is ${seconds(old)} old: ${why}`);
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
window.addEventListener("hashchange", () => draw(true));
draw(true);
