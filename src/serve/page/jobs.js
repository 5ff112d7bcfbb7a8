// What is known of the jobs: a job is what one press of "Make" asked for, a lane is one picture in it. Events of the server change
// the state here and nowhere else; views are told, and draw what there is.
import { oncePerFrame } from './dom.js';

/** Jobs whose pictures of single steps stay in memory, the one on show included. */
const MOST_WHOLE = 6;
/** Pictures of steps that one job may keep; beyond it only every lane's latest. */
const MOST_FRAMES = 2000;
const FINAL = new Set(['done', 'failed', 'cancelled']);

/** id → job, in the order in which this page heard of them. */
export const jobs = new Map();
const listeners = new Set();
const tell = oncePerFrame(() => { for (const listener of listeners) listener(); });

/** Calls `listener` before a frame in which something changed. */
export function onChange(listener) { listeners.add(listener); }

export const isFinal = (job) => FINAL.has(job.status);

function jobOf(id) {
  if (!jobs.has(id)) jobs.set(id, { id, status: 'queued', position: null, body: null, step: 0, of: 0, lanes: new Map(), rounds: [], error: null, frames: 0, begun: 0, focus: null });
  return jobs.get(id);
}

function laneOf(job, lane) {
  if (!job.lanes.has(lane)) {
    job.lanes.set(lane, {
      lane, seed: null, kind: 'plain', candidate: null, score: null, dropped: null, kept: false,
      /** step → blob address; step → [{name, rows, columns, data}]; [{step, loss, pos}]. */
      frames: new Map(), maps: new Map(), trace: [], latest: null, picture: null, verdict: null, cost: null,
    });
  }
  return job.lanes.get(lane);
}

/** Bytes from base64; an empty array for what is none. */
function bytesOf(base64) {
  try { return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)); } catch { return new Uint8Array(); }
}

function addFrame(job, lane, step, address) {
  const before = lane.frames.get(step);
  if (before) URL.revokeObjectURL(before);
  else job.frames++;
  lane.frames.set(step, address);
  lane.latest = Math.max(lane.latest ?? 0, step);
  if (job.frames <= MOST_FRAMES) return;
  for (const [old, held] of lane.frames) {
    if (old === lane.latest) continue;
    URL.revokeObjectURL(held);
    lane.frames.delete(old);
    job.frames--;
  }
}

/** Lets go of what only memory holds of old jobs; their finished pictures are in the history. */
function forgetOld() {
  const done = [...jobs.values()].filter(isFinal);
  for (const job of done.slice(0, Math.max(0, done.length - MOST_WHOLE))) {
    for (const lane of job.lanes.values()) {
      for (const held of lane.frames.values()) URL.revokeObjectURL(held);
      lane.frames.clear();
      lane.maps.clear();
    }
    job.frames = 0;
    if (done.length > 40) jobs.delete(job.id);
  }
}

/** What each event does. */
const ACTS = {
  queued(job, { position }) { job.status = 'queued'; job.position = position ?? null; },
  started(job, { lanes = [], steps }) {
    job.status = 'running';
    job.of = steps ?? job.of;
    job.begun ||= performance.now();
    // Pictures that do not fit into one batch are made one batch after the other; each begins at the first step.
    if (!activeLanes(job).length && lanes.length) job.focus = lanes[0].seed ?? null;
    job.step = 0;
    for (const { lane, ...facts } of lanes) Object.assign(laneOf(job, lane), facts);
  },
  step(job, { i, of }) {
    job.status = 'running';
    job.begun ||= performance.now();
    job.step = i;
    job.of = of ?? job.of;
  },
  preview(job, { lane, step, picture, kind }) {
    const bytes = bytesOf(picture);
    if (bytes.length) addFrame(job, laneOf(job, lane), step, URL.createObjectURL(new Blob([bytes], { type: kind })));
  },
  maps(job, { lane, step, objects }) {
    laneOf(job, lane).maps.set(step, objects.map((map) => ({ ...map, data: typeof map.data === 'string' ? bytesOf(map.data) : map.data })));
  },
  trace(job, { lane, step, loss, pos }) {
    const { trace } = laneOf(job, lane);
    const point = { step, loss: loss ?? null, pos: pos ?? [] };
    const at = trace.findIndex((other) => other.step >= step);
    if (at < 0) trace.push(point);
    else trace.splice(at, trace[at].step === step ? 1 : 0, point);
  },
  candidates(job, { step, scores = [], dropped = [] }) {
    job.rounds.push({ step, scores, dropped });
    for (const { lane, score } of scores) laneOf(job, lane).score = score;
    for (const lane of dropped) laneOf(job, lane).dropped = step;
  },
  picture(job, { lane, id, verdict, cost, score, seed }) {
    const one = laneOf(job, lane);
    Object.assign(one, { picture: id, verdict: verdict ?? one.verdict, cost: cost ?? one.cost, score: score ?? one.score, seed: seed ?? one.seed });
  },
  verdict(job, { lane, verdict }) { laneOf(job, lane).verdict = verdict; },
  done(job) { job.status = 'done'; job.step = job.of; forgetOld(); },
  failed(job, { message }) { job.status = 'failed'; job.error = message || 'the server gave no reason'; forgetOld(); },
  cancelled(job) { job.status = 'cancelled'; forgetOld(); },
};

/** Takes one event in. Unknown kinds are a newer server's and are passed over. */
export function take(id, kind, facts) {
  const act = ACTS[kind];
  if (!act) return;
  const job = jobOf(id);
  // What comes late, after a reload read the end, changes nothing.
  if (isFinal(job) && kind !== 'verdict' && kind !== 'picture') return;
  act(job, facts);
  tell();
}

/** Remembers what was asked. */
export function asked(id, body) {
  const job = jobOf(id);
  job.body = body;
  tell();
  return job;
}

/** Puts a whole state that the server gave in place of what was heard: after a reload, a sleep, a lost connection. */
export function restore(id, events, body) {
  const job = jobOf(id);
  if (body) job.body = body;
  job.status = 'queued';
  job.rounds = [];
  for (const [kind, facts] of events) ACTS[kind]?.(job, facts);
  tell();
  return job;
}

/** The server does not know it any more. */
export function lost(id, message) {
  const job = jobs.get(id);
  if (!job || isFinal(job)) return;
  job.status = 'failed';
  job.error = message;
  tell();
}

export const lanesOf = (job) => [...job.lanes.values()].sort((a, b) => a.lane - b.lane);

/** The other picture of the same seed. */
export const twinOf = (job, lane) => lanesOf(job).find((other) => other !== lane && other.seed === lane.seed && other.kind !== lane.kind && other.candidate === null && lane.candidate === null) ?? null;

/** Lanes that are being made. */
export const activeLanes = (job) => [...job.lanes.values()].filter(({ picture, dropped }) => picture === null && !dropped);

/** How many pictures were asked for; of a search, how many searches. */
export function expected(job) {
  const seeds = job.body?.seeds?.length || 1;
  return seeds * (job.body?.plain && !job.body.search ? 2 : 1);
}

/** Pictures that are there. */
export const finishedOf = (job) => [...job.lanes.values()].filter(({ picture }) => picture !== null).length;

/** How much of the job is done, from 0 to 1. */
export function progress(job) {
  const now = job.of ? job.step / job.of : 0;
  const all = expected(job);
  const active = job.body?.search ? 1 : activeLanes(job).length;
  return Math.min(1, (finishedOf(job) + Math.min(active, all) * now) / all);
}

/** Which step of its own a lane is at. */
export const stepOf = (job, lane) => (lane?.picture !== null && lane ? job.of : lane?.dropped ?? job.step);

/** Seconds that a running job still takes; null while nobody can say. */
export function secondsLeft(job) {
  const share = progress(job);
  if (job.status !== 'running' || share < 0.03 || !job.begun) return null;
  return ((performance.now() - job.begun) / 1000 / share) * (1 - share);
}
