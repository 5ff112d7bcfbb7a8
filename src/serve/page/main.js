// Starts the page: what the server can do, the views and their addresses, keys, signing in.
import { $, element, say, tab } from './dom.js';
import * as api from './api.js';
import { nextTheme } from './theme-switch.js';
import { isFinal, jobs, onChange } from './jobs.js';
import { catchUp, connect, watch } from './stream.js';
import { compose, useCompose } from './compose.js';
import { KEYS, showJob, useStage } from './stage.js';
import { hideHistory, showHistory, stale, useHistory } from './history.js';
import { closeDetail, openDetail, useDetail } from './detail.js';
import { showRuns } from './runs.js';
import { openSpell } from './spell.js';
import { takeRequest, useDrop } from './drop.js';
import { tokenInAddress } from './sign-in.js';

// --- Views.
const VIEWS = ['make', 'history', 'runs'];
function route() {
  const [, name, rest] = location.hash.split('/');
  const view = VIEWS.includes(name) ? name : 'make';
  for (const one of VIEWS) $(one).hidden = one !== view;
  for (const link of document.querySelectorAll('#top nav a')) {
    if (link.dataset.view === view) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
  }
  document.title = { make: 'prepose', history: 'History · prepose', runs: 'Runs · prepose' }[view];
  let item = '';
  try { item = decodeURIComponent(rest ?? ''); } catch { /* Not an address of ours. */ }
  if (view === 'history') showHistory(); else hideHistory();
  if (view === 'history' && item) openDetail(item); else closeDetail();
  if (view === 'runs') showRuns(item);
}
const go = (hash) => { if (location.hash !== hash) location.hash = hash; };

/** On a narrow page the stage lies below the form. */
function seeStage() {
  if (matchMedia('(max-width: 60rem)').matches) $('stage').scrollIntoView({ block: 'start' });
}

useHistory((id) => go(`#/history/${encodeURIComponent(id)}`));
useDetail({ use: (request) => { go('#/make'); takeRequest(request, 'that picture'); }, copy: openSpell });
useDrop(() => { go('#/make'); scrollTo({ top: 0 }); });
$('copy-form').addEventListener('click', () => { const sent = compose(); if (sent) openSpell(sent); });

/** Puts a word where the cursor of the prompt is. */
function typeWord(word) {
  const prompt = $('prompt');
  const gap = /(^|\s)$/.test(prompt.value.slice(0, prompt.selectionStart)) ? '' : ' ';
  prompt.setRangeText(`${gap}${word}`, prompt.selectionStart, prompt.selectionEnd, 'end');
  prompt.dispatchEvent(new Event('input', { bubbles: true }));
  prompt.focus();
}

// --- Keys.
const typing = (target) => target.closest?.('input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable]');
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || typing(event.target) || document.querySelector('dialog[open]')) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = { '?': () => $('help').showModal(), t: nextTheme, '/': () => { go('#/history'); setTimeout(() => $('history-q').focus()); }, ...($('make').hidden ? {} : KEYS) }[key];
  if (!act) return;
  event.preventDefault();
  act();
});
$('help-button').addEventListener('click', () => $('help').showModal());
addEventListener('hashchange', route);

// --- A finished job has made the history longer.
const finished = new Set();
onChange(() => {
  for (const job of jobs.values()) {
    if (!isFinal(job) || finished.has(job.id)) continue;
    finished.add(job.id);
    stale();
  }
});

/** Jobs that are not finished, other tabs' too, and the one that this tab watched before a reload. */
async function comeBack() {
  const mine = tab.read('job');
  const listed = (await api.jobs().catch(() => null))?.jobs ?? [];
  const open = listed.filter((job) => !isFinal(job)).map(({ id }) => id);
  for (const id of mine === null || open.includes(mine) ? open : [...open, mine]) {
    await catchUp(id).catch(() => { if (id === mine) tab.write('job', null); });
    const job = jobs.get(id);
    if (job && !isFinal(job)) watch(id);
  }
  if (mine !== null && jobs.has(mine)) showJob(mine);
}

async function start() {
  await tokenInAddress();
  let about;
  try {
    about = await api.about();
  } catch (error) {
    $('link').replaceChildren(`${error.message[0].toUpperCase()}${error.message.slice(1)}. `, element('button', { type: 'button', onclick: () => location.reload() }, 'Try again'));
    $('link').hidden = false;
    return;
  }
  say($('engine'), [about.checkpoints.find((one) => one.default)?.name ?? about.checkpoints[0]?.name, about.device, about.version && `prepose ${about.version}`].filter(Boolean).join(' · '));
  useStage({
    again: (job) => takeRequest({ ...job.body.request, seed: job.body.seeds?.[0] }, 'this job', [], { count: job.body.seeds?.length, search: job.body.search, plain: job.body.plain }),
    copy: openSpell,
    word: typeWord,
  }, (about.checkpoints.find((one) => one.default) ?? about.checkpoints[0])?.objects);
  useCompose(about, (id) => { showJob(id); seeStage(); });
  route();
  await comeBack();
  connect();
}
start();
