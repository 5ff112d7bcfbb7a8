// Pictures that the checkpoint's IP-Adapters show to the network, each everywhere or in its boxes on the board alone. They go with the
// request and are kept by this tab alone.
import { $, element, say } from './dom.js';
import * as boxes from './boxes.js';
import { base64Of, readPicture } from './start.js';

const list = $('shown-list');
/** {name, label, base64, address, line, scale, adapter}; `name` is what its boxes are called by, `label` the file's. */
let held = [];
let next = 1;
let adapters = [];
let onShown = () => {};

/** Calls `changed` when other pictures are shown. */
export function useShown(changed) { onShown = changed; }

/** `names` are the files of the checkpoint's adapters; without any nothing can be shown. */
export function useAdapters(names) {
  adapters = names;
  $('shown-settings').hidden = !names.length;
  for (const { adapter } of held) fillAdapters(adapter);
  tell();
}

/** Whether pictures can be shown. */
export const canShow = () => adapters.length > 0;

/** What boxes can be for. */
export const shownNames = () => (canShow() ? held.map(({ name }) => name) : []);

function tell() {
  say($('shown-said'), held.length ? String(held.length) : 'none');
  onShown();
}

function fillAdapters(select) {
  const before = select.value;
  select.replaceChildren(...adapters.map((name, i) => element('option', { value: i + 1 }, name)));
  if (Number(before) <= adapters.length && before) select.value = before;
  select.parentNode.hidden = adapters.length < 2;
}

function problem(text) {
  $('shown-problem').hidden = !text;
  say($('shown-problem'), text ?? '');
}

function remove(one) {
  URL.revokeObjectURL(one.address);
  held = held.filter((other) => other !== one);
  one.line.remove();
  for (const { id, object } of boxes.all()) if (object === one.name) boxes.remove(id);
  tell();
  (held.at(-1)?.line.querySelector('.remove') ?? $('shown-choose')).focus();
}

function add({ base64, name: label, address }, { scale = 1, adapter = 1 } = {}) {
  const name = `picture ${next++}`;
  const one = { name, label, base64, address };
  one.scale = element('input', { type: 'number', step: 'any', inputmode: 'decimal', name: `shown:${name}`, 'aria-label': `Scale of ${name}`, title: 'How strongly', '.value': String(scale) });
  one.adapter = element('select', { 'aria-label': `Adapter of ${name}` });
  one.line = element('li', {}, element('img', { src: address, alt: label }), element('span', { title: label }, element('b', {}, name), ` ${label}`), one.scale,
    element('button', { type: 'button', class: 'quiet remove', 'aria-label': `Show ${name} no more`, onclick: () => remove(one) }, '×'), element('div', { class: 'adapter' }, one.adapter));
  held.push(one);
  list.append(one.line);
  fillAdapters(one.adapter);
  if (adapter <= adapters.length) one.adapter.value = adapter;
  $('shown-settings').open = true;
  tell();
  return one;
}

/** Shows a file, or what the history has, if the browser can. Returns whether it does. */
export async function showFrom(blob, name) {
  problem(null);
  try {
    add(await readPicture(blob, name));
    return true;
  } catch (error) {
    $('shown-settings').open = true;
    problem(`${name.slice(0, 80)}: ${error.message}.`);
    return false;
  }
}

/** White in `placed`, black elsewhere, as base64: a mask for several boxes of one picture. */
function maskOf(placed, [width, height]) {
  const canvas = element('canvas', { width, height });
  const pen = canvas.getContext('2d');
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = '#fff';
  for (const [x0, y0, x1, y1] of placed) {
    const [left, top] = [Math.round(x0 * width), Math.round(y0 * height)];
    pen.fillRect(left, top, Math.round(x1 * width) - left, Math.round(y1 * height) - top);
  }
  return canvas.toDataURL('image/png').replace(/^data:[^,]*,/, '');
}

/** What is shown, as the server takes it, with its boxes where they act as masks; a scale that is no number is left to `wrong(field)`. */
export function shown(masked, size, wrong) {
  if (!canShow() || !held.length) return undefined;
  return held.map(({ name, base64, scale, adapter }) => {
    const placed = masked ? boxes.all().filter(({ object }) => object === name).map(({ box }) => box) : [];
    return {
      image: base64,
      scale: Number.isFinite(scale.valueAsNumber) ? scale.valueAsNumber : wrong(scale),
      adapter: adapters.length > 1 ? Number(adapter.value) : undefined,
      region: placed.length > 1 ? { mask: maskOf(placed, size) } : placed.length ? { box: placed[0] } : undefined,
    };
  });
}

/** Takes what a request shows, with the boxes. Returns whether the pictures were there: finished requests name only their hashes or files. */
export function fillShown(pictures) {
  for (const { line, address } of held) { URL.revokeObjectURL(address); line.remove(); }
  held = [];
  next = 1;
  const given = Array.isArray(pictures) ? pictures.slice(0, 16) : [];
  const there = given.filter(({ image }) => typeof image === 'string' && !image.startsWith('sha256:'));
  for (const { image, scale, adapter } of there) {
    try {
      const bytes = Uint8Array.from(atob(image.replace(/^data:[^,]*,/, '')), (letter) => letter.charCodeAt(0));
      const address = URL.createObjectURL(new Blob([bytes]));
      add({ base64: base64Of(bytes), name: 'as before', address }, { scale, adapter });
    } catch { /* Told with those that are not there. */ }
  }
  tell();
  return held.length === given.length;
}

$('shown-choose').addEventListener('click', () => $('shown-file').click());
$('shown-file').addEventListener('change', async () => {
  const files = [...$('shown-file').files];
  $('shown-file').value = '';
  for (const file of files) await showFrom(file, file.name);
});
