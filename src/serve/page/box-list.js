// The boxes as a list: four numbers each, and a handle that the arrow keys move. This is how the keyboard and a screen reader reach
// what the board shows.
import { $, element, say } from './dom.js';
import * as boxes from './boxes.js';

const list = $('box-list');
const SIDES = ['left', 'top', 'right', 'bottom'];
/** One hundredth of the picture a press. */
const STEP = 0.01;
let hueOf = () => 0;
/** id → {line, handle, fields}; lines are kept while their box is, so that the focus is. */
const lines = new Map();

export function useList(colour) { hueOf = colour; show(); }

const percent = (share) => String(Math.round(share * 1000) / 10);

function lineOf({ id, object }) {
  const handle = element('button', { type: 'button', class: 'handle', onkeydown: (event) => act(event, id), onfocus: () => boxes.choose(id), onclick: () => boxes.choose(id) });
  const fields = SIDES.map((side, at) => element('input', {
    type: 'number', min: 0, max: 100, step: 1, inputmode: 'decimal', 'aria-label': `${object}: ${side}, percent`, title: `${side}, %`,
    onfocus: () => boxes.choose(id),
    onchange: (event) => {
      const value = event.target.valueAsNumber;
      const box = [...boxes.all().find((one) => one.id === id).box];
      if (Number.isFinite(value)) box[at] = value / 100;
      boxes.change(id, box);
      // Not overwritten while it has the focus, except by what became of it.
      event.target.value = percent(boxes.all().find((one) => one.id === id).box[at]);
    },
  }));
  const remove = element('button', { type: 'button', class: 'quiet remove', 'aria-label': `Remove the box of ${object}`, onclick: () => removed(id) }, '×');
  return { line: element('li', {}, handle, fields, remove), handle, fields };
}

function act(event, id) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const by = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] }[event.key];
  if (by) (event.shiftKey ? boxes.stretch : boxes.move)(id, ...by);
  else if (event.key === 'Delete' || event.key === 'Backspace') removed(id);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Takes a box away and leaves the focus on a neighbour. */
function removed(id) {
  const order = boxes.all().map((one) => one.id);
  const at = order.indexOf(id);
  boxes.remove(id);
  const neighbour = order[at + 1] ?? order[at - 1];
  (lines.get(neighbour)?.handle ?? $('box-add')).focus();
}

function show() {
  $('box-heads').hidden = !boxes.all().length;
  const present = new Set(boxes.all().map(({ id }) => id));
  for (const [id, { line }] of lines) if (!present.has(id)) { line.remove(); lines.delete(id); }
  boxes.all().forEach((one, at) => {
    if (!lines.has(one.id)) lines.set(one.id, lineOf(one));
    const { line, handle, fields } = lines.get(one.id);
    line.className = `h${hueOf(one.object)}`;
    const [left, top, right, bottom] = one.box.map(percent);
    say(handle, String(one.object));
    handle.setAttribute('aria-label', `${one.object}: ${left} to ${right} percent across, ${top} to ${bottom} percent down. Arrow keys move it, with Shift they stretch it, Delete removes it`);
    fields.forEach((field, side) => { if (field !== document.activeElement) field.value = percent(one.box[side]); });
    if (list.children[at] !== line) list.insertBefore(line, list.children[at] ?? null);
  });
}

boxes.onBoxes(show);
