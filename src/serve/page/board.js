// The board on which boxes are drawn, moved and stretched with the pointer. A canvas says nothing to a screen reader and takes no
// focus; the list below it (box-list.js) holds the same boxes for the keyboard.
import { $, oncePerFrame } from './dom.js';
import * as boxes from './boxes.js';
import { onTheme } from './theme-switch.js';

const canvas = $('canvas');
const pen = canvas.getContext('2d');
/** How near to a side or corner the pointer takes hold of it, in CSS pixels. */
const REACH = 9;
/** {id, sides, from, box} while the pointer is down. */
let drag = null;
/** Which object the next box is for, and in which colour each is drawn; the form says so. */
let next = () => null;
let hueOf = () => 0;

/** `object()` names what the next box is for, null for nothing; `colour(object)` numbers its colour. */
export function useBoard(object, colour) { next = object; hueOf = colour; draw(); }

const place = (event) => {
  const { left, top, width, height } = canvas.getBoundingClientRect();
  return [(event.clientX - left) / width, (event.clientY - top) / height];
};

/** Which box and which of its sides are under the pointer: the chosen box first, then the topmost. */
function under([x, y]) {
  const [rx, ry] = [REACH / canvas.clientWidth, REACH / canvas.clientHeight];
  const order = [...boxes.all()].reverse().sort((a, b) => (b.id === boxes.chosenId()) - (a.id === boxes.chosenId()));
  for (const { id, box: [x0, y0, x1, y1] } of order) {
    if (x < x0 - rx || x > x1 + rx || y < y0 - ry || y > y1 + ry) continue;
    const near = (at, low, high, reach) => (Math.abs(at - low) < reach ? -1 : Math.abs(at - high) < reach ? 1 : 0);
    return { id, sides: [near(x, x0, x1, rx), near(y, y0, y1, ry)] };
  }
  return null;
}

const CURSORS = { '0,0': 'move', '-1,0': 'ew-resize', '1,0': 'ew-resize', '0,-1': 'ns-resize', '0,1': 'ns-resize', '-1,-1': 'nwse-resize', '1,1': 'nwse-resize', '1,-1': 'nesw-resize', '-1,1': 'nesw-resize' };

canvas.addEventListener('pointerdown', (event) => {
  if (event.button !== 0 || drag) return;
  const from = place(event);
  const hit = under(from);
  if (hit) {
    boxes.choose(hit.id);
    drag = { ...hit, from, box: boxes.all().find(({ id }) => id === hit.id).box };
  } else {
    drag = { id: null, from, object: next() };
    if (drag.object === null) { drag = null; return; }
  }
  canvas.setPointerCapture(event.pointerId);
  event.preventDefault();
});

canvas.addEventListener('pointermove', (event) => {
  const at = place(event);
  if (!drag) {
    const hit = under(at);
    canvas.style.cursor = hit ? CURSORS[String(hit.sides)] : 'crosshair';
    return;
  }
  const [dx, dy] = [at[0] - drag.from[0], at[1] - drag.from[1]];
  if (drag.id === null) {
    // A touch that hardly moves draws nothing.
    if (Math.hypot(dx * canvas.clientWidth, dy * canvas.clientHeight) < 8) return;
    drag.id = boxes.add(drag.object, [...drag.from, ...at]).id;
    drag.fresh = true;
    drag.box = [...drag.from, ...drag.from];
    drag.sides = [1, 1];
  }
  const [x0, y0, x1, y1] = drag.box;
  if (drag.fresh) return boxes.change(drag.id, [...drag.from, ...at]);
  const [sx, sy] = drag.sides;
  if (!sx && !sy) {
    const [mx, my] = [Math.min(Math.max(dx, -x0), 1 - x1), Math.min(Math.max(dy, -y0), 1 - y1)];
    return boxes.change(drag.id, [x0 + mx, y0 + my, x1 + mx, y1 + my]);
  }
  boxes.change(drag.id, [sx < 0 ? x0 + dx : x0, sy < 0 ? y0 + dy : y0, sx > 0 ? x1 + dx : x1, sy > 0 ? y1 + dy : y1]);
});

function end(cancelled) {
  if (!drag) return;
  const { id, fresh, box } = drag;
  drag = null;
  if (cancelled && id !== null) { if (fresh) boxes.remove(id); else boxes.change(id, box); }
}
canvas.addEventListener('pointerup', () => end(false));
canvas.addEventListener('pointercancel', () => end(true));
addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && drag) { event.preventDefault(); end(true); }
});

function paint() {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width) return;
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  pen.strokeStyle = colour('--line');
  pen.lineWidth = 1;
  pen.beginPath();
  for (const share of [1 / 3, 2 / 3]) {
    const [x, y] = [Math.round(width * share) + 0.5, Math.round(height * share) + 0.5];
    pen.moveTo(x, 0); pen.lineTo(x, height);
    pen.moveTo(0, y); pen.lineTo(width, y);
  }
  pen.stroke();
  pen.font = '600 12px system-ui, sans-serif';
  pen.textBaseline = 'middle';
  if (!boxes.all().length) {
    pen.fillStyle = colour('--soft');
    pen.textAlign = 'center';
    pen.font = '13px system-ui, sans-serif';
    pen.fillText(next() === null ? 'Name an object in the prompt first' : `Drag to place “${String(next()).slice(0, 30)}”`, width / 2, height / 2, width - 16);
  }
  pen.textAlign = 'left';
  for (const { id, object, box: [x0, y0, x1, y1] } of boxes.all()) {
    const hue = colour(`--h${hueOf(object)}`);
    const [x, y, w, h] = [x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height];
    pen.globalAlpha = 0.16;
    pen.fillStyle = hue;
    pen.fillRect(x, y, w, h);
    pen.globalAlpha = 1;
    pen.strokeStyle = hue;
    pen.lineWidth = id === boxes.chosenId() ? 2.5 : 1.5;
    pen.strokeRect(x, y, w, h);
    const name = String(object).slice(0, 40);
    const room = Math.min(pen.measureText(name).width + 10, Math.max(w, 24));
    pen.fillRect(x, y, room, 18);
    pen.fillStyle = colour('--on');
    pen.save();
    pen.beginPath(); pen.rect(x, y, room, 18); pen.clip();
    pen.fillText(name, x + 5, y + 9.5);
    pen.restore();
    if (id !== boxes.chosenId()) continue;
    pen.fillStyle = hue;
    for (const [cx, cy] of [[x, y + h], [x + w, y], [x + w, y + h]]) pen.fillRect(cx - 4, cy - 4, 8, 8);
  }
}
export const draw = oncePerFrame(paint);

boxes.onBoxes(draw);
onTheme(draw);
new ResizeObserver(draw).observe(canvas);
