// Requests to the HTTP API, with the token. Error responses become a `Problem`.

import { signOut, token } from "./session.js";

/** An error response of the server (RFC 9457). */
export class Problem extends Error {
  /** @param {{detail?: string, title?: string, status?: number, field?: string, remedy?: string, type?: string}} document */
  constructor(document) {
    super(document.detail || document.title || "Something went wrong.");
    this.status = document.status ?? 0;
    this.field = document.field ?? null;
    this.remedy = document.remedy ?? null;
    this.kind = (document.type ?? "").split("/").pop();
  }
}

/** @returns {Promise<any>} the JSON of the response; null if it is empty */
export async function call(method, path, body, options = {}) {
  const headers = { ...options.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await send(path, { ...options, method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  return response.status === 204 ? null : response.json();
}

export const get = (path, options) => call("GET", path, undefined, options);
export const post = (path, body, options) => call("POST", path, body, options);

/** Return the response if it is a success. Paths are relative, so the page can be served below any path. */
export async function send(path, options = {}) {
  const sentToken = token();
  let response;
  try {
    response = await fetch(path, { ...options, headers: withToken(options.headers), cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "The server cannot be reached.", type: "unreachable" });
  }
  if (response.ok) return response;
  throw readProblem(response.status, await response.text(), sentToken);
}

/**
 * Return the problem of an error response. A 401 ends the session, unless the token has changed since the request: of
 * several requests with a revoked token, only the first one signs out.
 */
export function readProblem(status, text, sentToken) {
  let document = { title: `The server answered with status ${status}.` };
  try {
    document = JSON.parse(text);
  } catch {
    // Not one of our responses, for example an error page of a proxy.
  }
  const problem = new Problem({ ...document, status });
  if (status === 401 && sentToken === token()) signOut(sentToken ? problem.message : "");
  return problem;
}

export function withToken(headers = {}) {
  return token() ? { ...headers, Authorization: `Bearer ${token()}` } : { ...headers };
}

export const path = (...parts) => ["v1", ...parts.map(encodeURIComponent)].join("/");
