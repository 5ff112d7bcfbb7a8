// What is drawn over a picture: the boxes of its verdict, and attention as colour.
import { element, shape } from './dom.js';

/** Boxes as SVG. `verdict.detections` are {label, score, box, role}, in shares of the picture; the line between the two that the
 *  verdict is about has its colour. Null if there is nothing to draw. */
export function boxesOf(verdict, width, height) {
  const found = verdict?.detections ?? [];
  if (!found.length) return null;
  const svg = shape('svg', { class: 'boxes', viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' });
  const size = Math.max(width, height) * 0.034;
  const order = { other: 0, b: 1, a: 2 };
  const drawn = found.map(({ label, score, box, role }) => {
    const [x0, y0, x1, y1] = box;
    return { label, score, kind: role ?? 'other', x: x0 * width, y: y0 * height, w: Math.max(0, x1 - x0) * width, h: Math.max(0, y1 - y0) * height };
  }).sort((p, q) => order[p.kind] - order[q.kind]);
  for (const { kind, x, y, w, h } of drawn) {
    const place = { x, y, width: w, height: h };
    svg.append(shape('rect', { ...place, class: kind === 'other' ? 'other-case' : 'case' }), shape('rect', { ...place, class: kind }));
  }
  const [a, b] = ['a', 'b'].map((kind) => drawn.filter((one) => one.kind === kind));
  if (a.length === 1 && b.length === 1) {
    const line = { x1: a[0].x + a[0].w / 2, y1: a[0].y + a[0].h / 2, x2: b[0].x + b[0].w / 2, y2: b[0].y + b[0].h / 2 };
    svg.append(shape('line', { ...line, class: 'link-case' }), shape('line', { ...line, class: `link ${toneOf(verdict)}` }));
  }
  const taken = [];
  for (const { kind, label, score, x, y } of drawn) {
    const text = `${label} ${score.toFixed(2)}`;
    const room = text.length * size * 0.64 + size * 0.5;
    const left = Math.min(Math.max(0, x), Math.max(0, width - room));
    let top = Math.min(Math.max(0, y), height - size * 1.4);
    // Labels of boxes that begin at the same place stand below each other.
    while (taken.some(([l, t, r]) => left < r && l < left + room && Math.abs(t - top) < size * 1.4)) top += size * 1.45;
    taken.push([left, top, left + room]);
    svg.append(
      shape('rect', { x: left, y: top, width: room, height: size * 1.4, rx: size * 0.2, class: `label ${kind}` }),
      shape('text', { x: left + size * 0.25, y: top + size * 1.03, 'font-size': size }, text));
  }
  return svg;
}

/** The class that gives a verdict's colour. */
export const toneOf = (verdict) => (verdict ? `v-${String(verdict.status).toLowerCase()}` : '');
const MARKS = { PASS: '✓', FAIL: '✕', UNDECIDABLE: '?' };
export const markOf = (verdict) => MARKS[String(verdict?.status).toUpperCase()] ?? '·';

/** A verdict in words. */
export function spoken(verdict) {
  if (!verdict) return 'not checked';
  const sure = Number.isFinite(verdict.confidence) && verdict.status !== 'UNDECIDABLE' ? `, confidence ${verdict.confidence.toFixed(2)}` : '';
  return `${String(verdict.status).toLowerCase()}${verdict.reason ? `, ${verdict.reason}` : ''}${sure}`;
}

/** Attention as a canvas of the object's colour: the more attention, the less transparent. `rgb` is [r, g, b]. */
export function attention(map, rgb) {
  const { rows, columns, data } = map;
  const canvas = element('canvas', { class: 'attention', width: columns, height: rows, 'aria-hidden': 'true' });
  const pen = canvas.getContext('2d');
  const cells = pen.createImageData(columns, rows);
  for (let at = 0; at < rows * columns; at++) {
    cells.data.set([rgb[0], rgb[1], rgb[2], data[at] ?? 0], at * 4);
  }
  pen.putImageData(cells, 0, 0);
  return canvas;
}

/** The colour of an object's number, as the page has it at the moment. */
export function rgbOf(number) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(`--h${number % 6}`).trim();
  const digits = /^#([0-9a-f]{6})$/i.exec(text)?.[1] ?? '0b62b0';
  return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16));
}
