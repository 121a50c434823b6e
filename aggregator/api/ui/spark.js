// A line of the last minutes, small enough for a row of a table.

import { svg } from "./dom.js";

const WIDTH = 84;
const HEIGHT = 20;

/** A sparkline; `update` gives it other values, null is a hole. It has no words: its row does. */
export function spark() {
  const line = svg("path", { class: "spark-line" });
  const area = svg("path", { class: "spark-area" });
  const node = svg(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      width: WIDTH,
      height: HEIGHT,
      "aria-hidden": "true",
    },
    area,
    line,
  );
  const update = (values) => {
    const [outline, filled] = shape(values);
    line.setAttribute("d", outline);
    area.setAttribute("d", filled);
  };
  return { node, update };
}

function shape(values) {
  const top = Math.max(1e-9, ...values.map((it) => it ?? 0));
  const step = WIDTH / Math.max(1, values.length - 1);
  const y = (it) => (HEIGHT - 1 - (it / top) * (HEIGHT - 3)).toFixed(1);
  let outline = "";
  let filled = "";
  let begun = null;
  const close = (at) => {
    if (begun !== null) filled += `L${(at * step).toFixed(1)} ${HEIGHT}L${begun} ${HEIGHT}Z`;
    begun = null;
  };
  values.forEach((it, at) => {
    if (it === null) return close(at - 1);
    const place = `${(at * step).toFixed(1)} ${y(it)}`;
    outline += `${begun === null ? "M" : "L"}${place}`;
    filled += `${begun === null ? "M" : "L"}${place}`;
    if (begun === null) begun = (at * step).toFixed(1);
    return undefined;
  });
  close(values.length - 1);
  return [outline, filled];
}
