// The history: every picture that the server keeps, newest first. It is read in pages as the reader comes near their end, and only the
// rows in sight are in the document, so a thousand pictures are no more work than twenty.
import { $, choice, element, oncePerFrame, refill, say, whenQuiet } from './dom.js';
import * as api from './api.js';
import { makePane } from './pane.js';
import { markOf, spoken, toneOf } from './overlay.js';

const PAGE = 60, LEAST = 152, GAP = 12, CAPTION = 62;
const FILTERS = [['', 'All'], ['pass', '✓ pass'], ['fail', '✕ fail'], ['undecidable', '? undecidable']];
const grid = $('history-grid');
/** What was read so far, and whether there is more. `turn` tells answers of an older question. */
const state = { pictures: [], total: 0, next: null, more: true, loading: false, turn: 0, q: '', verdict: '', error: null, stale: true };
const rows = new Map();
const layout = { columns: 1, width: LEAST, row: LEAST };
let cursor = 0;
let onOpen = () => {};
let visible = false;

/** `open(id)` shows a picture whole. */
export function useHistory(open) { onOpen = open; }
/** The pictures read so far: what "older" and "newer" go through. */
export const known = () => state.pictures;

export function showHistory() {
  visible = true;
  if (state.stale && state.pictures.length === 0) reset();
  else if (state.stale) reset();
  else arrange();
}
export function hideHistory() { visible = false; }

/** New pictures were made: read anew when it is looked at next. */
export function stale() {
  state.stale = true;
  if (visible && scrollY < 200) reset();
}

function reset() {
  Object.assign(state, { pictures: [], total: 0, next: null, more: true, loading: false, error: null, stale: false });
  state.turn++;
  cursor = 0;
  for (const node of rows.values()) node.remove();
  rows.clear();
  load();
}

/** Reads the next page. */
export async function load() {
  if (state.loading || !state.more) return;
  state.loading = true;
  const mine = state.turn;
  tell();
  try {
    const { pictures, total, next } = await api.pictures({ before: state.next, limit: PAGE, q: state.q, verdict: state.verdict });
    if (mine !== state.turn) return;
    // A picture that was made meanwhile moves the pages; none is shown twice.
    const seen = new Set(state.pictures.map(({ id }) => id));
    state.pictures.push(...pictures.filter(({ id }) => !seen.has(id)));
    Object.assign(state, { total: total ?? state.pictures.length, next: next ?? null, more: Boolean(next), error: null });
  } catch (error) {
    if (mine !== state.turn) return;
    state.error = error.message;
    state.more = false;
  }
  state.loading = false;
  arrange();
  tell();
}

function tell() {
  const { pictures, total, loading, error, q, verdict } = state;
  say($('history-count'), error || (loading && !pictures.length) ? '' : `${total.toLocaleString('en')} ${total === 1 ? 'picture' : 'pictures'}`);
  const none = $('history-none');
  none.hidden = pictures.length > 0;
  say(none, error ? `The history cannot be read: ${error}` : loading ? 'Reading…' : q || verdict ? 'No picture fits.' : 'No picture has been made yet. What is made here, over HTTP or from Python by this server stands here.');
}

function arrange() {
  const width = grid.clientWidth;
  if (!width || !visible) return;
  const before = layout.laid;
  layout.laid = `${width} ${state.turn}`;
  layout.columns = Math.max(2, Math.floor((width + GAP) / (LEAST + GAP)));
  layout.width = (width - GAP * (layout.columns - 1)) / layout.columns;
  layout.row = layout.width + CAPTION + GAP;
  grid.style.height = `${Math.ceil(state.pictures.length / layout.columns) * layout.row}px`;
  // Another page of pictures leaves the rows before it as they are, but for one that was not full.
  const full = before === layout.laid;
  for (const [row, node] of rows) if (!full || node.childElementCount < layout.columns) { node.remove(); rows.delete(row); }
  draw();
}

function draw() {
  if (!visible || !grid.clientWidth) return;
  const top = -grid.getBoundingClientRect().top;
  const total = Math.ceil(state.pictures.length / layout.columns);
  const first = Math.max(0, Math.floor((top - innerHeight * 0.5) / layout.row));
  const last = Math.min(total - 1, Math.max(first, Math.floor((top + innerHeight * 1.5) / layout.row)));
  const needed = new Set();
  for (let row = first; row <= last; row++) needed.add(row);
  // What has the focus stays, or it would be lost.
  if (total && grid.contains(document.activeElement)) needed.add(Math.floor(cursor / layout.columns));
  for (const [row, node] of rows) if (!needed.has(row)) { node.remove(); rows.delete(row); }
  for (const row of [...needed].sort((a, b) => a - b)) if (!rows.has(row)) {
    const node = rowNode(row);
    const after = [...rows.keys()].filter((other) => other > row).sort((a, b) => a - b)[0];
    grid.insertBefore(node, after === undefined ? null : rows.get(after));
    rows.set(row, node);
  }
  if (needed.size && !needed.has(Math.floor(cursor / layout.columns))) cursor = Math.min(first * layout.columns, state.pictures.length - 1);
  for (const button of grid.querySelectorAll('button')) button.tabIndex = Number(button.dataset.at) === cursor ? 0 : -1;
  if (last >= total - 4) load();
}

function rowNode(row) {
  const node = element('div', { class: 'row', role: 'presentation' });
  node.style.transform = `translateY(${row * layout.row}px)`;
  node.style.gridTemplateColumns = `repeat(${layout.columns}, ${layout.width}px)`;
  const from = row * layout.columns;
  state.pictures.slice(from, from + layout.columns).forEach((picture, i) => node.append(cardNode(picture, from + i)));
  return node;
}

function cardNode(picture, at) {
  const { id, prompt, seed, width, height, method, verdict } = picture;
  const pane = makePane();
  pane.frame.querySelector('img').loading = 'lazy';
  pane.update({ address: api.pictureAddress(id), width, height });
  const name = method || 'plain';
  return element('div', { class: `card ${toneOf(verdict)}`, role: 'listitem', 'aria-setsize': state.total, 'aria-posinset': at + 1 },
    element('button', { type: 'button', 'data-at': at, tabindex: -1, onclick: () => onOpen(id) },
      pane.node,
      element('span', { class: 'card-said' },
        element('span', { class: 'card-line' }, element('b', { 'aria-hidden': 'true' }, verdict ? markOf(verdict) : ''), element('span', { class: 'grow' }, name), element('span', { class: 'sr' }, ', seed '), element('span', { class: 'number' }, String(seed)), element('span', { class: 'sr' }, `, ${spoken(verdict)}: `)),
        element('span', { class: 'card-prompt', title: prompt }, prompt))));
}

/** Puts the keyboard on a picture and brings it into sight. */
export function moveTo(at, focus = true) {
  if (!state.pictures.length) return;
  cursor = Math.min(Math.max(0, at), state.pictures.length - 1);
  const top = grid.getBoundingClientRect().top + Math.floor(cursor / layout.columns) * layout.row;
  const head = $('top').offsetHeight + grid.previousElementSibling.offsetHeight + 8;
  if (top < head) scrollBy({ top: top - head, behavior: 'instant' });
  else if (top + layout.row > innerHeight) scrollBy({ top: top + layout.row - innerHeight + 8, behavior: 'instant' });
  draw();
  if (focus) grid.querySelector(`button[data-at="${cursor}"]`)?.focus({ preventScroll: true });
}

grid.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest('.card')) return;
  const { columns, row } = layout;
  const screen = Math.max(1, Math.floor((innerHeight - 120) / row)) * columns;
  const to = { ArrowLeft: cursor - 1, ArrowRight: cursor + 1, ArrowUp: cursor - columns, ArrowDown: cursor + columns, Home: 0, End: state.pictures.length - 1, PageUp: cursor - screen, PageDown: cursor + screen }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if ((event.key === 'ArrowUp' || event.key === 'ArrowDown') && (to < 0 || to >= state.pictures.length)) return;
  moveTo(to);
});
grid.addEventListener('focusin', ({ target }) => {
  if (target.dataset.at === undefined) return;
  cursor = Number(target.dataset.at);
  for (const button of grid.querySelectorAll('button')) button.tabIndex = Number(button.dataset.at) === cursor ? 0 : -1;
});

function filterNode() {
  refill($('history-filter'), choice('Verdict', FILTERS, state.verdict, (value) => { state.verdict = value; filterNode(); reset(); }));
}
$('history-q').addEventListener('input', whenQuiet(() => { state.q = $('history-q').value.trim(); reset(); }, 250));
const drawSoon = oncePerFrame(draw);
addEventListener('scroll', drawSoon, { passive: true });
new ResizeObserver(oncePerFrame(arrange)).observe(grid.parentNode);
filterNode();
