// Which page is shown, and that it stays fresh; says so when the data is old or there is no answer.

import { Refused, heard, keepToken } from "./api.js";
import { askToken } from "./dialog.js";
import { el, focusNamed, named, seconds, state } from "./dom.js";
import { incidents } from "./incidents.js";
import { config, events } from "./lists.js";
import { overview } from "./overview.js";
import { forgetPlots } from "./plot.js";
import { source } from "./source.js";
import { topic, topics } from "./topic.js";

const EVERY = 2000;
const OLD = 10;
const main = document.getElementById("main");
const age = document.getElementById("age");
const dialog = document.getElementById("dialog");
const PAGES = {
  "": [overview, EVERY],
  topics: [topics, 5000],
  topic: [topic, 10_000],
  incidents: [incidents, 10_000],
  events: [events, 5000],
  config: [config, 60_000],
  source: [source, 5000],
};
let timer;
let newest;
let drawn = "";

/** How often a page was begun: what of an older one arrives later is not shown. */
let begun = 0;

async function draw(arrived) {
  clearTimeout(timer);
  const mine = (begun += 1);
  const [page, argument] = place();
  const [make, every] = PAGES[page] ?? PAGES[""];
  try {
    const { at, parts } = await make(argument, draw);
    if (mine !== begun) return;
    newest = at;
    document.getElementById("name").textContent = at.name;
    document.getElementById("phase").replaceChildren(state(at.phase));
    const said = JSON.stringify(parts.map((it) => it?.textContent));
    // Whoever reads or stands on something is not disturbed by what has not changed.
    if (arrived === true || said !== drawn) put(parts);
    drawn = said;
    document.title = `${main.querySelector("h1")?.textContent ?? "aggregator"} · ${at.name}`;
  } catch (error) {
    if (mine !== begun) return;
    if (error instanceof Refused && error.status === 401) {
      put([el("h1", {}, "Not allowed"), el("p", {}, "This aggregator asks for a token.")]);
      if (!dialog.open) askToken("It is kept in this tab only.", (token) => { keepToken(token); draw(true); });
      return;
    }
    const away = error instanceof TypeError || error.name === "TimeoutError" || error.name === "NetworkError";
    if (!away && !(error instanceof Refused)) console.error(error);
    if (error instanceof Refused) put([el("h1", {}, error.status === 503 ? "It is still starting, or busy" : "That was refused"), el("p", {}, error.message)]);
    // What was shown stays, with its age; but not below another address.
    else if (!newest || arrived === true) put([el("h1", {}, "Nobody answers"), el("p", {}, "The aggregator does not run, or cannot be reached. It is tried again.")]);
    drawn = "";
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === (location.hash || "#/")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (arrived === true) main.focus({ preventScroll: true });
  timer = setTimeout(draw, every);
}

function place() {
  const parts = location.hash.replace(/^#\/?/, "").split("/");
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return [""];
  }
}

function put(parts) {
  const focused = main.contains(document.activeElement) ? named(document.activeElement) : null;
  const { scrollX, scrollY } = window;
  forgetPlots();
  main.replaceChildren(...parts.filter((it) => it));
  if (focused) focusNamed(focused);
  window.scrollTo(scrollX, scrollY);
}

setInterval(() => {
  if (!newest) return;
  const old = (Date.now() + heard.ahead - Date.parse(newest.at)) / 1000;
  // One that answers and has nothing new to tell hangs, which is another matter.
  const why = Date.now() - heard.at < OLD * 1000 ? "no new data" : "no answer";
  const text = old < OLD ? "up to date" : `data is ${seconds(old)} old: ${why}`;
  if (age.textContent !== text) age.textContent = text;
  age.classList.toggle("old", old >= OLD);
}, 500);
// Its address would be another page: what stands behind # is ours.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
// Plots are drawn in the colors of their time.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawn = "";
  draw();
});
window.addEventListener("hashchange", () => draw(true));
draw(true);
