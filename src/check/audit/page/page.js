'use strict';
const { key, samples, order } = JSON.parse(document.getElementById('sample').textContent);
const VERDICTS = ['PASS', 'FAIL', 'UNDECIDABLE'];
const RELATIONS = { left_of: 'to the left of', right_of: 'to the right of', above: 'above', below: 'below' };
const $ = (id) => document.getElementById(id);
const places = new Map(samples.map((sample, i) => [sample.id, i]));

/** What is said of each picture: sample id → { human_verdict?, notes, timestamp }. */
let labels = new Map();
/** Where we are in `order`. */
let place = 0;
/** What to put back, the latest last: { place, before: [[id, label | undefined], …] }. */
const past = [];
let kept = true;

function load() {
  try {
    const stored = JSON.parse(localStorage.getItem(key) ?? 'null');
    labels = new Map((stored?.labels ?? []).filter(([id]) => places.has(id)));
    return Math.max(0, order.findIndex((i) => samples[i].id === stored?.at));
  } catch {
    kept = false;
    return 0;
  }
}

function keep() {
  try {
    localStorage.setItem(key, JSON.stringify({ at: here().id, labels: [...labels] }));
    kept = true;
  } catch {
    kept = false;
  }
  if (!kept) say('This browser does not keep labels: export them before you close the page.', true);
}

const here = () => samples[order[place]];
const verdictOf = (sample) => labels.get(sample.id)?.human_verdict;

function say(text, alert = false) {
  $('status').textContent = text;
  $('status').classList.toggle('alert', alert);
}

/** Writes down labels, [[id, label], …], so that it can be undone. */
function write(changes) {
  past.push({ place, before: changes.map(([id]) => [id, labels.get(id)]) });
  for (const [id, label] of changes) labels.set(id, label);
}

/** Whether the picture that is asked about is the one in sight. */
const isShown = () => $('picture').complete && $('picture').naturalWidth > 0;

function judge(verdict) {
  if (!isShown()) return say('There is no picture to judge yet.', true);
  const { id } = here();
  write([[id, { human_verdict: verdict, notes: $('notes').value, timestamp: new Date().toISOString() }]]);
  const open = nextOpen();
  if (open < 0) say(`All ${samples.length} pictures are labelled. Export them with E.`);
  else say(`${verdict}, next picture.`);
  go(open < 0 ? place : open);
}

function undo() {
  const last = past.pop();
  if (!last) return say('Nothing to undo.');
  for (const [id, label] of last.before) label ? labels.set(id, label) : labels.delete(id);
  say('Undone.');
  go(last.place);
}

/** The next place without a verdict, from the start again after the end; -1 if there is none. */
function nextOpen() {
  const later = order.map((_, i) => (place + 1 + i) % order.length);
  return later.find((i) => !verdictOf(samples[order[i]])) ?? -1;
}

function go(to) {
  place = Math.min(Math.max(to, 0), order.length - 1);
  keep();
  show();
}

function takeNotes() {
  const { id } = here();
  labels.set(id, { ...labels.get(id), notes: $('notes').value });
  keep();
}

function exportLabels() {
  const done = samples.filter(verdictOf);
  if (!done.length) return say('There is nothing to export yet.');
  const list = done.map(({ id }) => {
    const { human_verdict, notes = '', timestamp } = labels.get(id);
    return { sample_id: id, human_verdict, notes, timestamp };
  });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([JSON.stringify(list, null, 2) + '\n'], { type: 'application/json' }));
  link.download = 'labels_filled.json';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  say(`Exported ${list.length} of ${samples.length} labels.`);
}

/** Takes labels from an exported file; of two for a picture the later one counts. */
function importLabels(text) {
  let list;
  try {
    list = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch {
    return say('This file is not JSON.', true);
  }
  const wrong = Array.isArray(list) ? list.findIndex((l) => !l?.sample_id || !VERDICTS.includes(l.human_verdict)) : 0;
  if (wrong >= 0) return say(`This file is not an export of labels: see entry ${wrong + 1}.`, true);
  const known = list.filter((label) => places.has(label.sample_id));
  const later = known.filter(({ sample_id, timestamp = '' }) => {
    const mine = labels.get(sample_id);
    return !mine?.human_verdict || timestamp > (mine.timestamp ?? '');
  });
  write(later.map(({ sample_id, human_verdict, notes = '', timestamp = '' }) =>
    [sample_id, { human_verdict, notes, timestamp }]));
  const parts = [`${later.length} labels imported`];
  if (known.length > later.length) parts.push(`${known.length - later.length} older than yours left out`);
  if (list.length > known.length) parts.push(`${list.length - known.length} of other samples left out`);
  say(parts.join(', ') + '.');
  go(place);
}

function show() {
  const sample = here();
  const label = labels.get(sample.id);
  const number = Object.fromEntries(VERDICTS.map((v) => [v, samples.filter((s) => verdictOf(s) === v).length]));
  const done = VERDICTS.reduce((sum, v) => sum + number[v], 0);
  $('place').textContent = `Picture ${place + 1} of ${samples.length}`;
  const each = `: ${number.PASS} pass, ${number.FAIL} fail, ${number.UNDECIDABLE} undecidable`;
  $('counts').replaceChildren(`${done} labelled`, element('span', each));

  $('no-picture').hidden = true;
  $('picture').hidden = false;
  if ($('picture').getAttribute('src') !== sample.image) {
    // A browser keeps the last picture in sight until the new one has come.
    $('picture').classList.add('coming');
    $('picture').src = sample.image;
  }
  const next = samples[order[place + 1]];
  if (next && !next.image.startsWith('data:')) new Image().src = next.image;

  const relation = RELATIONS[sample.relation] ?? sample.relation.replaceAll('_', ' ');
  $('prompt').textContent = sample.prompt ? `“${sample.prompt}”` : '';
  $('prompt').hidden = !sample.prompt;
  $('question').replaceChildren('Is the ', em(sample.a), ` ${relation} the `, em(sample.b), '?');

  for (const button of document.querySelectorAll('[data-verdict]')) {
    button.setAttribute('aria-pressed', String(button.dataset.verdict === label?.human_verdict));
  }
  $('notes').value = label?.notes ?? '';
  $('undo').disabled = !past.length;
  $('export').classList.toggle('ready', done === samples.length);
  document.querySelector('[data-act=previous]').disabled = place === 0;
  document.querySelector('[data-act=next]').disabled = place === order.length - 1;

  $('verdict').replaceChildren(...Object.entries({
    Verdict: sample.verdict, Confidence: sample.conf.toFixed(3), Method: sample.method, Sample: sample.id,
  }).flatMap(([name, value]) => [element('dt', name), element('dd', value)]));
  showTrack();
}

function showTrack() {
  const cells = $('track').children;
  order.forEach((i, at) => { cells[at].className = at === place ? 'here' : verdictOf(samples[i]) ?? ''; });
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
const em = (text) => element('em', text);

const acts = {
  previous: () => go(place - 1),
  next: () => go(place + 1),
  open: () => { const to = nextOpen(); to < 0 ? say('Every picture has a label.') : go(to); },
  undo,
  export: exportLabels,
  import: () => $('file').click(),
  help: () => $('help').showModal(),
  notes: () => $('notes').focus(),
  reveal: () => { $('checker').open = !$('checker').open; },
};
const keys = {
  p: () => judge('PASS'), 1: () => judge('PASS'),
  f: () => judge('FAIL'), 2: () => judge('FAIL'),
  u: () => judge('UNDECIDABLE'), 3: () => judge('UNDECIDABLE'),
  arrowleft: acts.previous, arrowright: acts.next, g: acts.open, z: acts.undo,
  n: acts.notes, v: acts.reveal, e: acts.export, i: acts.import, '?': acts.help,
};

document.addEventListener('keydown', (event) => {
  if ($('help').open) return;
  if (event.target === $('notes')) {
    if (event.key === 'Escape') $('notes').blur();
    return;
  }
  const act = keys[event.key.toLowerCase()];
  const undoing = (event.ctrlKey || event.metaKey) && event.key === 'z';
  if (!act || ((event.ctrlKey || event.metaKey || event.altKey) && !undoing)) return;
  event.preventDefault();
  if (!event.repeat || event.key.startsWith('Arrow')) act();
});
document.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (button?.dataset.verdict) judge(button.dataset.verdict);
  else acts[button?.dataset.act]?.();
});
$('notes').addEventListener('input', takeNotes);
$('track').addEventListener('click', ({ target }) => {
  const at = [...$('track').children].indexOf(target);
  if (at >= 0) go(at);
});
$('file').addEventListener('change', async () => {
  const [file] = $('file').files;
  if (file) importLabels(await file.text());
  $('file').value = '';
});
$('picture').addEventListener('load', () => $('picture').classList.remove('coming'));
$('picture').addEventListener('error', () => {
  $('picture').hidden = true;
  $('no-picture').hidden = false;
  $('no-picture').textContent = `The picture ${here().image} is not there. Put the page back beside the pictures, or make it with --embed.`;
});
addEventListener('storage', (event) => { if (event.key === key) { load(); show(); } });
addEventListener('beforeunload', (event) => { if (!kept && labels.size) event.preventDefault(); });

$('track').append(...order.map(() => document.createElement('i')));
$('track').classList.toggle('dense', order.length > 250);
place = load();
if (labels.size) say(`Going on with ${samples.filter(verdictOf).length} labels of an earlier time.`);
if (!kept) say('This browser does not keep labels: export them before you close the page.', true);
show();
