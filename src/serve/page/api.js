// The server's own interface: the only place that knows its addresses and the names in its answers.
import { parseExact, writeExact } from './png.js';

const ROOT = 'api/';
/** Longer than any answer that does not wait for a picture. */
const PATIENCE = 30_000;

/** What the server refused, in its own words; `field` names what is wrong, if it said. */
class ApiError extends Error {
  constructor(message, status, field) { super(message); Object.assign(this, { status, field }); }
}

let signIn = async () => false;
/** `ask()` gets a token from the person and signs in with it; true when that worked. */
export function useSignIn(ask) { signIn = ask; }

async function call(method, path, sent) {
  const options = { method, headers: {}, signal: AbortSignal.timeout(PATIENCE) };
  if (sent !== undefined) {
    options.headers['Content-Type'] = 'application/json';
    options.body = writeExact(sent);
  }
  let answer;
  try {
    answer = await fetch(ROOT + path, options);
  } catch (error) {
    throw new ApiError(error.name === 'TimeoutError' ? 'the server did not answer in time' : 'the server cannot be reached; is it still running?', 0);
  }
  if (answer.status === 401 && await signIn()) return call(method, path, sent);
  const text = await answer.text();
  let found = null;
  try { found = text ? parseExact(text) : null; } catch { /* Told below if it matters. */ }
  if (answer.ok) return found;
  const { message, param } = found?.error ?? {};
  const wait = answer.headers.get('Retry-After');
  const after = answer.status === 429 && wait ? `; try again in ${wait} s` : '';
  throw new ApiError(`${message ?? `the server answered ${answer.status}`}${after}`, answer.status, param);
}

/** Signs in: the token becomes a cookie that no script can read. */
export async function open(token) {
  const answer = await fetch(`${ROOT}session`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ token }) });
  return answer.ok;
}

export const about = () => call('GET', 'about');
export const submit = (body) => call('POST', 'jobs', body);
/** A job from its beginning: `{status, body, events: [kind, facts][]}`. */
export async function job(id) {
  const found = await call('GET', `jobs/${encodeURIComponent(id)}`);
  return { ...found, events: found.events.map(([kind, facts]) => [kind, eventOf(kind, facts)]) };
}
export const jobs = () => call('GET', 'jobs');
export const cancel = (id) => call('DELETE', `jobs/${encodeURIComponent(id)}`);
export const spell = (body) => call('POST', 'spell', body);
export const runs = () => call('GET', 'runs');

/** A page of the history, newest first, before the picture with that id. */
export function pictures({ before, limit, q, verdict }) {
  const asked = new URLSearchParams({ limit });
  if (before) asked.set('before', before);
  if (q) asked.set('q', q);
  if (verdict) asked.set('verdict', verdict);
  return call('GET', `pictures?${asked}`);
}
export const picture = (id) => call('GET', `pictures/${encodeURIComponent(id)}`);
export const removePicture = (id) => call('DELETE', `pictures/${encodeURIComponent(id)}`);
export const pictureAddress = (id) => `${ROOT}pictures/${encodeURIComponent(id)}.png`;
export const events = () => new EventSource(`${ROOT}events`);

/** How the prompt is read; places are counted as JavaScript counts them. */
export async function read(prompt) {
  const found = await call('POST', 'read', { prompt });
  const at = offsets(prompt);
  const spans = (found.spans ?? []).map(({ start, end, kind, of }) => ({ start: at(start), end: at(end), kind, index: of?.[0] ?? 0, known: kind === 'object' ? found.objects[of?.[0]]?.known : undefined }));
  const relations = (found.relations ?? []).map(({ a, b, relation, objects }) => ({ subject: a, relation, objects: objects ?? [b] }));
  spans.push(...relationSpans(prompt, spans, relations));
  return {
    spans: spans.sort((a, b) => a.start - b.start),
    objects: found.objects ?? [],
    relations,
    trouble: found.trouble ?? null,
    notes: found.notes ?? [],
  };
}

/** Where a relation stands: between its two objects, if nothing else does, without the verb before it and the article after it. */
function relationSpans(prompt, spans, relations) {
  const found = [];
  for (const { subject, objects } of relations) {
    const [p, q] = [subject, objects[0]].map((index) => spans.find((span) => span.index === index));
    if (!p || !q || p === q) continue;
    const [from, to] = p.end <= q.start ? [p.end, q.start] : [q.end, p.start];
    if (spans.some(({ start, end }) => start >= from && end <= to)) continue;
    const words = /^[\s,]*(?:(?:which|that|and|is|are|stands|sits|lies)\s+)*(.*?)\s*(?:\b(?:an?|the|its|one|two|three)\s+)?$/su.exec(prompt.slice(from, to));
    if (!words?.[1] || words[1].length > 60) continue;
    const start = from + words[0].indexOf(words[1]);
    found.push({ start, end: start + words[1].length, kind: 'relation', index: 0 });
  }
  return found;
}

/** Code points → the units of a JavaScript string. */
function offsets(text) {
  const starts = [0];
  for (const letter of text) starts.push(starts.at(-1) + letter.length);
  return (place) => starts[Math.min(place, starts.length - 1)];
}

/** One event of a job, as the jobs know it. */
export function eventOf(kind, facts) {
  if (kind === 'preview') return { ...facts, picture: facts.png, kind: 'image/png' };
  return facts;
}

export const EVENTS = ['queued', 'started', 'step', 'preview', 'maps', 'trace', 'candidates', 'picture', 'verdict', 'done', 'failed', 'cancelled'];
export const reportAddress = (name) => `runs/${encodeURIComponent(name)}/report/`;
