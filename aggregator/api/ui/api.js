// Asks the API of this very host. A token is kept for this tab only, and shown with each request.

const KEY = "aggregator-token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Nothing of the aggregator came back, so it is not known what it did. */
export class Away extends Error {}

/** When the API last answered, and how far its clock is ahead of this one, in ms. */
export const heard = { at: 0, ahead: 0 };

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

export const hasToken = () => Boolean(sessionStorage.getItem(KEY));

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

/** An answer and its text. Throws Away. */
async function whole(path, options, seconds) {
  try {
    const answer = await fetch(path, { ...options, signal: AbortSignal.timeout(seconds * 1000) });
    return [answer, await answer.text()];
  } catch (cause) {
    const isSlow = cause.name === "TimeoutError";
    throw new Away(isSlow ? `no answer within ${seconds} s` : "no connection", { cause });
  }
}

/** The JSON of an answer. Throws Refused for an error of the API, Away when that is away. */
export async function ask(path, method = "GET", body = undefined) {
  const headers = headersOf("application/json");
  if (method === "POST") headers["content-type"] = "application/json";
  const options = {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    redirect: "error",
  };
  const [answer, text] = await whole(path, options, method === "GET" ? 10 : 180);
  let parsed = null;
  try {
    if (text) parsed = JSON.parse(text);
  } catch {
    // Something between us and the aggregator may answer in its own words.
    const said = `HTTP ${answer.status}, and no JSON`;
    throw answer.status >= 500 ? new Away(said) : new Refused(answer.status, said);
  }
  const date = Date.parse(answer.headers.get("date") ?? "");
  heard.at = Date.now();
  if (date) heard.ahead = date - heard.at;
  if (!answer.ok) throw new Refused(answer.status, parsed?.message ?? `HTTP ${answer.status}`);
  return parsed;
}
