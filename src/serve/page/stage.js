// The right side: one job as it is made. What is on show (which picture, which step, what is drawn over it) is chosen here; the job
// itself is in jobs.js.
import { $, choice, element, kept, plural, refill, say, tab } from './dom.js';
import * as api from './api.js';
import { activeLanes, expected, finishedOf, isFinal, jobs, lanesOf, onChange, progress, secondsLeft, stepOf, twinOf } from './jobs.js';
import { makeCompare, makePane } from './pane.js';
import { makeCurve } from './curve.js';
import { addressAt, makeLanes, nameOf, ordered } from './lanes.js';
import { verdictNode, list } from './facts.js';
import { makeMaps, mapsAt } from './maps.js';
import { onTheme } from './theme-switch.js';

const VIEWS = [['one', 'One'], ['beside', 'Side by side'], ['slider', 'Slider']];
/** What is on show; step null is the newest, and the picture when it is done. */
const shown = { job: null, lane: null, view: kept.read('view', 'beside'), boxes: kept.read('boxes', true), map: -1, step: null };
let acts = { again() {}, copy() {}, word() {} };
/** What the buttons do: those beside a job, and the words of what a checkpoint draws, if it draws few things. */
export function useStage(given, objects) {
  acts = given;
  draws.hidden = !objects?.length;
  if (objects?.length) draws.replaceChildren(element('p', {}, `This checkpoint draws ${objects.length} things:`), element('p', { class: 'draws-words' }, objects.map((word) => element('button', { type: 'button', onclick: () => acts.word(word) }, word))));
}

const stage = $('stage');
const one = makePane('main'), left = makePane('main'), right = makePane('main'), compare = makeCompare();
const beside = element('div', { class: 'two' }, left.node, right.node);
const curve = makeCurve((step) => setStep(step));
const lanes = makeLanes((lane) => { shown.lane = lane.lane; draw(); });
const maps = makeMaps((index) => { shown.map = shown.map === index ? -1 : index; draw(); });

const strip = element('nav', { class: 'jobs', 'aria-label': 'Jobs' });
const said = element('p', { class: 'status' }), bar = element('progress', { max: 1, value: 0, 'aria-label': 'Steps done' });
const cancel = element('button', { type: 'button', onclick: stop }, 'Cancel');
const tools = element('div', { class: 'tools', role: 'toolbar', 'aria-label': 'What is shown' });
const slider = element('input', { type: 'range', min: 1, step: 1, 'aria-label': 'Step', id: 'step', oninput: () => setStep(Number(slider.value)) });
const stepSaid = element('output', { class: 'number', for: 'step' });
const live = element('button', { type: 'button', onclick: () => setStep(null) });
const viewer = element('div', { class: 'viewer' });
const side = element('div', { class: 'side' });
const verdict = element('section', { class: 'card-part', 'aria-label': 'Verdict' });
side.append(verdict, curve.node, maps.node);
const problem = element('p', { class: 'problem', role: 'alert' });
const body = element('div', { class: 'stage-body' },
  element('div', { class: 'stage-head' }, said, bar, cancel), problem, tools,
  element('div', { class: 'stage-main' }, element('div', { class: 'viewing' }, viewer, element('div', { class: 'steps' }, slider, stepSaid, live), lanes.node), side));
const draws = element('div', { class: 'draws', hidden: true });
const empty = element('div', { class: 'empty' }, element('p', { class: 'lead' }, 'Nothing is being made.'),
  element('p', {}, 'Say what the picture should show and press Make. Each step’s preview, where the network looks for each object, and how the loss falls appear here as they come.'), draws);
stage.append(strip, empty, body);

/** Shows a job, from its newest step. */
export function showJob(id) {
  Object.assign(shown, { job: id, lane: null, step: null, map: -1 });
  tab.write('job', id);
  draw();
}
const shownJob = () => jobs.get(shown.job);

function setStep(step) {
  const job = shownJob();
  const lane = job && chosenOf(ordered(lanesOf(job)), job);
  shown.step = step !== null && lane && step >= job.of && lane.picture !== null ? null : step;
  draw();
}

async function stop() {
  const job = shownJob();
  if (!job) return;
  cancel.disabled = true;
  try { await api.cancel(job.id); } catch (error) { say(problem, error.message); problem.hidden = false; }
  cancel.disabled = false;
}

/** The picture that is looked at: as chosen, else a search's best, else the one that is being made. */
function chosenOf(all, job) {
  const found = all.find(({ lane }) => lane === shown.lane);
  if (found) return found;
  const alive = all.filter(({ dropped }) => !dropped);
  if (all.some(({ candidate }) => candidate !== null)) {
    return alive.reduce((best, lane) => ((lane.score ?? -Infinity) > (best?.score ?? -Infinity) ? lane : best), alive[0]) ?? all[0];
  }
  // The seed that is being made, or was last.
  const mine = all.filter(({ seed }) => seed === job.focus);
  return mine.find(({ kind }) => kind !== 'plain') ?? mine[0] ?? all[0];
}

/** In place of the other picture of a seed while its turn has not come, so that the view does not jump when it does. */
function yetToCome(job, lane) {
  if (!job.body?.plain || isFinal(job) || lane.candidate !== null) return null;
  return { lane: null, seed: lane.seed, kind: lane.kind === 'plain' ? 'guided' : 'plain', candidate: null, dropped: null, frames: new Map(), maps: new Map(), picture: null, verdict: null };
}

function sentence(job, all) {
  const pictures = plural(all.filter(({ picture }) => picture !== null).length, 'picture');
  if (job.status === 'queued') return job.position ? `Waiting; ${plural(job.position, 'job')} before this one` : 'Waiting to begin';
  if (job.status === 'running') {
    const made = finishedOf(job), asked = expected(job), active = activeLanes(job).length;
    const left = secondsLeft(job);
    const time = left !== null && left >= 1 ? `, about ${Math.ceil(left)} s left` : '';
    if (job.of && job.step >= job.of && made + active >= asked) return 'Finishing and checking';
    if (job.body?.search) return `Step ${job.step} of ${job.of}, ${active} of ${plural(all.length, 'candidate')} left${time}`;
    const which = active >= asked ? '' : active > 1 ? `, pictures ${made + 1} to ${made + active} of ${asked}` : `, picture ${made + 1} of ${asked}`;
    return `Step ${job.step} of ${job.of}${which}${time}`;
  }
  if (job.status === 'cancelled') return `Cancelled at step ${job.step}; ${pictures} made`;
  if (job.status === 'failed') return 'Failed';
  return `Done, ${pictures}`;
}

/** What a pane needs to show a lane. */
function view(lane, job) {
  const request = job.body?.request ?? {};
  const final = shown.step === null && lane.picture !== null;
  const found = shown.map >= 0 ? mapsAt(lane, shown.step)?.[shown.map] : null;
  return {
    address: addressAt(lane, shown.step), width: request.width ?? 1, height: request.height ?? 1,
    alt: `${request.prompt ?? ''}, ${nameOf(lane)}`, label: nameOf(lane), verdict: final && shown.boxes ? lane.verdict : null,
    maps: found ? [{ map: found, colour: shown.map }] : [], waiting: job.status === 'queued' ? 'waiting' : isFinal(job) ? 'not finished' : 'no preview yet',
  };
}

function draw() {
  const job = shownJob();
  empty.hidden = Boolean(job);
  body.hidden = !job;
  drawStrip();
  if (!job) return;
  const all = ordered(lanesOf(job));
  const chosen = chosenOf(all, job);
  const twin = chosen && (twinOf(job, chosen) ?? yetToCome(job, chosen));
  body.classList.toggle('searched-stage', all.some(({ candidate }) => candidate !== null));
  body.setAttribute('aria-busy', String(!isFinal(job)));
  say(said, sentence(job, all));
  bar.hidden = isFinal(job);
  if (job.status === 'running') bar.value = progress(job); else bar.removeAttribute('value');
  cancel.hidden = isFinal(job);
  problem.hidden = !job.error;
  if (job.error) say(problem, job.error);
  drawTools(job, chosen, twin);
  drawViewer(job, chosen, twin);
  drawSteps(job, chosen);
  drawSide(job, chosen, all);
  const request = job.body?.request ?? {};
  lanes.update({ job, lanes: all, chosen, step: shown.step, map: shown.map, size: { width: request.width ?? 1, height: request.height ?? 1 }, hidden: all.length < 2 });
}

function drawViewer(job, chosen, twin) {
  const how = chosen && twin && shown.view !== 'one' ? shown.view : 'one';
  const node = { one: one.node, beside, slider: compare.node }[how];
  if (viewer.firstChild !== node) viewer.replaceChildren(node);
  viewer.className = `viewer ${how}`;
  if (!chosen) return one.update({ ...(job.body?.request ? { width: job.body.request.width, height: job.body.request.height } : {}), waiting: job.status === 'queued' ? 'waiting' : isFinal(job) ? 'no picture' : 'starting' });
  if (how === 'one') return one.update(view(chosen, job));
  const [plain, guided] = chosen.kind === 'plain' ? [chosen, twin] : [twin, chosen];
  if (how === 'slider') return compare.update(view(plain, job), view(guided, job));
  left.update(view(plain, job));
  right.update(view(guided, job));
}

let toolsKey = '';
function drawTools(job, chosen, twin) {
  const objects = (chosen && mapsAt(chosen, shown.step)?.map(({ name }) => name)) ?? [];
  const boxed = Boolean(chosen?.verdict?.detections?.length || twin?.verdict?.detections?.length);
  // The bar is made anew only where a button changes: a screen reader must not lose its place each step.
  const key = JSON.stringify([Boolean(twin), shown.view, boxed, shown.boxes, objects, shown.map, isFinal(job), Boolean(job.body)]);
  if (key === toolsKey) return;
  toolsKey = key;
  refill(tools,
    twin && choice('View', VIEWS.map(([value, text]) => [value, text, 'V']), shown.view, setView),
    boxed && element('button', { type: 'button', class: 'toggle', 'data-value': 'boxes', 'aria-pressed': String(shown.boxes), 'aria-keyshortcuts': 'B', onclick: toggleBoxes }, 'Boxes'),
    objects.length > 0 && choice('Attention', [['-1', 'Picture', 'M'], ...objects.map((name, i) => [String(i), name, 'M'])], String(shown.map), (value) => { shown.map = Number(value); draw(); }),
    element('span', { class: 'grow' }),
    job.body && element('button', { type: 'button', 'data-value': 'again', onclick: () => acts.again(job) }, 'Use request'),
    job.body && element('button', { type: 'button', 'data-value': 'copy', 'aria-haspopup': 'dialog', onclick: () => acts.copy(job.body) }, 'Copy as…'));
}

function drawSteps(job, chosen) {
  const has = Boolean(chosen && (chosen.frames.size || chosen.maps.size) && job.of > 1);
  slider.parentNode.hidden = !has;
  if (!has) return;
  slider.max = job.of;
  const at = shown.step ?? Math.max(1, stepOf(job, chosen));
  if (document.activeElement !== slider || shown.step === null) slider.value = at;
  say(stepSaid, `step ${at} of ${job.of}`);
  say(live, chosen.picture !== null ? 'Picture' : 'Newest');
  live.disabled = shown.step === null;
}

let sideKey = '';
function drawSide(job, chosen, all) {
  const key = `${job.id} ${chosen?.lane} ${chosen?.picture} ${JSON.stringify(chosen?.verdict ?? null)} ${job.status} ${chosen?.score}`;
  if (key !== sideKey) {
    sideKey = key;
    const waiting = isFinal(job) ? (chosen?.picture !== null && chosen ? 'Not checked.' : 'No picture.') : 'The checker looks when the picture is done.';
    verdict.replaceChildren(element('h3', {}, chosen ? nameOf(chosen) : ''), verdictNode(chosen?.verdict, chosen?.dropped ? `Dropped after step ${chosen.dropped}.` : waiting),
      ...(chosen?.cost ? [list([['UNet calls', chosen.cost.unet_calls], ['Guided passes', chosen.cost.guided_passes], ['Seconds', chosen.cost.seconds?.toFixed(2)]])] : []),
      ...(chosen && chosen.picture !== null ? [element('p', { class: 'links' }, element('a', { href: `#/history/${encodeURIComponent(chosen.picture)}` }, 'In the history'), element('a', { href: api.pictureAddress(chosen.picture), download: '' }, 'Download the PNG'))] : []));
  }
  curve.update({ job: job.id, lanes: all.filter(({ trace }) => trace.length), chosen, of: job.of, step: shown.step, names: nameOf });
  maps.update({ lane: chosen, step: shown.step, on: shown.map, address: chosen && addressAt(chosen, shown.step), size: job.body?.request ?? {} });
}

let stripKey = '';
function drawStrip() {
  const all = [...jobs.values()].filter(({ body }) => body).slice(-8).reverse();
  const key = JSON.stringify([shown.job, all.map(({ id, status }) => [id, status])]);
  strip.hidden = all.length < 2;
  if (key === stripKey) return;
  stripKey = key;
  const state = { queued: 'waiting', running: 'running', done: 'done', failed: 'failed', cancelled: 'cancelled' };
  refill(strip, all.map((job) => element('button', {
    type: 'button', 'data-value': job.id, 'aria-current': job.id === shown.job ? 'true' : null, class: job.status, title: job.body.request.prompt, onclick: () => showJob(job.id),
  }, element('i', { 'aria-hidden': 'true' }), element('span', {}, job.body.request.prompt), element('small', {}, state[job.status]))));
}

function setView(view) { shown.view = view; kept.write('view', view); draw(); }
function toggleBoxes() { shown.boxes = !shown.boxes; kept.write('boxes', shown.boxes); draw(); }

/** Keys that work wherever no text is typed. */
export const KEYS = {
  v() { setView(VIEWS[(VIEWS.findIndex(([view]) => view === shown.view) + 1) % VIEWS.length][0]); },
  b: toggleBoxes,
  m() {
    const job = shownJob();
    const chosen = job && chosenOf(ordered(lanesOf(job)), job);
    const count = (chosen && mapsAt(chosen, shown.step)?.length) || 0;
    shown.map = shown.map + 1 >= count ? -1 : shown.map + 1;
    draw();
  },
  '['() { turn(-1); },
  ']'() { turn(1); },
};

/** A step back or on; past the newest is the newest again. */
function turn(by) {
  const job = shownJob();
  if (!job) return;
  const newest = stepOf(job, chosenOf(ordered(lanesOf(job)), job));
  const to = (shown.step ?? newest) + by;
  setStep(to >= newest ? null : Math.max(1, to));
}

/** Told in words at the start, at quarters and at the end: not each step. */
let told = '';
function tell() {
  const job = shownJob();
  if (!job) return;
  const quarter = Math.floor(4 * progress(job));
  const key = `${job.id} ${job.status} ${job.status === 'running' ? quarter : ''}`;
  if (key === told) return;
  const changed = told.split(' ')[0] === job.id || !isFinal(job);
  told = key;
  if (changed) say($('spoken'), job.status === 'running' && quarter ? `${quarter * 25} percent` : sentence(job, lanesOf(job)) + (job.error ? `: ${job.error}` : ''));
}

onChange(() => { draw(); tell(); });
onTheme(() => { sideKey = ''; draw(); });
draw();
