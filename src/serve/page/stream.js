// The page's one stream of events, for all its jobs. A browser opens six connections to a server for all tabs together, so a hidden
// page gives its own back; when it is seen again, and after every break, what happened meanwhile is read from the server, not guessed.
import { $, say } from './dom.js';
import * as api from './api.js';
import { jobs, isFinal, lost, restore, take } from './jobs.js';

let source = null;
let retry = 0;
let waiting = 0;
/** Jobs that this tab must not lose sight of: id → true. */
const watched = new Set();

/** Keeps a job in sight, over breaks of the stream. */
export function watch(id) {
  watched.add(id);
  connect();
}

/** Reads the whole state of a job from the server. */
export async function catchUp(id) {
  try {
    const { events, body } = await api.job(id);
    return restore(id, events, body);
  } catch (error) {
    if (error.status === 404) lost(id, 'the server does not know this job any more; perhaps it was restarted. Finished pictures are in the history.');
    throw error;
  }
}

function message(text) {
  say($('link'), text);
  $('link').hidden = !text;
}

export function connect() {
  if (source || document.hidden) return;
  clearTimeout(waiting);
  source = api.events();
  const mine = source;
  source.addEventListener('open', async () => {
    retry = 0;
    message('');
    // What came between the break and now is known to the server alone.
    for (const id of [...watched]) {
      if (jobs.has(id) && isFinal(jobs.get(id))) { watched.delete(id); continue; }
      await catchUp(id).catch(() => {});
      if (source !== mine) return;
    }
  });
  for (const kind of api.EVENTS) {
    source.addEventListener(kind, (event) => {
      let facts;
      try { facts = JSON.parse(event.data); } catch { return; }
      if (facts?.job === undefined) return;
      take(facts.job, kind, api.eventOf(kind, facts));
      if (['done', 'failed', 'cancelled'].includes(kind)) watched.delete(facts.job);
    });
  }
  source.addEventListener('error', broken);
}

/** The browser's own way of connecting again knows neither a pause that grows nor why it failed, so it is not used. */
function broken() {
  close();
  if (document.hidden) return;
  const pause = Math.min(15, 0.5 * 2 ** retry++);
  // One break is no news: servers close streams that are old.
  if (retry > 1) message(`The server cannot be reached. Trying again in ${Math.ceil(pause)} s; what it has finished is not lost.`);
  waiting = setTimeout(again, pause * 1000);
}

/** Asks for something small first: a stream does not say why it failed, and a server that was started anew wants the token again. */
async function again() {
  try {
    await api.jobs();
  } catch {
    broken();
    return;
  }
  connect();
}

function close() {
  source?.close();
  source = null;
  clearTimeout(waiting);
}

document.addEventListener('visibilitychange', () => { if (document.hidden) close(); else connect(); });
addEventListener('pagehide', close);
addEventListener('pageshow', (event) => { if (event.persisted) connect(); });
