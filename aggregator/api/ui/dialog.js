// Asks before anything is done, says what will happen, and shows the result.

import { Away } from "./api.js";
import { el, focusNamed, named } from "./dom.js";

const dialog = document.getElementById("dialog");

let shown = 0;
let cameFrom = null;

// The button that it was opened by may have been drawn again since.
dialog.addEventListener("close", () => focusNamed(cameFrom));

/** Shows a dialog; the answer says whether it is still what is shown, or was left meanwhile. */
function show(title, ...children) {
  const mine = (shown += 1);
  dialog.replaceChildren(
    el("h2", { id: "dialog-title" }, title),
    ...children.flat().filter((it) => it),
  );
  if (!dialog.open) {
    cameFrom = named(document.activeElement);
    dialog.showModal();
  }
  return () => dialog.open && mine === shown;
}

const close = () => el("button", { type: "button", on: { click: () => dialog.close() } }, "Close");
const bad = (error) => el("p", { class: "bad", role: "alert" }, error.message);

/** Says what will happen, does it when confirmed, and calls `after` when it is done. */
export function sure(title, what, word, act, after) {
  const go = el(
    "button",
    {
      type: "button",
      class: "main",
      on: {
        click: async () => {
          const mine = show(title, el("p", { role: "status" }, "It is being done."));
          try {
            await act();
            if (mine()) dialog.close();
          } catch (error) {
            // Without an answer it may have been done, or may still be.
            const end = error instanceof Away ? "no answer, it may be done" : "not done";
            if (mine()) show(`${word}: ${end}`, bad(error), close());
          }
          after();
        },
      },
    },
    word,
  );
  const no = close();
  show(
    title,
    typeof what === "string" ? el("p", {}, what) : what,
    el("div", { class: "actions" }, go, no),
  );
  no.focus();
}

/** The same, but what will happen has to be asked for first, by `load`. */
export async function preview(title, load, word, act, after) {
  const mine = show(title, el("p", { role: "status" }, "It is being worked out."), close());
  try {
    const what = await load();
    if (mine()) sure(title, what, word, act, after);
  } catch (error) {
    if (mine()) show(`${word}: not possible`, bad(error), close());
  }
}

/** Asks for values: a field is [name, label, hint, value, choices]; `then` gets them by name. */
export function fill(title, what, fields, word, then) {
  const inputs = fields.map(([name, label, hint, value, choices]) => {
    const id = `field-${name}`;
    const field = choices
      ? el(
          "select",
          { id, name },
          choices.map(([of, text]) => el("option", { value: of, selected: of === value }, text)),
        )
      : el("input", { id, name, value, autocomplete: "off", "aria-describedby": `${id}-hint` });
    return el(
      "div",
      { class: "field" },
      el("label", { for: id }, label),
      field,
      choices ? null : el("span", { class: "soft", id: `${id}-hint` }, hint),
    );
  });
  const form = el(
    "form",
    {
      method: "dialog",
      on: {
        submit: (event) => {
          event.preventDefault();
          then(Object.fromEntries(new FormData(form)));
        },
      },
    },
    el("p", {}, what),
    inputs,
    el("div", { class: "actions" }, el("button", { class: "main" }, word), close()),
  );
  show(title, form);
}

export function askToken(why, then) {
  const field = el("input", {
    type: "password",
    id: "token",
    autocomplete: "off",
    "aria-describedby": "token-why",
  });
  const form = el(
    "form",
    { method: "dialog", on: { submit: () => then(field.value.trim()) } },
    el("p", { id: "token-why" }, why),
    el("label", { for: "token" }, "Token (api.read_token or api.write_token)"),
    field,
    el("div", { class: "actions" }, el("button", { class: "main" }, "Show it")),
  );
  show("Who is there?", form);
  field.focus();
}
