// Requests to the server, with the token; what is refused becomes a `Problem`.

import { signOut, token } from "./session.js";

/** What the server says is wrong (RFC 9457). */
export class Problem extends Error {
  /** @param {{detail?: string, title?: string, status?: number, field?: string, remedy?: string, type?: string}} told */
  constructor(told) {
    super(told.detail || told.title || "Something went wrong.");
    this.status = told.status ?? 0;
    this.field = told.field ?? null;
    this.remedy = told.remedy ?? null;
    this.kind = (told.type ?? "").split("/").pop();
  }
}

/** @returns {Promise<any>} the JSON of an answer; null if there is none */
export async function call(method, path, body, more = {}) {
  const headers = { ...more.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await send(path, { ...more, method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  return response.status === 204 ? null : response.json();
}

export const get = (path, more) => call("GET", path, undefined, more);
export const post = (path, body, more) => call("POST", path, body, more);

/** The answer itself, if it is a success. Addresses are relative, so that the page may lie below any path. */
export async function send(path, options = {}) {
  const sent = token();
  let response;
  try {
    response = await fetch(path, { ...options, headers: withToken(options.headers), cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "The server cannot be reached.", type: "unreachable" });
  }
  if (response.ok) return response;
  throw refused(response.status, await response.text(), sent);
}

/**
 * The problem that an answer tells of. One that asks for a token ends the session, unless that went meanwhile: of several
 * requests with a token that was revoked, the first one says so.
 */
export function refused(status, text, sent) {
  let told = { title: `The server answered with ${status}.` };
  try {
    told = JSON.parse(text);
  } catch {
    // A proxy's own words are not for people.
  }
  const problem = new Problem({ ...told, status });
  if (status === 401 && sent === token()) signOut(sent ? problem.message : "");
  return problem;
}

export function withToken(headers = {}) {
  return token() ? { ...headers, Authorization: `Bearer ${token()}` } : { ...headers };
}

export const path = (...parts) => ["v1", ...parts.map(encodeURIComponent)].join("/");
