// Small helpers: elements, numbers, one frame at a time. Text from elsewhere (prompts, metadata, messages) goes into the page only
// through these, which use textContent.
const SVG = 'http://www.w3.org/2000/svg';

export const $ = (id) => document.getElementById(id);

/** An element with attributes, properties for those that start with a dot, `on…` listeners, and children. */
export function element(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function shape(tag, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), attributes, children);
}

function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue;
    if (name[0] === '.') node[name.slice(1)] = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(2).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

/** Writes text only where it changed: an unchanged live region must not be read out again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** At most `digits` decimals, without zeros at the end; a dash for nothing. */
export const number = (value, digits = 3) => (Number.isFinite(value) ? String(Number(value.toFixed(digits))) : '–');

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString('en')} ${count === 1 ? one : many}`;

/** `left_of` as people write it. */
export const words = (name) => String(name).replaceAll('_', ' ');
/** A range of steps as the form takes it: 2-14, or 2- to the end. */
export const stepsSaid = (range) => (range && typeof range === 'object' ? `${range.first ?? 0}-${range.last ?? ''}` : String(range ?? ''));

/** Runs `act` once before the next frame, however often it is asked for. In a hidden tab there are no frames; a timer goes there. */
export function oncePerFrame(act) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    const run = () => { waiting = false; act(); };
    if (document.hidden) setTimeout(run, 100); else requestAnimationFrame(run);
  };
}

/** Runs `act` when it has not been asked for during `milliseconds`. */
export function whenQuiet(act, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), milliseconds);
  };
}

/** What this browser keeps between visits: choices, never tokens. Where nothing may be kept, nothing is. */
export const kept = {
  read(key, otherwise) {
    try { return JSON.parse(localStorage.getItem(`prepose-${key}`)) ?? otherwise; } catch { return otherwise; }
  },
  write(key, value) {
    try { localStorage.setItem(`prepose-${key}`, JSON.stringify(value)); } catch { /* Kept nowhere. */ }
  },
};

/** What this tab keeps over a reload: which job it watches. Another tab watches its own. */
export const tab = {
  read(key) { try { return sessionStorage.getItem(`prepose-${key}`); } catch { return null; } },
  write(key, value) {
    try { if (value === null) sessionStorage.removeItem(`prepose-${key}`); else sessionStorage.setItem(`prepose-${key}`, value); } catch { /* Kept nowhere. */ }
  },
};

/** A choice of one among few, as buttons that a screen reader knows as pressed or not. `options` is [value, text, key][]. */
export function choice(label, options, value, act) {
  return element('div', { class: 'choice', role: 'group', 'aria-label': label }, options.map(([option, text, key]) => element('button', {
    type: 'button', 'aria-pressed': String(option === value), 'data-value': option, 'aria-keyshortcuts': key, onclick: () => act(option),
  }, text)));
}

/** Replaces the children of `parent` and keeps the focus on the control that stands for the same value. */
export function refill(parent, ...children) {
  const active = parent.contains(document.activeElement) ? document.activeElement : null;
  const key = active?.dataset.value;
  const group = active?.closest('[aria-label]')?.getAttribute('aria-label');
  parent.replaceChildren(...children.flat(2).filter(Boolean));
  if (key === undefined) return;
  const same = [...parent.querySelectorAll('[data-value]')].filter((node) => node.dataset.value === key);
  (same.find((node) => node.closest('[aria-label]')?.getAttribute('aria-label') === group) ?? same[0])?.focus({ preventScroll: true });
}

/** The colours that stand for objects, in the order in which the prompt names them; also in page.css. */
const HUES = 6;
export const hue = (index) => `h${index % HUES}`;
