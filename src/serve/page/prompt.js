// The prompt, read by the server as it is typed: its objects are marked in their colours and its relations underlined, and what was
// read stands below in words. The marks lie in a layer under the text, so the text stays an ordinary text field.
import { $, element, hue, whenQuiet, words } from './dom.js';
import * as api from './api.js';

const NOTHING = { prompt: '', spans: [], objects: [], relations: [], trouble: null, notes: [] };
/** What the prompt was last read as. */
export let reading = NOTHING;
const listeners = new Set();
/** Calls `listener` when the prompt has been read. */
export function onReading(listener) { listeners.add(listener); }

const field = $('prompt'), layer = $('marks');
let turn = 0;

const readSoon = whenQuiet(read, 180);

async function read() {
  const prompt = field.value;
  const mine = ++turn;
  if (!prompt.trim()) return show(NOTHING);
  let next;
  try {
    next = await api.read(prompt);
  } catch (error) {
    // A reading that fails must not stand in the way of making a picture; the marks go, the reason is told.
    next = { ...NOTHING, trouble: error.message };
  }
  // An answer about an older text is of no use.
  if (mine === turn) show({ ...NOTHING, ...next, prompt });
}

function show(next) {
  reading = next;
  mark();
  describe();
  for (const listener of listeners) listener(reading);
}

/** Draws the marks. What was typed since the reading has none, and marks before it stay. */
function mark() {
  const text = field.value;
  let same = 0;
  while (same < text.length && text[same] === reading.prompt[same]) same++;
  if (text === reading.prompt) same = Infinity;
  const parts = [];
  let at = 0;
  for (const { start, end, kind, index, known } of reading.spans) {
    if (start < at || end > same || end > text.length) continue;
    parts.push(text.slice(at, start));
    const name = kind === 'object' ? `${hue(index)}${known === false ? ' unknown' : ''}` : 'relation';
    parts.push(element('mark', { class: name }, text.slice(start, end)));
    at = end;
  }
  // The last line needs something on it to have a height.
  parts.push(`${text.slice(at)}\u200b`);
  layer.replaceChildren(...parts);
  layer.scrollTop = field.scrollTop;
}

const named = (index) => element('b', { class: hue(index) }, reading.objects[index]?.name ?? '?');

/** What was read, in words; also what a screen reader tells about the field. */
function describe() {
  const said = [];
  const related = new Set();
  for (const { subject, relation, objects } of reading.relations) {
    related.add(subject);
    objects.forEach((object) => related.add(object));
    said.push(element('span', { class: 'said' }, named(subject), ` ${words(relation)} `, objects.flatMap((object, i) => [i ? ' and ' : null, named(object)])));
  }
  reading.objects.forEach((_, index) => { if (!related.has(index)) said.push(element('span', { class: 'said' }, named(index))); });
  if (reading.trouble) said.push(element('p', { class: 'trouble' }, reading.trouble));
  for (const note of reading.notes) said.push(element('p', { class: 'trouble' }, note));
  $('reading').replaceChildren(...said);
}

/** Replaces the prompt, as if it had been typed. */
export function setPrompt(text) {
  field.value = text;
  field.dispatchEvent(new Event('input', { bubbles: true }));
}

/** Reads the prompt again: another checkpoint may draw other things. */
export const readAgain = () => readSoon();

/** The parts of a composed prompt: what stands between the words AND, without their weights. */
export const partsOf = (prompt) => prompt.split(/\bAND\b/).map((part) => part.replace(/:\s*-?[\d.]+\s*$/, '').trim());

field.addEventListener('input', () => { mark(); readSoon(); });
field.addEventListener('scroll', () => { layer.scrollTop = field.scrollTop; }, { passive: true });
