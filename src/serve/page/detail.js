// One picture of the history, whole: its boxes, what was asked, and the ways on from there.
import { $, element } from './dom.js';
import * as api from './api.js';
import { makePane } from './pane.js';
import { requestNode, verdictNode } from './facts.js';
import { asAsked } from './form.js';
import { known, load, moveTo, stale } from './history.js';
import { startFrom } from './start.js';
import { canShow, showFrom } from './shown.js';

const dialog = $('detail');
const pane = makePane('main');
const facts = element('div', { class: 'detail-facts' });
$('detail-body').append(pane.node, facts);
let acts = { use() {}, copy() {} };
let showing = null;
let boxed = true;
let answer = null;

/** What the buttons do. */
export function useDetail(given) { acts = given; }

/** Opens a picture; the address of the page names it. */
export async function openDetail(id) {
  showing = id;
  answer = null;
  const listed = known().find((one) => one.id === id);
  title(listed);
  pane.update({ address: api.pictureAddress(id), width: listed?.width, height: listed?.height, alt: listed?.prompt ?? '', verdict: null });
  facts.replaceChildren(element('p', { class: 'note' }, 'Reading…'));
  place();
  if (!dialog.open) dialog.showModal();
  try {
    const found = await api.picture(id);
    if (showing === id) { answer = found; show(); }
  } catch (error) {
    if (showing === id) facts.replaceChildren(element('p', { class: 'problem', role: 'alert' }, error.message));
  }
}

function title(one) { $('detail-title').textContent = one ? `${one.method ?? 'plain'}, seed ${one.seed}` : 'Picture'; }

function show() {
  const { request, verdict, cost, made } = answer;
  title({ method: request.guide?.method, seed: request.seed });
  pane.update({ address: api.pictureAddress(showing), width: request.width, height: request.height, alt: request.prompt, verdict: boxed ? verdict : null });
  const button = (text, act, more = {}) => element('button', { type: 'button', onclick: act, ...more }, text);
  const toggle = button('Boxes', () => { boxed = !boxed; toggle.setAttribute('aria-pressed', String(boxed)); pane.update({ address: api.pictureAddress(showing), width: request.width, height: request.height, alt: request.prompt, verdict: boxed ? verdict : null }); }, { class: 'toggle', 'aria-pressed': String(boxed) });
  const problem = element('p', { class: 'problem', role: 'alert', hidden: true });
  facts.replaceChildren(
    element('p', { class: 'lead' }, request.prompt),
    verdictNode(verdict),
    requestNode(request, [['UNet calls', cost?.unet_calls], ['Seconds', cost?.seconds?.toFixed(2)], ['Made', made ? new Date(made * 1000).toLocaleString() : null]]),
    element('div', { class: 'detail-acts' },
      verdict?.detections?.length ? toggle : null, button('Use request', () => { dialog.close(); acts.use(request); }, { class: 'main' }),
      button('Start from it', () => begin(problem, startFrom)),
      canShow() ? button('Show it to the network', () => begin(problem, showFrom)) : null,
      button('Copy as…', () => acts.copy(asAsked(request)), { 'aria-haspopup': 'dialog' }),
      element('a', { href: api.pictureAddress(showing), download: '' }, 'Download the PNG'),
      button('Delete', () => remove(problem), { class: 'quiet' })),
    problem);
}

/** The picture becomes one to begin with, or one that is shown. */
async function begin(problem, take) {
  const id = showing;
  try {
    const answer = await fetch(api.pictureAddress(id));
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    await take(await answer.blob(), 'from the history');
    dialog.close();
    location.hash = '#/make';
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

async function remove(problem) {
  if (!confirm('Delete this picture from the server? Its file is gone then.')) return;
  const id = showing;
  try {
    await api.removePicture(id);
    dialog.close();
    stale();
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

function place() {
  const all = known();
  const at = all.findIndex(({ id }) => id === showing);
  $('detail-place').textContent = at < 0 ? '' : `${(at + 1).toLocaleString('en')} of ${all.length.toLocaleString('en')}`;
  $('previous').disabled = at <= 0;
  $('next').disabled = at < 0 || at === all.length - 1;
  // The next page, before its first picture is asked for.
  if (at >= 0 && at > all.length - 10) load();
}

function neighbour(by) {
  const all = known();
  const next = all[all.findIndex(({ id }) => id === showing) + by];
  if (next) location.replace(`#/history/${encodeURIComponent(next.id)}`);
}
$('previous').addEventListener('click', () => neighbour(-1));
$('next').addEventListener('click', () => neighbour(1));
$('close').addEventListener('click', () => dialog.close());
dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (act) { event.preventDefault(); neighbour(act); }
});
dialog.addEventListener('close', () => {
  const at = known().findIndex(({ id }) => id === showing);
  showing = null;
  if (location.hash.startsWith('#/history/')) location.replace('#/history');
  if (at >= 0) moveTo(at);
});
export function closeDetail() { if (dialog.open) dialog.close(); }
