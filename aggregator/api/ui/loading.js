// Says that an answer is waited for, where it takes long.

import { setText } from "./dom.js";

const SLOW = 400;
const sign = document.getElementById("loading");
let timer;
let newest = 0;

/** What `work` gives. While it takes long, and nothing newer is waited for, the sign says so. */
export async function waiting(work) {
  const mine = (newest += 1);
  clearTimeout(timer);
  timer = setTimeout(() => setText(sign, "Loading."), SLOW);
  try {
    return await work;
  } finally {
    if (mine === newest) {
      clearTimeout(timer);
      setText(sign, "");
    }
  }
}
