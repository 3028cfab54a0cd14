// Follows a job: server-sent events by `fetch`, since an EventSource cannot send a token.

import { Problem, send } from "./api.js";

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 4000;
const SILENCE = 40000; // the server says something every 15 s

/**
 * Hear all events of a stream until its end, however often the connection is lost.
 * @param {string} path
 * @param {(event: {id: string|null, kind: string, data: any}) => void} hear
 * @param {(open: boolean) => void} connected  told whenever the connection is there, or lost
 * @param {AbortSignal} signal
 */
export async function follow(path, hear, connected, signal) {
  let last = null;
  let pause = FIRST_PAUSE;
  while (!signal.aborted) {
    try {
      const beginning = () => (connected(true), (pause = FIRST_PAUSE));
      for await (const event of once(path, last, beginning, signal)) {
        last = event.id ?? last;
        hear(event);
        if (event.kind === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (isFinal(error)) throw error;
    }
    if (signal.aborted) return;
    connected(false);
    await sleep(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(LONGEST_PAUSE, pause * 2);
  }
}

/** One connection. */
async function* once(path, last, beginning, signal) {
  const line = new AbortController();
  const hangUp = () => line.abort();
  signal.addEventListener("abort", hangUp, { once: true });
  let silent = setTimeout(hangUp, SILENCE);
  try {
    const headers = { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) };
    const response = await send(path, { headers, signal: line.signal });
    beginning();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      clearTimeout(silent);
      silent = setTimeout(hangUp, SILENCE);
      const blocks = (rest + part.value).split("\n\n");
      rest = blocks.pop() ?? "";
      yield* blocks.map(parse).filter(Boolean);
    }
  } finally {
    clearTimeout(silent);
    signal.removeEventListener("abort", hangUp);
    hangUp();
  }
}

/** An event from its lines; null for a comment. */
export function parse(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
  }
  if (!fields.event || !fields.data) return null;
  return { id: fields.id ?? null, kind: fields.event, data: JSON.parse(fields.data) };
}

/** Whether asking again would be of no use. */
function isFinal(error) {
  return error instanceof Problem && [400, 401, 403, 404, 422].includes(error.status);
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
