// What the drawn boxes are for: relations between objects, boxes that a method or GLIGEN's layers hold objects in, regions in which
// parts of a composed prompt act, or masks of pictures that are shown to the network.
import { $, element, number, plural, say } from './dom.js';
import * as boxes from './boxes.js';
import { partsOf, reading, setPrompt } from './prompt.js';
import { canShow, shownNames } from './shown.js';

const KINDS = [
  ['relations', 'Relations', 'How the boxes’ centres lie to each other is what guidance and search go by.'],
  ['boxes', 'Boxes for BoxDiff or layout guidance', 'Attention is drawn into each object’s box.'],
  ['ground', 'GLIGEN boxes', 'Layers trained for it put each object into its box.'],
  ['regions', 'Regions', 'Each part of a prompt joined by AND acts in its boxes alone.'],
  ['masks', 'Masks of shown pictures', 'Each shown picture acts in its boxes alone, and everywhere without one.'],
];
export let act = 'relations';
/** Relations that a request came with and no box says, as `dog | left of | cat`. */
let given = [];
/** The share of the steps in which GLIGEN's layers act: the one of the command line, unless a request came with another. */
const SHARE = 0.3;
export let share = SHARE;
let onAct = () => {};

/** Called with the new act when somebody chooses it. */
export function useActs(listener) { onAct = listener; }

export function setAct(kind) {
  const radio = radios.get(kind);
  if (!radio || radio.disabled) return;
  act = kind;
  radio.checked = true;
  show();
}

/** Relations in place of those that the prompt states. */
export function give(relations) {
  given = relations;
  show();
}

/** The share of the steps that a request names for GLIGEN's layers; the usual one without. */
export function giveShare(given) {
  share = Number.isFinite(given) ? given : SHARE;
  show();
}

const radios = new Map();
$('acts').append(...KINDS.map(([kind, title, about]) => {
  const radio = element('input', { type: 'radio', name: 'act', value: kind, '.checked': kind === act, 'aria-describedby': `act-${kind}`, onchange: () => { act = kind; onAct(kind); show(); } });
  radios.set(kind, radio);
  return element('label', {}, radio, element('span', {}, title), element('small', { id: `act-${kind}` }, about));
}));

/** Of the checkpoint depends whether there is GLIGEN. */
export function useCheckpoint(facts) {
  const radio = radios.get('ground');
  radio.disabled = !facts?.gligen;
  say($('act-ground'), facts?.gligen ? KINDS[2][2] : 'This checkpoint has no GLIGEN layers.');
  if (radio.disabled && act === 'ground') setAct('boxes');
}

/** Of what is shown depends whether boxes can be masks. */
export function fitShown() {
  const radio = radios.get('masks');
  radio.disabled = !shownNames().length;
  radio.parentNode.hidden = !canShow();
  say($('act-masks'), radio.disabled ? 'No picture is shown.' : KINDS.find(([kind]) => kind === 'masks')[2]);
  if (radio.disabled && act === 'masks') setAct('relations');
  else show();
}

/** The name of an object without its number among several. */
const bare = (object) => String(object).replace(/#\d+$/, '');

/** Which part of the prompt, from 1, a box belongs to: the shortest that holds its object; 0 for none. */
function partOf(object, parts) {
  const fitting = parts.map((part, i) => [part.length, i + 1, part]).filter(([, , part]) => part === object || part.includes(bare(object)));
  return fitting.length ? fitting.reduce((best, one) => (one[0] < best[0] ? one : best))[1] : 0;
}

/** The prompt's objects, in its order; `dog#2` is the second of several, as in requests. */
function objectNames() {
  const found = reading.objects.map(({ name }) => name);
  const times = (name, among) => among.filter((one) => one.toLowerCase() === name.toLowerCase()).length;
  return found.map((name, i) => (times(name, found) > 1 ? `${name}#${times(name, found.slice(0, i + 1))}` : name));
}

/** What a new box can be for. */
export function names() {
  if (act === 'masks') return shownNames();
  const parts = partsOf(reading.prompt);
  return act === 'regions' && parts.length > 1 ? parts : objectNames();
}

/** The number of an object's colour: as in the prompt, or by its first box. */
export function colourOf(object) {
  const at = names().indexOf(object);
  if (at >= 0) return at % 6;
  const known = objectNames().indexOf(object);
  const inPrompt = known >= 0 ? known : reading.objects.findIndex(({ name }) => String(object).includes(name));
  return (inPrompt >= 0 ? inPrompt : boxes.all().findIndex((one) => one.object === object)) % 6;
}

/** The request's fields that say where things go. */
export function actsFor(prompt) {
  const all = boxes.all();
  if (!all.length) return given.length ? { relations: given } : {};
  const placed = all.map(({ object, box }) => ({ object, box }));
  if (act === 'relations') {
    const said = boxes.asRelations();
    return said.length ? { relations: said.map((one) => one.join(' | ')) } : {};
  }
  if (act === 'boxes') return { boxes: placed };
  if (act === 'ground') return { boxes: placed, ground: { share } };
  // They go with the pictures.
  if (act === 'masks') return {};
  const parts = partsOf(prompt);
  return { regions: all.map(({ object, box }) => ({ part: partOf(object, parts), box })).filter(({ part }) => part > 0) };
}

/** The prompt as a whole, then each boxed object as a part of its own. */
function writeParts() {
  const objects = [...new Set(boxes.all().map(({ object }) => bare(object)))];
  setPrompt([$('prompt').value.trim(), ...objects.map((object) => (/^(an?|the|\d+) /.test(object) ? object : `${/^[aeiou]/i.test(object) ? 'an' : 'a'} ${object}`))].join(' AND '));
}

/** Says what the boxes come to. */
export function show() {
  const all = boxes.all();
  const line = $('acts-said');
  say($('layout-said'), all.length ? `${all.length} · ${KINDS.find(([kind]) => kind === act)[1].replace(/ for .*/, '').toLowerCase()}` : 'none');
  if (!all.length && given.length) {
    say($('layout-said'), plural(given.length, 'given relation'));
    return line.replaceChildren(`In place of the prompt’s: ${given.map((one) => one.replaceAll(' | ', ' ')).join('; ')}. `, element('button', { type: 'button', onclick: () => give([]) }, 'As the prompt says'));
  }
  given = [];
  if (!all.length) return line.replaceChildren();
  if (act === 'relations') {
    const said = boxes.asRelations().map((one) => one.join(' '));
    line.replaceChildren(said.length ? `They say: ${said.join('; ')}.` : 'Two boxes of different objects make a relation.');
  } else if (act === 'masks') {
    const known = shownNames();
    const lost = [...new Set(all.map(({ object }) => object).filter((object) => !known.includes(object)))];
    const where = known.map((name) => { const count = all.filter(({ object }) => object === name).length; return `${name} ${count ? `in ${plural(count, 'box', 'boxes')}` : 'everywhere'}`; });
    line.replaceChildren(lost.length ? `Boxes of ${lost.join(', ')} are no masks: each is for a shown picture.` : `${where.join('; ')}.`);
  } else if (act === 'regions') {
    const parts = partsOf($('prompt').value);
    const lost = all.filter(({ object }) => !partOf(object, parts)).map(({ object }) => object);
    if (parts.length < 2) line.replaceChildren('The prompt has no parts joined by AND. ', element('button', { type: 'button', onclick: writeParts }, 'Write each boxed object as a part'));
    else if (lost.length) line.replaceChildren(`No part of the prompt names ${lost.join(', ')}.`);
    else line.replaceChildren(`${new Set(all.map(({ object }) => partOf(object, parts))).size} of ${parts.length} parts are kept to their boxes.`);
  } else if (act === 'ground' && share !== SHARE) {
    line.replaceChildren(`GLIGEN’s layers act in the first ${number(share * 100)} % of the steps. `, element('button', { type: 'button', onclick: () => { giveShare(undefined); onAct(act); } }, `Take ${number(SHARE * 100)} %`));
  } else line.replaceChildren();
}

boxes.onBoxes(show);
