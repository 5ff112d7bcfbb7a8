// The form as a whole: its choices come from what the server says it can do, and Make sends what it holds.
import { $, element, choice, refill, say, plural, whenQuiet } from './dom.js';
import * as api from './api.js';
import * as boxes from './boxes.js';
import { asked } from './jobs.js';
import { body, bringBack, FieldError, keep, search, seeds } from './form.js';
import { colourOf, fitShown, names, show as showActs, useActs, useCheckpoint } from './acts.js';
import { onReading, readAgain } from './prompt.js';
import { draw as drawBoard, useBoard } from './board.js';
import { useList } from './box-list.js';
import { catchUp, watch } from './stream.js';
import { useLoras } from './loras.js';
import { startImage, useStart } from './start.js';
import { useAdapters, useShown } from './shown.js';

const form = $('composer');
const at = (name) => form.elements.namedItem(name);
let facts = { checkpoints: [], methods: [], schedulers: [], rewards: [] };
let onMade = () => {};

/** Sets the form up. `made(id)` is called when a job was taken. */
export function useCompose(about, made) {
  facts = about;
  onMade = made;
  const options = (id, all) => $(id).replaceChildren(...all.map(([value, text]) => element('option', { value }, text)));
  options('method', [['', 'none'], ...facts.methods.map(({ name, known_as }) => [name, known_as && known_as !== name ? `${name} (${known_as})` : name])]);
  options('checkpoint', facts.checkpoints.map(({ name }) => [name, name]));
  options('scheduler', [['', 'the checkpoint’s'], ...facts.schedulers.map((name) => [name, name])]);
  options('noise', (facts.noises ?? []).map((name) => [name, name]));
  options('reward', facts.rewards.filter(({ available }) => available !== false).map(({ name, about }) => [name, about ?? name]));
  $('checkpoint-line').hidden = facts.checkpoints.length < 2;
  useLoras((facts.loras ?? []).map(({ name }) => name), changed);
  useStart(changed);
  useShown(() => { fitShown(); changed(); });
  const first = checkpoint();
  bringBack({
    prompt: 'a dog to the left of a cat', seed: '0', count: 4, plain: true, method: facts.methods.some(({ name }) => name === 'pos') ? 'pos' : '',
    checkpoint: first?.name, width: first?.width, height: first?.height, steps: first?.steps, guidance_scale: first?.guidance_scale,
  });
  useActs((kind) => { fitMethod(kind); changed(); });
  useBoard(nextObject, colourOf);
  useList(colourOf);
  methodChanged();
  checkpointChanged(false);
  if (boxes.all().length) $('layout').open = true;
  changed();
}

const checkpoint = () => facts.checkpoints.find(({ name }) => name === at('checkpoint').value) ?? facts.checkpoints.find((one) => one.default) ?? facts.checkpoints[0];
const method = () => facts.methods.find(({ name }) => name === at('method').value);

/** Which object the next box is for: as chosen, else the first without one. */
let wanted = null;
function nextObject() {
  const all = names();
  if (wanted !== null && all.includes(wanted)) return wanted;
  return all.find((name) => !boxes.all().some(({ object }) => object === name)) ?? all[0] ?? null;
}

function objectsNode() {
  const all = names();
  const next = nextObject();
  if (!all.length) refill($('box-object'), element('span', { class: 'note' }, 'No object in the prompt'));
  else {
    const node = choice('Object of the next box', all.map((name) => [name, name]), next, (name) => { wanted = name; objectsNode(); drawBoard(); });
    node.querySelectorAll('button').forEach((button) => button.classList.add(`h${colourOf(button.dataset.value)}`));
    refill($('box-object'), node);
  }
  $('box-add').disabled = next === null;
}

/** The boxes' use and the method must fit: who asks for boxes gets a method that goes by them. */
function fitMethod(kind) {
  if (kind !== 'boxes' || method()?.needs === 'boxes') return;
  const first = facts.methods.find(({ needs }) => needs === 'boxes');
  if (first) { at('method').value = first.name; methodChanged(); }
}

function methodChanged() {
  const one = method();
  say($('method-about'), one ? `${one.about}.` : 'The checkpoint as it is.');
  $('constants').hidden = !one;
  $('plain-line').hidden = !one || Boolean(at('search').value);
  if (!one) return;
  const before = at('preset').value;
  $('preset').replaceChildren(...one.presets.map((name) => element('option', { value: name }, name)));
  if (one.presets.includes(before)) at('preset').value = before;
  for (const label of form.querySelectorAll('[data-reads]')) label.hidden = !one.reads.includes(label.dataset.reads);
}

function checkpointChanged(fill) {
  const one = checkpoint();
  if (!one) return;
  useCheckpoint(one);
  useAdapters(one.adapters ?? []);
  if (fill) for (const name of ['width', 'height', 'steps', 'guidance_scale']) if (one[name] !== undefined) at(name).value = one[name];
  for (const side of ['width', 'height']) Object.assign(at(side), { step: one.factor ?? 8 });
  readAgain();
}

/** Says beside the headings what is in the folded parts, and on the button what it will make. */
function changed() {
  const [width, height] = [Number(at('width').value) || 1, Number(at('height').value) || 1];
  $('board').style.setProperty('--aspect', `${width} / ${height}`);
  say($('picture-said'), `${at('width').value} × ${at('height').value}, ${at('steps').value} steps${startImage() ? `, from a picture` : ''}`);
  $('search-fields').hidden = !at('search').value;
  $('plain-line').hidden = !method() || Boolean(at('search').value);
  let count = '';
  try {
    const all = seeds().length;
    const found = search();
    count = found ? `best of ${found.best_of}${all > 1 ? ` for ${all} seeds` : ''}` : plural(all * (method() && at('plain').checked ? 2 : 1), 'picture');
  } catch { /* Said when it is sent. */ }
  say($('go-said'), count);
  objectsNode();
  showActs();
  keepSoon();
}
const keepSoon = whenQuiet(keep, 400);

form.addEventListener('input', (event) => { event.target.removeAttribute?.('aria-invalid'); changed(); });
form.addEventListener('change', (event) => {
  if (event.target.name === 'method') methodChanged();
  if (event.target.name === 'checkpoint') checkpointChanged(true);
  // One search is enough to begin with.
  if (event.target.name === 'search' && event.target.value && event.isTrusted) at('count').value = 1;
  changed();
});
boxes.onBoxes(() => { objectsNode(); keepSoon(); });
onReading(() => { objectsNode(); showActs(); drawBoard(); });
$('layout').addEventListener('toggle', drawBoard);
$('box-add').addEventListener('click', () => {
  const object = nextObject();
  if (object === null) return;
  wanted = null;
  boxes.add(object, boxes.freePlace());
  objectsNode();
  $('box-list').lastElementChild.querySelector('.handle').focus();
});
$('seed-draw').addEventListener('click', () => {
  at('seed').value = String(crypto.getRandomValues(new Uint32Array(1))[0] % 1_000_000);
  changed();
});
form.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
});

function problem(text, field) {
  const line = $('problem');
  for (const wrong of form.querySelectorAll('[aria-invalid]')) { wrong.removeAttribute('aria-invalid'); if (wrong.getAttribute('aria-describedby') === 'problem') wrong.removeAttribute('aria-describedby'); }
  line.hidden = !text;
  line.textContent = text ?? '';
  if (text) line.scrollIntoView({ block: 'center' });
  // The server names fields as requests do.
  const names = { steps: 'steps', 'guide.steps': 'guide_steps', 'guide.scale': 'scale', 'search.best_of': 'best_of', seeds: 'count', 'init.strength': 'strength', 'init.image': 'start_choose', pictures: 'shown_choose' };
  const name = String(field ?? '').replace(/^request\./, '');
  const wrong = text && field ? at(names[name] ?? name) : null;
  if (!(wrong instanceof HTMLElement) || !wrong.name) return;
  wrong.closest('details')?.setAttribute('open', '');
  wrong.setAttribute('aria-invalid', 'true');
  if (!wrong.getAttribute('aria-describedby')) wrong.setAttribute('aria-describedby', 'problem');
  wrong.focus();
}

/** The form as it would be sent; null after it said what is wrong. */
export function compose() {
  problem(null);
  try { return body(); } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    problem(error.message, error.field);
    return null;
  }
}

let sending = false;
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const sent = compose();
  // A second press while the first is on its way would make everything twice.
  if (!sent || sending) return;
  sending = true;
  try {
    const { id } = await api.submit(sent);
    keep();
    asked(id, sent);
    onMade(id);
    watch(id);
    // What happened before the stream was open.
    catchUp(id).catch(() => {});
  } catch (error) {
    problem(`${error.message[0].toUpperCase()}${error.message.slice(1)}`, error.field);
  }
  sending = false;
});

