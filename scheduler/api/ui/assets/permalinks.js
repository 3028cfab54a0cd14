// The address of what a job page shows: `#job=JOB&finding=R3&filter=TEXT`, so that it can be kept and shared.

/** @typedef {{finding?: string, filter?: string, class?: string, column?: string, sort?: string}} View */
const KEYS = ["finding", "filter", "class", "column", "sort"];

/** Return the address of a job with a view. */
export function jobAddress(job, view = {}) {
  const parameters = new URLSearchParams({ job });
  for (const key of KEYS) if (view[key]) parameters.set(key, view[key]);
  return parameters.size > 1 ? `#${parameters}` : `#/jobs/${job}`;
}

/** Return a link that works in another browser. */
export const absoluteLink = (address) => new URL(address, location.href).href;

/** Take the parts of a view from the options of a route. @returns {View} */
export const viewOf = (options) => Object.fromEntries(KEYS.filter((key) => options[key]).map((key) => [key, String(options[key]).slice(0, 200)]));

/** Remember a view in the address, without a step in the browser's history. */
export function keepView(job, view) {
  const address = jobAddress(job, view);
  if (location.hash !== address) history.replaceState(history.state, "", address);
}
