'use strict';
const { key, samples, order, questions, help } = JSON.parse(document.getElementById('sample').textContent);
const RELATIONS = { left_of: 'to the left of', right_of: 'to the right of', above: 'above', below: 'below' };
const $ = (id) => document.getElementById(id);
const places = new Map(samples.map((sample, i) => [sample.id, i]));

/** The answers that there are to a question about a sample: [{ value, label, hint?, key?, image? }]. */
const answersOf = (question, sample) => question.answers ?? sample.candidates;
/** Whether one of a few answers is asked for, which then has a colour of its own in the track. */
const isOne = questions.length === 1 && questions[0].answers?.length <= 4;

/** What is said of each picture: sample id → { an answer by each question's name, notes, timestamp }. */
let labels = new Map();
/** Where we are in `order`. */
let place = 0;
/** What to put back, the latest last: { place, before: [[id, label | undefined], …] }. */
const past = [];
let kept = true;

/** Whether what a label says of a sample can be said of it; questions may be open. */
const isSayable = (sample, label) => questions.every((question) => {
  const said = label[question.name];
  return said === undefined || answersOf(question, sample).some(({ value }) => value === said);
});

function load() {
  try {
    const stored = JSON.parse(localStorage.getItem(key) ?? 'null');
    labels = new Map((stored?.labels ?? []).filter(([id, label]) => places.has(id) && isSayable(samples[places.get(id)], label)));
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
const saidOf = (sample, question) => labels.get(sample.id)?.[question.name];
const isDone = (sample) => questions.every((question) => saidOf(sample, question) !== undefined);

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

function judge(question, value) {
  if (!isShown()) return say('There is no picture to judge yet.', true);
  const { id } = here();
  const said = { ...labels.get(id), [question.name]: value };
  write([[id, { ...said, notes: $('notes').value, timestamp: new Date().toISOString() }]]);
  const open = nextOpen();
  if (!isDone(here())) say(`${question.title}: ${value}.`);
  else if (open < 0) say(`All ${samples.length} pictures are labelled. Export them with E.`);
  else say(`${questions.length > 1 ? 'All answered' : value}, next picture.`);
  go(isDone(here()) && open >= 0 ? open : place);
}

function undo() {
  const last = past.pop();
  if (!last) return say('Nothing to undo.');
  for (const [id, label] of last.before) label ? labels.set(id, label) : labels.delete(id);
  say('Undone.');
  go(last.place);
}

/** The next place that is not labelled, from the start again after the end; -1 if there is none. */
function nextOpen() {
  const later = order.map((_, i) => (place + 1 + i) % order.length);
  return later.find((i) => !isDone(samples[order[i]])) ?? -1;
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
  const done = samples.filter(isDone);
  if (!done.length) return say('There is nothing to export yet.');
  const list = done.map(({ id }) => {
    const { notes = '', timestamp, ...said } = labels.get(id);
    return { sample_id: id, ...said, notes, timestamp };
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
  const wrong = Array.isArray(list) ? list.findIndex((label) => !isLabel(label)) : 0;
  if (wrong >= 0) return say(`This file is not an export of labels: see entry ${wrong + 1}.`, true);
  const known = list.filter((label) => places.has(label.sample_id));
  const later = known.filter(({ sample_id, timestamp = '' }) => {
    const mine = labels.get(sample_id);
    return !isDone({ id: sample_id }) || timestamp > (mine.timestamp ?? '');
  });
  write(later.map(({ sample_id, notes = '', timestamp = '', ...label }) => {
    const said = Object.fromEntries(questions.map(({ name }) => [name, label[name]]));
    return [sample_id, { ...said, notes, timestamp }];
  }));
  const parts = [`${later.length} labels imported`];
  if (known.length > later.length) parts.push(`${known.length - later.length} older than yours left out`);
  if (list.length > known.length) parts.push(`${list.length - known.length} of other samples left out`);
  say(parts.join(', ') + '.');
  go(place);
}

/** Whether it names a picture and answers all questions; of pictures of other samples the answers are not known. */
function isLabel(label) {
  if (!label?.sample_id) return false;
  const sample = samples[places.get(label.sample_id)];
  return questions.every((question) => {
    const answers = sample ? answersOf(question, sample) : question.answers;
    return answers ? answers.some(({ value }) => value === label[question.name]) : question.name in label;
  });
}

/** Buttons for all answers: once, or for each sample if they are pictures. */
function showAnswers(sample) {
  if ($('verdicts').children.length && questions.every(({ answers }) => answers)) return;
  $('verdicts').replaceChildren(...questions.flatMap((question, at) => {
    const answers = answersOf(question, sample);
    const buttons = answers.map((answer, i) => {
      const button = document.createElement('button');
      button.dataset.question = at;
      button.dataset.verdict = answer.value;
      const sign = answer.key ?? String(i + 1);
      button.setAttribute('aria-keyshortcuts', sign);
      if (answer.image) {
        const picture = new Image();
        picture.src = answer.image;
        picture.alt = answer.label;
        button.append(picture);
      }
      button.append(element('b', answer.label));
      if (answer.hint) button.append(element('span', answer.hint));
      if (questions.length === 1) button.append(element('kbd', sign));
      return button;
    });
    if (questions.length === 1) return buttons;
    const group = document.createElement('fieldset');
    group.append(element('legend', question.title), ...buttons);
    return [group];
  }));
  const kind = questions.length > 1 ? 'scales' : questions[0].answers ? '' : 'choice';
  $('verdicts').className = kind;
  document.body.dataset.kind = kind;
}

function showTask(sample) {
  $('prompt').textContent = sample.prompt ? `“${sample.prompt}”` : '';
  $('prompt').hidden = !sample.prompt;
  if (sample.question) return $('question').replaceChildren(sample.question);
  const relation = RELATIONS[sample.relation] ?? sample.relation.replaceAll('_', ' ');
  $('question').replaceChildren('Is the ', em(sample.a), ` ${relation} the `, em(sample.b), '?');
}

function show() {
  const sample = here();
  const label = labels.get(sample.id);
  const done = samples.filter(isDone).length;
  $('place').textContent = `Picture ${place + 1} of ${samples.length}`;
  const each = !isOne ? [] : questions[0].answers.map(({ value, label }) =>
    `${samples.filter((one) => saidOf(one, questions[0]) === value).length} ${label.toLowerCase()}`);
  $('counts').replaceChildren(`${done} labelled`, element('span', each.length ? `: ${each.join(', ')}` : ''));

  $('no-picture').hidden = true;
  $('picture').hidden = false;
  if ($('picture').getAttribute('src') !== sample.image) {
    // A browser keeps the last picture in sight until the new one has come.
    $('picture').classList.add('coming');
    $('picture').src = sample.image;
  }
  const next = samples[order[place + 1]];
  if (next && !next.image.startsWith('data:')) new Image().src = next.image;

  showTask(sample);
  showAnswers(sample);
  for (const button of document.querySelectorAll('[data-verdict]')) {
    const said = label?.[questions[button.dataset.question].name];
    button.setAttribute('aria-pressed', String(button.dataset.verdict === String(said)));
  }
  $('notes').value = label?.notes ?? '';
  $('undo').disabled = !past.length;
  $('export').classList.toggle('ready', done === samples.length);
  document.querySelector('[data-act=previous]').disabled = place === 0;
  document.querySelector('[data-act=next]').disabled = place === order.length - 1;

  $('checker').hidden = !sample.verdict;
  $('verdict').replaceChildren(...Object.entries(!sample.verdict ? {} : {
    Verdict: sample.verdict, Confidence: sample.conf.toFixed(3), Method: sample.method, Sample: sample.id,
  }).flatMap(([name, value]) => [element('dt', name), element('dd', value)]));
  showTrack();
}

function showTrack() {
  const cells = $('track').children;
  order.forEach((i, at) => {
    const said = !isDone(samples[i]) ? '' : isOne ? `said-${answersOf(questions[0], samples[i]).findIndex(({ value }) => value === saidOf(samples[i], questions[0]))}` : 'said';
    cells[at].className = at === place ? 'here' : said;
  });
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
/** The answer with this number, or with this letter; of several questions, to the first that is open. */
function answer(sign) {
  const question = questions.find((one) => saidOf(here(), one) === undefined) ?? questions.at(-1);
  const answers = answersOf(question, here());
  const found = answers.find((one, i) => one.key?.toLowerCase() === sign || String(i + 1) === sign);
  if (found) judge(question, found.value);
  return Boolean(found);
}
const keys = {
  arrowleft: acts.previous, arrowright: acts.next, g: acts.open, z: acts.undo,
  n: acts.notes, v: acts.reveal, e: acts.export, i: acts.import, '?': acts.help,
};

document.addEventListener('keydown', (event) => {
  if ($('help').open) return;
  if (event.target === $('notes')) {
    if (event.key === 'Escape') $('notes').blur();
    return;
  }
  const sign = event.key.toLowerCase();
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (plain && !event.repeat && answer(sign)) return event.preventDefault();
  const act = keys[sign];
  const undoing = (event.ctrlKey || event.metaKey) && event.key === 'z';
  if (!act || ((event.ctrlKey || event.metaKey || event.altKey) && !undoing)) return;
  event.preventDefault();
  if (!event.repeat || event.key.startsWith('Arrow')) act();
});
document.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (button?.dataset.verdict) {
    const question = questions[button.dataset.question];
    const said = answersOf(question, here()).find(({ value }) => String(value) === button.dataset.verdict);
    judge(question, said.value);
  }
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

$('help-text').textContent = help;
$('help-keys').prepend(...questions[0].answers?.flatMap(({ label, key: sign }, i) => {
  const term = document.createElement('dt');
  term.append(...[sign, String(i + 1)].filter(Boolean).map((one) => element('kbd', one)));
  return [term, element('dd', label)];
}) ?? []);
$('track').append(...order.map(() => document.createElement('i')));
$('track').classList.toggle('dense', order.length > 250);
place = load();
if (labels.size) say(`Going on with ${samples.filter(isDone).length} labels of an earlier time.`);
if (!kept) say('This browser does not keep labels: export them before you close the page.', true);
show();
