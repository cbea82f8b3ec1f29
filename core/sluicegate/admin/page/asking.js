const TOKEN = "sluicegate-token";
const LONGEST_ANSWER_MS = 10_000;
let refusedUntil = 0;

const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (text) => sessionStorage.setItem(TOKEN, text),
  forget: () => sessionStorage.removeItem(TOKEN),
};

// What the gateway refuses, with what to do about it; `status` 0: it did not answer.
class Problem extends Error {
  constructor(status, told) {
    super(told.detail ?? `the gateway answered ${status}`);
    this.status = status;
    this.kind = String(told.type ?? "").replace("/problems/", "");
    this.remedy = told.remedy ?? "";
  }
}

const REMEDIES = {
  401: "The token was forgotten. Open “Token…” and paste one whose SHA-256 is in admin.callers.",
  403: "Open “Token…” and paste a token whose scope is write.",
  429: "This page asks again when the time is over. On the gateway’s own host, forget the token to read meanwhile.",
};

function told(problem) {
  const more = problem.kind === "not-local" || problem.kind === "foreign-origin" ? "" : REMEDIES[problem.status] ?? "";
  const sentences = [problem.message, problem.remedy, more].filter((part) => part);
  return sentences.map((part) => `${part[0].toUpperCase()}${part.slice(1)}`.replace(/[.]?$/, ".")).join("\n");
}

async function send(path, { method = "GET", body, seen, signal } = {}) {
  const headers = {}, sent = token.get(), wait = refusedUntil - Date.now();
  if (sent && wait > 0) throw new Problem(429, { detail: `refused for ${Math.ceil(wait / 1000)} s after too many wrong tokens` });
  if (sent) headers.Authorization = `Bearer ${sent}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (seen !== undefined) headers["If-Match"] = `"${seen}"`;
  let response;
  try {
    response = await fetch(`api/v1${path}`, {
      method, headers, signal, body: body && JSON.stringify(body), cache: "no-store", credentials: "omit", redirect: "error",
    });
  } catch (error) {
    if (signal?.aborted && signal.reason?.name === "AbortError") throw signal.reason;
    throw new Problem(0, { detail: "the gateway does not answer", remedy: "this page goes on asking" });
  }
  if (response.ok) return response;
  let answer = {};
  try { answer = await response.json(); } catch { /* no problem document: the status says it */ }
  if (response.status === 429) refusedUntil = Date.now() + 1000 * (Number(response.headers.get("retry-after")) || 60);
  const problem = new Problem(response.status, answer);
  // A wrong token sent again each second would lock this address out.
  if (response.status === 401 && sent === token.get()) {
    token.forget();
    document.dispatchEvent(new CustomEvent("forgotten", { detail: problem }));
  }
  throw problem;
}

async function ask(path, options = {}) {
  const limit = AbortSignal.timeout(LONGEST_ANSWER_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  try {
    return await (await send(path, { ...options, signal })).json();
  } catch (error) {
    if (error instanceof Problem || error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "the gateway’s answer broke off", remedy: "this page goes on asking" });
  }
}

function query(parameters) {
  const found = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined);
  return found.length ? `?${new URLSearchParams(found)}` : "";
}

// Server-sent events by fetch: an EventSource could not send the token but in its URL.
async function follow(path, signal, opened, event) {
  const reader = (await send(path, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "", first = true; ; first = false) {
    const { done, value } = await reader.read();
    if (done) return;
    if (first) opened();
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length) event(JSON.parse(data.join("\n")));
    }
  }
}
