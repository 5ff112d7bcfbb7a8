// The pictures, of which only those in sight are in the document.
const SMALLEST = [118, 172, 256];
const GAP = 12, HEAD = 32;
// With the prompt, and without it where it stands above the row.
const CAPTIONS = { grid: 84, compare: 46 };
const grid = $('grid');
const layout = { columns: 1, width: 0, card: 0, row: 1, view: 'grid', lines: [], perRow: 1, heads: [] };
/** Where the keyboard is: a line and a column. */
const cursor = { line: 0, column: 0 };
const rows = new Map();
let fitting = [];

/** Lays out the fitting pictures in lines of as many as there is room for. */
function arrange() {
  const width = grid.clientWidth;
  if (!width) return;
  const least = SMALLEST[$('size').value];
  let columns = Math.max(2, Math.floor((width + GAP) / (least + GAP)));
  layout.view = $('view').value;
  layout.lines = [];
  layout.heads = [];
  if (layout.view === 'compare') {
    const chosen = wanted.sets[0];
    const methods = DATA.methods.map((_, i) => i).filter((i) => !chosen.size || chosen.has(i));
    columns = Math.min(columns, Math.max(2, methods.length));
    layout.perRow = Math.max(1, Math.ceil(methods.length / columns));
    const seen = new Set();
    for (const picture of fitting) {
      const key = `${picture.prompt} ${picture.seed}`;
      if (seen.has(key)) continue;
      seen.add(key);
      const twins = TWINS.get(key);
      layout.heads.push(picture);
      for (let line = 0; line < layout.perRow; line++)
        layout.lines.push(methods.slice(line * columns, (line + 1) * columns).map((m) => (twins[m] === undefined ? { method: m } : PICTURES[twins[m]])));
    }
  } else {
    layout.perRow = 1;
    for (let i = 0; i < fitting.length; i += columns) layout.lines.push(fitting.slice(i, i + columns));
  }
  layout.columns = columns;
  layout.width = (width - GAP * (columns - 1)) / columns;
  if (layout.view === 'compare') layout.width = Math.min(layout.width, least * 2);
  layout.card = layout.width + CAPTIONS[layout.view] + 4;
  grid.className = layout.view;
  layout.row = layout.perRow * (layout.card + GAP) + (layout.view === 'compare' ? HEAD : 0);
  grid.style.height = `${Math.ceil(layout.lines.length / layout.perRow) * layout.row}px`;
  for (const node of rows.values()) node.remove();
  rows.clear();
  clampCursor();
  draw();
}

function clampCursor() {
  cursor.line = Math.min(Math.max(0, cursor.line), Math.max(0, layout.lines.length - 1));
  const line = layout.lines[cursor.line] ?? [];
  cursor.column = Math.min(Math.max(0, cursor.column), Math.max(0, line.length - 1));
}

/** Puts the rows in sight into the document and takes the others out. */
function draw() {
  const total = Math.ceil(layout.lines.length / layout.perRow);
  const top = -grid.getBoundingClientRect().top;
  const first = Math.max(0, Math.floor((top - innerHeight * 0.5) / layout.row));
  // At least one, so that Tab finds a picture from wherever the reader is.
  const last = Math.min(total - 1, Math.max(first, Math.floor((top + innerHeight * 1.5) / layout.row)));
  const needed = new Set();
  for (let row = first; row <= last; row++) needed.add(row);
  // What has the focus stays, or it would be lost; and Tab has to find the cursor.
  if (total && grid.contains(document.activeElement)) needed.add(Math.floor(cursor.line / layout.perRow));
  for (const [row, node] of rows) if (!needed.has(row)) { node.remove(); rows.delete(row); }
  for (const row of [...needed].sort((a, b) => a - b)) if (!rows.has(row)) {
    const node = rowNode(row);
    const after = [...rows.keys()].filter((other) => other > row).sort((a, b) => a - b)[0];
    grid.insertBefore(node, after === undefined ? null : rows.get(after));
    rows.set(row, node);
  }
  // Tab goes to the cursor, or to the first picture in sight if it is not in the document.
  if (needed.size && !needed.has(Math.floor(cursor.line / layout.perRow))) {
    const visible = [...needed].sort((a, b) => a - b).find((row) => row * layout.row >= top) ?? first;
    Object.assign(cursor, { line: visible * layout.perRow, column: 0 });
  }
  for (const button of grid.querySelectorAll('button')) button.tabIndex = isCursor(button) ? 0 : -1;
}

const isCursor = ({ dataset }) => Number(dataset.line) === cursor.line && Number(dataset.column) === cursor.column;

function rowNode(row) {
  const node = element('div', { class: 'row', role: 'presentation' });
  node.style.transform = `translateY(${row * layout.row}px)`;
  if (layout.view === 'compare') {
    const { prompt, seed } = layout.heads[row];
    const text = PROMPTS[prompt].text;
    node.append(element('h3', {}, element('span', { title: text }, text), element('small', {}, `seed ${seed}`)));
  }
  for (let line = row * layout.perRow; line < Math.min((row + 1) * layout.perRow, layout.lines.length); line++) {
    const cells = element('div', { class: 'cells', role: 'presentation' });
    cells.style.gridTemplateColumns = `repeat(${layout.columns}, ${layout.width}px)`;
    cells.style.marginBottom = `${GAP}px`;
    layout.lines[line].forEach((picture, column) => cells.append(cardNode(picture, line, column)));
    node.append(cells);
  }
  return node;
}

function cardNode(picture, line, column) {
  if (picture.index === undefined) {
    const blank = element('div', { class: 'blank' }, `${DATA.methods[picture.method]}: not made`);
    blank.style.height = `${layout.card}px`;
    return blank;
  }
  const frame = element('span', { class: 'frame' });
  fillFrame(frame, picture, { boxes: Number($('boxes').value), masks: $('masks').checked });
  const { text } = PROMPTS[picture.prompt];
  const name = DATA.methods[picture.method];
  const decided = picture.verdict < 2 && picture.conf !== null;
  const said = element('span', { class: 'said' }, element('b', {}, `${MARKS[picture.verdict]} ${decided ? picture.conf.toFixed(2) : words(picture.reason) || VERDICTS[picture.verdict].toLowerCase()}`), element('i', {}, `seed ${picture.seed}`));
  const caption = element('span', { class: 'caption' }, said, element('span', { class: 'name', title: name }, name), element('span', { class: 'prompt' }, text));
  const button = element('button', {
    type: 'button', 'data-line': line, 'data-column': column, tabindex: '-1',
    'aria-label': `${text}, ${name}, seed ${picture.seed}: ${spoken(picture)}`,
  }, frame, caption);
  const total = layout.view === 'grid' ? fitting.length : layout.lines.length * layout.columns;
  return element('div', {
    class: `card v${picture.verdict}`, role: 'listitem', 'aria-setsize': total, 'aria-posinset': line * layout.columns + column + 1,
  }, button);
}

/** Puts the cursor on a place and brings it into sight. */
function moveTo(line, column, focus = true) {
  Object.assign(cursor, { line, column });
  clampCursor();
  if (layout.lines[cursor.line]?.[cursor.column]?.index === undefined) return;
  const row = Math.floor(cursor.line / layout.perRow);
  const card = layout.card + GAP;
  const head = $('top').offsetHeight + (matchMedia('(max-width: 60rem)').matches ? $('filters').offsetHeight : 0) + 8;
  const within = row * layout.row + (cursor.line % layout.perRow) * card + (layout.view === 'compare' ? HEAD : 0);
  const top = grid.getBoundingClientRect().top + within;
  const behavior = 'instant';
  if (top < head) scrollBy({ top: top - head - (layout.view === 'compare' ? HEAD : 0), behavior });
  else if (top + card > innerHeight) scrollBy({ top: top + card - innerHeight + 8, behavior });
  draw();
  if (focus) grid.querySelector(`button[data-line="${cursor.line}"][data-column="${cursor.column}"]`)?.focus({ preventScroll: true });
}

/** Moves over pictures that were not made. */
function step(lines, columns) {
  let { line, column } = cursor;
  for (let tries = 0; tries < layout.columns + 1; tries++) {
    line += lines;
    column += columns;
    if (column < 0) { line--; column = (layout.lines[line]?.length ?? 1) - 1; }
    if (column >= (layout.lines[line]?.length ?? 0) && columns) { line++; column = 0; }
    if (line < 0 || line >= layout.lines.length) return;
    if (layout.lines[line][Math.min(column, layout.lines[line].length - 1)].index !== undefined) return moveTo(line, column);
    if (!columns) columns = 0;
  }
}

grid.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const page = Math.max(1, Math.floor((innerHeight - 120) / layout.card));
  const moves = {
    ArrowLeft: () => step(0, -1), ArrowRight: () => step(0, 1), ArrowUp: () => step(-1, 0), ArrowDown: () => step(1, 0),
    Home: () => moveTo(0, 0), End: () => moveTo(layout.lines.length - 1, layout.columns),
    PageUp: () => moveTo(cursor.line - page, cursor.column), PageDown: () => moveTo(cursor.line + page, cursor.column),
  };
  if (!moves[event.key] || !event.target.closest('.card')) return;
  event.preventDefault();
  moves[event.key]();
});
grid.addEventListener('focusin', ({ target }) => {
  const { line, column } = target.dataset;
  if (line === undefined) return;
  Object.assign(cursor, { line: Number(line), column: Number(column) });
  for (const button of grid.querySelectorAll('button')) button.tabIndex = isCursor(button) ? 0 : -1;
});
grid.addEventListener('click', (event) => {
  const button = event.target.closest('.card button');
  if (button) openDetail(layout.lines[button.dataset.line][button.dataset.column]);
});
let waiting = false;
function drawSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
addEventListener('scroll', drawSoon, { passive: true });
addEventListener('resize', () => requestAnimationFrame(arrange));
