// Asks the API of this very host. A token is kept for this tab only, and shown with each request.

const KEY = "aggregator-token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** When the API last answered, and how far its clock is ahead of this one, in ms. */
export const heard = { at: 0, ahead: 0 };

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

function headersOf(accept) {
  const token = sessionStorage.getItem(KEY);
  return { accept, ...(token ? { authorization: `Bearer ${token}` } : {}) };
}

/** An answer that is read as it comes, until `signal` ends it. Throws Refused. */
export async function open(path, signal) {
  const headers = headersOf("text/event-stream");
  const answer = await fetch(path, { headers, cache: "no-store", redirect: "error", signal });
  if (!answer.ok) throw new Refused(answer.status, `HTTP ${answer.status}`);
  heard.at = Date.now();
  return answer;
}

/** The JSON of an answer. Throws Refused for an error of the API, TypeError when it is away. */
export async function ask(path, method = "GET", body = undefined) {
  const headers = headersOf("application/json");
  if (method === "POST") headers["content-type"] = "application/json";
  const answer = await fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    redirect: "error",
    signal: AbortSignal.timeout(method === "GET" ? 10_000 : 180_000),
  });
  const date = Date.parse(answer.headers.get("date") ?? "");
  heard.at = Date.now();
  if (date) heard.ahead = date - heard.at;
  const text = await answer.text();
  let parsed = null;
  try {
    if (text) parsed = JSON.parse(text);
  } catch {
    // Something between us and the aggregator may answer in its own words.
    throw new Refused(answer.status, `HTTP ${answer.status}, and no JSON`);
  }
  if (!answer.ok) throw new Refused(answer.status, parsed?.message ?? `HTTP ${answer.status}`);
  return parsed;
}
