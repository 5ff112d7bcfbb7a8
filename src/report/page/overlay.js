// Boxes drawn over a picture.
const SVG = 'http://www.w3.org/2000/svg';

function shape(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** The box with a number: label, score, corners. */
function boxOf(picture, number) {
  const [word, score, x0, y0, x1, y1] = picture.boxes.slice(number * 6, number * 6 + 6);
  return { label: DATA.words[word], score, x0, y0, x1, y1, x: (x0 + x1) / 2, y: (y0 + y1) / 2 };
}

/** What the boxes are: number → 'a', 'b' or 'other'. */
function roles(picture) {
  const all = Array(picture.boxes.length / 6).fill('other');
  for (const record of picture.records) {
    if (record[11] >= 0) all[record[11]] = 'b';
    if (record[10] >= 0) all[record[10]] = 'a';
  }
  return all;
}

/** The runs of a mask: the list as it is, or read from COCO's text, where numbers are in pieces of five bits and, from the fourth
 *  on, differences to the one before the last. */
function runs(counts) {
  if (typeof counts !== 'string') return counts;
  const all = [];
  for (let at = 0; at < counts.length;) {
    let value = 0, shift = 0, piece;
    do {
      piece = counts.charCodeAt(at++) - 48;
      value |= (piece & 31) << shift;
      shift += 5;
    } while (piece & 32);
    if (piece & 16) value |= -1 << shift;
    all.push(all.length > 2 ? value + all[all.length - 2] : value);
  }
  return all;
}

/** The outline of a mask as a path: the sides of its pixels that have another kind of pixel beyond them. Kept for each mask. */
const outlines = new WeakMap();
function outline(mask) {
  if (outlines.has(mask)) return outlines.get(mask);
  const [height, width] = mask.size;
  // Column by column, as the runs go.
  const inside = new Uint8Array(width * height);
  let at = 0;
  runs(mask.counts).forEach((length, i) => {
    const end = Math.min(at + length, inside.length);
    if (i % 2) inside.fill(1, at, end);
    at = end;
  });
  const has = (x, y) => (x >= 0 && y >= 0 && x < width && y < height ? inside[x * height + y] : 0);
  let path = '';
  /** The pieces of a line on which `edge` holds. */
  const pieces = (length, edge, draw) => {
    let from = -1;
    for (let place = 0; place <= length; place++) {
      const is = place < length && edge(place);
      if (is && from < 0) from = place;
      if (!is && from >= 0) { draw(from, place); from = -1; }
    }
  };
  for (let x = 0; x <= width; x++) pieces(height, (y) => has(x - 1, y) !== has(x, y), (from, to) => { path += `M${x} ${from}V${to}`; });
  for (let y = 0; y <= height; y++) pieces(width, (x) => has(x, y - 1) !== has(x, y), (from, to) => { path += `M${from} ${y}H${to}`; });
  outlines.set(mask, path);
  return path;
}

/** Boxes (1: the chosen ones, 2: all) and outlines of masks as SVG, with labels where they can be read. Null if there is nothing to
 *  draw. */
function overlay(picture, { boxes, masks, labels }) {
  const kinds = roles(picture);
  const all = boxes === 2;
  if (!(boxes || masks) || !kinds.some((kind) => all || kind !== 'other')) return null;
  const [width, height] = picture.size;
  const svg = shape('svg', { class: 'boxes', viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' });
  const size = Math.max(width, height) * 0.032;
  const drawn = kinds.map((kind, number) => ({ kind, number, ...boxOf(picture, number) }));
  const order = ['other', 'b', 'a'];
  const shown = drawn.filter(({ kind }) => all || kind !== 'other').sort((p, q) => order.indexOf(p.kind) - order.indexOf(q.kind));
  for (const { kind, number } of masks ? shown : []) {
    const mask = picture.masks[number];
    if (!mask) continue;
    const place = { d: outline(mask), transform: `scale(${width / mask.size[1]} ${height / mask.size[0]})` };
    svg.append(shape('path', { ...place, class: 'mask-case' }), shape('path', { ...place, class: `mask ${kind}` }));
  }
  if (!boxes) return svg;
  for (const { kind, x0, y0, x1, y1 } of shown) {
    const place = { x: x0, y: y0, width: Math.max(0, x1 - x0), height: Math.max(0, y1 - y0) };
    svg.append(shape('rect', { ...place, class: kind === 'other' ? 'other-case' : 'case' }), shape('rect', { ...place, class: kind }));
  }
  for (const record of picture.records) {
    if (record[10] < 0 || record[11] < 0) continue;
    const [a, b] = [drawn[record[10]], drawn[record[11]]];
    const line = { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
    svg.append(shape('line', { ...line, class: 'link-case' }), shape('line', { ...line, class: `link l${record[3]}` }));
  }
  const taken = [];
  for (const { kind, label, score, x0, y0 } of labels ? shown : []) {
    const text = `${label} ${score.toFixed(2)}`;
    const room = text.length * size * 0.58 + size * 0.5;
    const x = Math.min(Math.max(0, x0), Math.max(0, width - room));
    let y = Math.min(Math.max(0, y0), height - size * 1.4);
    // Labels of boxes that begin at the same place stand below each other.
    while (taken.some(([l, t, r]) => x < r && l < x + room && Math.abs(t - y) < size * 1.4)) y += size * 1.45;
    taken.push([x, y, x + room]);
    svg.append(
      shape('rect', { x, y, width: room, height: size * 1.4, rx: size * 0.2, class: `label ${kind}` }),
      shape('text', { x: x + size * 0.25, y: y + size * 1.05, 'font-size': size }, text));
  }
  return svg;
}

/** A picture with its boxes and outlines in `frame`; where there is no picture, the boxes alone. `drawing` says what is drawn, as
 *  overlay() takes it. `file` shows another file in the picture's place. */
function fillFrame(frame, picture, drawing, file) {
  frame.replaceChildren();
  frame.classList.remove('lost');
  const address = file ?? source(picture);
  // Pixels of a small picture stay squares.
  frame.classList.toggle('small', !file && Math.max(...picture.size) <= 96);
  if (address) {
    const image = element('img', { alt: '', loading: 'lazy', decoding: 'async', draggable: 'false' });
    image.addEventListener('error', () => {
      frame.classList.add('lost');
      frame.append(element('span', { class: 'gone' }, 'the picture is not there'));
    }, { once: true });
    image.src = address;
    frame.append(image);
  }
  const drawn = overlay(picture, address ? drawing : { ...drawing, boxes: 2 });
  if (drawn) frame.append(drawn);
  if (!address) frame.append(element('span', { class: 'gone' }, drawn ? 'boxes only' : 'no picture'));
}
