// Follows the events of a job with `fetch`, because an EventSource cannot send a token.

import { Problem, send } from "./api.js";

const FIRST_DELAY = 400;
const MAX_DELAY = 4000;
const TIMEOUT = 40000; // the server sends a heartbeat every 15 s

/**
 * Receive all events until the end of the stream, reconnecting whenever the connection is lost.
 * @param {string} path
 * @param {(event: {id: string|null, kind: string, data: any}) => void} receive
 * @param {(open: boolean) => void} connected  called whenever the connection is opened or lost
 * @param {AbortSignal} signal
 */
export async function followEvents(path, receive, connected, signal) {
  let lastId = null;
  let delay = FIRST_DELAY;
  while (!signal.aborted) {
    try {
      const opened = () => (connected(true), (delay = FIRST_DELAY));
      for await (const event of readStream(path, lastId, opened, signal)) {
        lastId = event.id ?? lastId;
        receive(event);
        if (event.kind === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (isPermanent(error)) throw error;
    }
    if (signal.aborted) return;
    connected(false);
    await sleep(delay * (0.75 + Math.random() / 2), signal);
    delay = Math.min(MAX_DELAY, delay * 2);
  }
}

/** Read events from one connection. */
async function* readStream(path, lastId, opened, signal) {
  const connection = new AbortController();
  const disconnect = () => connection.abort();
  signal.addEventListener("abort", disconnect, { once: true });
  let timer = setTimeout(disconnect, TIMEOUT);
  try {
    const headers = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
    const response = await send(path, { headers, signal: connection.signal });
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      clearTimeout(timer);
      timer = setTimeout(disconnect, TIMEOUT);
      const blocks = (rest + part.value).split("\n\n");
      rest = blocks.pop() ?? "";
      yield* blocks.map(parseEvent).filter(Boolean);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", disconnect);
    disconnect();
  }
}

/** Return an event from its lines; null for a comment. */
function parseEvent(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
  }
  if (!fields.event || !fields.data) return null;
  return { id: fields.id ?? null, kind: fields.event, data: JSON.parse(fields.data) };
}

/** True if another attempt would fail in the same way. */
function isPermanent(error) {
  return error instanceof Problem && [400, 401, 403, 404, 422].includes(error.status);
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
