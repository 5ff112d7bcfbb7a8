// The form's fields ↔ what is sent. The server decides what is right; here only what it could not know is checked: fields that are
// no numbers.
import { $, kept, stepsSaid } from './dom.js';
import { writeExact } from './png.js';
import * as boxes from './boxes.js';
import { act, actsFor, give, giveShare, setAct, share } from './acts.js';
import { setPrompt } from './prompt.js';
import { fillLoras, loras, lorasOf } from './loras.js';
import { fillStart, startImage } from './start.js';
import { fillShown, shown, shownNames } from './shown.js';

const form = $('composer');
const at = (name) => form.elements.namedItem(name);
/** The most seeds of one press. */
const MOST_SEEDS = 64;

/** Wrong input, with the field that it is in. */
export class FieldError extends Error {
  constructor(message, field) { super(message); this.field = field; }
}

const text = (name) => at(name).value.trim();

/** A field's number; undefined if it is empty. */
function numberOf(name, label) {
  if (at(name).validity.badInput) throw new FieldError(`${label} is no number`, name);
  const value = text(name);
  return value === '' ? undefined : Number(value);
}

/** Steps as the server takes them: 2-14, 2- or -14; undefined for all. */
function stepsOf(name) {
  const typed = text(name).replace(/\s*[-–]\s*/, '-');
  if (typed && !/^(\d+-?\d*|-\d+)$/.test(typed)) throw new FieldError('Steps look like 2-14, 2- or -14, counted from 0', name);
  return typed || undefined;
}

/** A whole number of up to 20 digits stays text where a number would lose its end. */
const seedOf = (big) => (big <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(big) : String(big));

export function seeds() {
  const typed = text('seed');
  if (!/^\d{1,20}$/.test(typed) || BigInt(typed) >= 1n << 64n) throw new FieldError('The first seed is a whole number from 0 to 18446744073709551615', 'seed');
  const count = numberOf('count', 'The number of seeds') ?? 1;
  if (!Number.isInteger(count) || count < 1 || count > MOST_SEEDS) throw new FieldError(`Ask for 1 to ${MOST_SEEDS} seeds`, 'count');
  return Array.from({ length: count }, (_, i) => seedOf((BigInt(typed) + BigInt(i)) % (1n << 64n)));
}

/** What guidance is asked for; undefined for none. */
function guide() {
  const method = text('method');
  if (!method) return undefined;
  const set = {
    preset: text('preset') === 'default' ? undefined : text('preset') || undefined,
    steps: numberOf('guide_steps', 'The number of guided steps'), from_step: numberOf('from_step', 'The first guided step'), scale: numberOf('scale', 'The strength'),
    refine: { true: true, false: false }[text('refine')],
  };
  for (const label of form.querySelectorAll('[data-reads]')) {
    const field = label.querySelector('[name]');
    if (!label.hidden && field.value.trim() !== '') set[field.name] = field.type === 'number' ? numberOf(field.name, 'The distance') : field.value;
  }
  return { method, ...set };
}

export function search() {
  const kind = text('search');
  if (!kind) return undefined;
  const best_of = numberOf('best_of', 'N');
  if (!Number.isInteger(best_of) || best_of < 1) throw new FieldError('N is a whole number, at least 1', 'best_of');
  return { best_of, reward: text('reward') || undefined, pruning: kind === 'prune' ? 'auto' : undefined };
}

function chosenLoras() {
  const chosen = loras(({ name, dataset }) => { throw new FieldError(`The weight of ${dataset.lora} is no number`, name); });
  return chosen.length ? chosen : undefined;
}

/** What is shown to the network. */
function shownPictures() {
  const size = ['width', 'height'].map((side) => numberOf(side, `The ${side}`) ?? 64);
  return shown(act === 'masks', size, ({ name }) => { throw new FieldError(`The scale of ${name.replace('shown:', '')} is no number`, name); });
}

/** The request and all that goes with it, as the server takes it. */
export function body() {
  const prompt = at('prompt').value.trim();
  if (!prompt) throw new FieldError('Say what the picture should show', 'prompt');
  const guided = guide();
  const searched = search();
  const request = {
    prompt,
    negative_prompt: text('negative_prompt') || undefined,
    ...actsFor(prompt),
    guide: guided,
    width: numberOf('width', 'The width'), height: numberOf('height', 'The height'), steps: numberOf('steps', 'The number of steps'),
    guidance_scale: numberOf('guidance_scale', 'The guidance scale'), guidance_steps: stepsOf('guidance_steps'), scheduler: text('scheduler') || undefined,
    checkpoint: text('checkpoint') || undefined,
    noise: text('noise') || undefined,
    clip_skip: numberOf('clip_skip', 'The number of CLIP layers left out'),
    loras: chosenLoras(),
    pictures: shownPictures(),
    init: startImage() && { image: startImage(), strength: numberOf('strength', 'The strength') },
  };
  return {
    request, seeds: seeds(), search: searched,
    plain: Boolean(guided && !searched && at('plain').checked),
  };
}

/** A body as JSON for people. */
export const asJson = (given, indent) => writeExact(given, indent);

const ASKED = ['prompt', 'negative_prompt', 'seed', 'width', 'height', 'steps', 'guidance_scale', 'guidance_steps', 'scheduler', 'relations', 'boxes', 'regions', 'ground', 'guide', 'clip_skip', 'noise', 'loras', 'timestep_spacing', 'savings', 'init', 'pictures'];
/** What a finished picture's request asks for, as it would be sent: without where files are and what found it. */
export function asAsked(request) {
  const fields = Object.entries(request).filter(([name]) => ASKED.includes(name));
  const asked = { ...Object.fromEntries(fields), checkpoint: request.checkpoint ?? request.model?.checkpoint };
  return { request: asked, seeds: [request.seed], second_pass: request.second_pass };
}

const set = (name, value) => {
  const field = at(name);
  if (!field || value === undefined || value === null) return false;
  if (field.type === 'checkbox') field.checked = Boolean(value);
  else if (field.tagName === 'SELECT' && ![...field.options].some((option) => option.value === String(value))) return false;
  else field.value = String(value);
  return true;
};

/** Fills the form from a request. Returns the names of what it has no field for, or no such choice. */
export function fill(request, extras = {}) {
  const left = [];
  const known = new Set(['prompt', 'negative_prompt', 'seed', 'width', 'height', 'steps', 'guidance_scale', 'guidance_steps', 'scheduler', 'guide', 'relations', 'boxes', 'regions', 'ground', 'found', 'noise', 'model', 'checkpoint', 'clip_skip', 'vae_tiling', 'loras', 'init', 'pictures']);
  for (const name of Object.keys(request)) if (!known.has(name)) left.push(name);
  setPrompt(typeof request.prompt === 'string' ? request.prompt : '');
  at('negative_prompt').value = typeof request.negative_prompt === 'string' ? request.negative_prompt : '';
  for (const name of ['seed', 'width', 'height', 'steps', 'guidance_scale']) if (/^[\d.]+$/.test(String(request[name] ?? ''))) set(name, request[name]);
  at('guidance_steps').value = stepsSaid(request.guidance_steps);
  if (request.scheduler && !set('scheduler', request.scheduler)) left.push('scheduler');
  if (!request.scheduler) at('scheduler').value = '';
  const checkpoint = request.checkpoint ?? request.model?.checkpoint;
  if (checkpoint && !set('checkpoint', checkpoint)) left.push(`checkpoint ${checkpoint}`);
  if (!set('noise', request.noise)) at('noise').selectedIndex = 0;
  at('clip_skip').value = Number.isInteger(request.clip_skip) && request.clip_skip > 0 ? request.clip_skip : '';
  left.push(...fillLoras(lorasOf(request)).map((name) => `LoRA ${name}`));
  set('strength', Number.isFinite(request.init?.strength) ? request.init.strength : undefined);
  if (!fillStart(request.init)) left.push('start picture');
  if (!fillShown(request.pictures)) left.push('shown pictures');
  else if (shownOf(request).some(({ region }) => region?.mask)) left.push('masks of shown pictures');
  const guided = request.guide ?? {};
  if (!set('method', guided.method ?? '')) left.push(`method ${guided.method}`);
  at('method').dispatchEvent(new Event('change', { bubbles: true }));
  set('preset', guided.preset ?? 'default');
  for (const [field, value] of [['guide_steps', guided.steps], ['from_step', guided.from_step], ['scale', guided.scale], ['refine', guided.refine], ['loss', guided.loss], ['combine', guided.combine], ['distance', guided.distance]]) at(field).value = value ?? '';
  for (const name of ['resolution', 'smoothing', 'layers', 'tokens', 'every', 'extrapolate', 'classifier', 'updates', 'threshold']) if ((guided[name] ?? null) !== null) left.push(`guide ${name}`);
  if (guided.one_pass) left.push('guide one_pass');
  const search = extras.search;
  set('search', search ? (search.pruning ? 'prune' : 'full') : '');
  if (search) { set('best_of', search.best_of); set('reward', search.reward); }
  set('count', extras.count ?? 1);
  if (extras.plain !== undefined) set('plain', extras.plain);
  left.push(...fillBoxes(request));
  form.dispatchEvent(new Event('input', { bubbles: true }));
  form.dispatchEvent(new Event('change', { bubbles: true }));
  return left;
}

/** The boxes of shown pictures; what a mask was drawn from is not known any more. */
const shownOf = (request) => (Array.isArray(request.pictures) ? request.pictures : []);
const shownBoxes = (request) => (shownNames().length ? shownOf(request) : []).map(({ region }, i) => ({ object: `picture ${i + 1}`, box: region?.box })).filter(({ box }) => box);

/** Fills the board. Returns the names of what it has no place for beside the boxes. */
function fillBoxes(request) {
  const good = (box) => Array.isArray(box) && box.length === 4 && box.every((share) => Number.isFinite(share));
  const relations = (Array.isArray(request.relations) ? request.relations : []).filter((one) => typeof one === 'string').slice(0, 20);
  giveShare(request.ground?.share);
  let taken = 'relations';
  if (Array.isArray(request.regions) && request.regions.length) {
    const parts = String(request.prompt).split(/\bAND\b/);
    boxes.replace(request.regions.filter(({ box }) => good(box)).map(({ part, box }) => ({ object: (parts[part - 1] ?? `part ${part}`).trim(), box })));
    setAct('regions');
    taken = 'regions';
  } else if (Array.isArray(request.boxes) && request.boxes.length) {
    boxes.replace(request.boxes.filter(({ box }) => good(box)).map(({ object, box }) => ({ object: String(object), box })));
    setAct(request.ground ? 'ground' : 'boxes');
    taken = 'boxes';
  } else if (shownBoxes(request).length) {
    boxes.replace(shownBoxes(request).filter(({ box }) => good(box)));
    setAct('masks');
    taken = 'masks';
  } else {
    boxes.replace([]);
    give(relations);
  }
  const has = (name) => Array.isArray(request[name]) && request[name].length > 0;
  return [
    has('relations') && (taken !== 'relations' || relations.length < request.relations.length) && 'relations',
    has('boxes') && taken !== 'boxes' && 'boxes',
    taken !== 'masks' && shownBoxes(request).length > 0 && 'boxes of shown pictures',
    request.ground && act !== 'ground' && 'GLIGEN',
  ].filter(Boolean);
}

/** Keeps what is in the form for the next visit. */
export function keep() {
  const values = {};
  for (const field of form.elements) if (field.name) values[field.name] = field.type === 'checkbox' ? field.checked : field.value;
  kept.write('form', { values, boxes: boxes.all().map(({ object, box }) => ({ object, box })), act, share, loras: loras() });
}

/** Brings it back; for a first visit, what shows most. */
export function bringBack(first) {
  const { values = {}, boxes: placed = [], act: how, share: part, loras: merged = [] } = kept.read('form', {});
  for (const [name, value] of Object.entries({ ...first, ...values })) if (name !== 'prompt') set(name, value);
  if (!at('seed').value) at('seed').value = '0';
  if (Array.isArray(placed)) boxes.replace(placed.filter(({ object, box }) => typeof object === 'string' && Array.isArray(box) && box.length === 4 && box.every(Number.isFinite)));
  if (Array.isArray(merged)) fillLoras(lorasOf({ loras: merged }));
  giveShare(part);
  if (how) setAct(how);
  setPrompt(typeof values.prompt === 'string' ? values.prompt : first.prompt);
}
