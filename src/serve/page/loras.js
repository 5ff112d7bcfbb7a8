// LoRAs of the server's folder, each with its weight.
import { $, element } from './dom.js';

const list = $('lora-list'), choices = $('lora-add');
let known = [];
let onLoras = () => {};

/** `names`: what the server has. */
export function useLoras(names, changed) {
  known = names;
  onLoras = changed;
  $('loras-line').hidden = !names.length;
  offer();
}

/** Which are chosen: their weights' fields by name. */
const fields = () => new Map([...list.querySelectorAll('input')].map((field) => [field.dataset.lora, field]));

function offer() {
  const taken = fields();
  const rest = known.filter((name) => !taken.has(name));
  choices.replaceChildren(element('option', { value: '' }, rest.length ? 'Add a LoRA…' : 'All are chosen'), ...rest.map((name) => element('option', { value: name }, name)));
  choices.disabled = !rest.length;
}

function add(name, weight) {
  const field = element('input', { type: 'number', step: 'any', inputmode: 'decimal', name: `lora:${name}`, 'data-lora': name, 'aria-label': `Weight of ${name}`, '.value': String(weight) });
  const remove = element('button', { type: 'button', class: 'quiet remove', 'aria-label': `Leave ${name} out`, onclick: () => { line.remove(); offer(); onLoras(); choices.focus(); } }, '×');
  const line = element('li', {}, element('span', { title: name }, name), field, remove);
  list.append(line);
  return field;
}

choices.addEventListener('change', () => {
  if (!choices.value) return;
  const field = add(choices.value, 1);
  offer();
  onLoras();
  field.focus();
  field.select();
});

/** What is chosen, as the server takes it; a weight that is no number is left to `wrong(field)`. */
export function loras(wrong = () => undefined) {
  return [...fields()].map(([name, field]) => ({ name, weight: Number.isFinite(field.valueAsNumber) ? field.valueAsNumber : wrong(field) }));
}

/** Chooses these. Returns the names of those that the server does not have. */
export function fillLoras(given) {
  list.replaceChildren();
  const missing = [];
  for (const { name, weight } of given) {
    if (!known.includes(name)) missing.push(name);
    else if (!fields().has(name)) add(name, Number.isFinite(weight) ? weight : 1);
  }
  offer();
  return missing;
}

/** LoRAs of a request: by name from this server, by file from pictures. */
export function lorasOf(request) {
  const given = request.loras ?? request.model?.loras;
  if (!Array.isArray(given)) return [];
  const nameOf = (one) => String(one?.name ?? one?.path ?? '').split(/[\\/]/).at(-1).replace(/\.safetensors$/, '');
  return given.slice(0, 64).map((one) => ({ name: nameOf(one), weight: one?.weight }));
}
