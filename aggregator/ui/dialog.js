// Asks before anything is done, says what will happen, and tells what came of it.

import { el } from "./dom.js";

const dialog = document.getElementById("dialog");

function show(title, ...children) {
  dialog.replaceChildren(el("h2", { id: "dialog-title" }, title), ...children);
  if (!dialog.open) dialog.showModal();
}

const close = () => el("button", { type: "button", on: { click: () => dialog.close() } }, "Close");

export function sure(title, what, word, act, after) {
  const go = el("button", { type: "button", class: "main", on: { click: async () => {
    show(title, el("p", { role: "status" }, "It is being done."));
    try {
      await act();
      dialog.close();
      after();
    } catch (error) {
      show(`${word}: not done`, el("p", { class: "bad", role: "alert" }, error.message), close());
    }
  } } }, word);
  show(title, el("p", {}, what), el("div", { class: "actions" }, go, close()));
  go.focus();
}

export function askToken(why, then) {
  const field = el("input", { type: "password", id: "token", autocomplete: "off", "aria-describedby": "token-why" });
  const form = el("form", { method: "dialog", on: { submit: () => then(field.value.trim()) } },
    el("p", { id: "token-why" }, why),
    el("label", { for: "token" }, "Token (api.read_token or api.write_token)"), field,
    el("div", { class: "actions" }, el("button", { class: "main" }, "Show it")));
  show("Who is there?", form);
  field.focus();
}
