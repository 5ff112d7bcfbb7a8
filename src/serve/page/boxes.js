// Where objects belong, in shares of the picture: the boxes themselves and what can be done to them. The board (board.js) and the
// list (box-list.js) show the same boxes and change them only through here.

/** The smallest side of a box that is drawn, as a share. */
const LEAST = 0.04;

/** {id, object, box: [x0, y0, x1, y1]}; `object` is a name, or a number of a part for regions. */
let boxes = [];
let next = 1;
/** The box that the keyboard or the pointer is on. */
let chosen = null;
const listeners = new Set();

export function onBoxes(listener) { listeners.add(listener); }
const tell = () => { for (const listener of listeners) listener(); };

export const all = () => boxes;
export const chosenId = () => chosen;

export function choose(id) {
  if (chosen === id) return;
  chosen = id;
  tell();
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** Corners in order, inside the picture, on a grid of a tenth of a percent: what is shown is what is sent. */
function tidy([x0, y0, x1, y1]) {
  const along = (a, b) => {
    let [low, high] = [Math.min(a, b), Math.max(a, b)].map((share) => clamp(share, 0, 1));
    if (high - low < LEAST) high = clamp(low + LEAST, 0, 1);
    if (high - low < LEAST) low = high - LEAST;
    return [low, high].map((share) => Math.round(share * 1000) / 1000);
  };
  const [[l, r], [t, b]] = [along(x0, x1), along(y0, y1)];
  return [l, t, r, b];
}

export function add(object, box) {
  const made = { id: next++, object, box: tidy(box) };
  boxes = [...boxes, made];
  chosen = made.id;
  tell();
  return made;
}

export function change(id, box) {
  boxes = boxes.map((one) => (one.id === id ? { ...one, box: tidy(box) } : one));
  tell();
}

export function remove(id) {
  boxes = boxes.filter((one) => one.id !== id);
  if (chosen === id) chosen = null;
  tell();
}

/** Puts others in their place. */
export function replace(given) {
  boxes = given.map(({ object, box }) => ({ id: next++, object, box: tidy(box) }));
  chosen = null;
  tell();
}

/** Moves a box by shares, whole, and not over the edge. */
export function move(id, dx, dy) {
  const one = boxes.find((box) => box.id === id);
  if (!one) return;
  const [x0, y0, x1, y1] = one.box;
  const [mx, my] = [clamp(dx, -x0, 1 - x1), clamp(dy, -y0, 1 - y1)];
  change(id, [x0 + mx, y0 + my, x1 + mx, y1 + my]);
}

/** Moves the right and the lower side. */
export function stretch(id, dx, dy) {
  const one = boxes.find((box) => box.id === id);
  if (!one) return;
  const [x0, y0, x1, y1] = one.box;
  change(id, [x0, y0, clamp(x1 + dx, x0 + LEAST, 1), clamp(y1 + dy, y0 + LEAST, 1)]);
}

/** A place for a new box where the fewest are: the outer thirds first, as SpatialBench-UC lays two objects out. */
export function freePlace() {
  const places = [[0.05, 0.25, 0.35, 0.75], [0.65, 0.25, 0.95, 0.75], [0.35, 0.05, 0.65, 0.35], [0.35, 0.65, 0.65, 0.95]];
  const overlap = ([a0, b0, a1, b1]) => boxes.reduce((sum, { box: [x0, y0, x1, y1] }) =>
    sum + Math.max(0, Math.min(a1, x1) - Math.max(a0, x0)) * Math.max(0, Math.min(b1, y1) - Math.max(b0, y0)), 0);
  return places.map((place) => [overlap(place), place]).reduce((best, one) => (one[0] < best[0] ? one : best))[1];
}

/** What the boxes say as relations, `dog | left of | cat`: of each two, along the axis on which their centres are further apart. */
export function asRelations() {
  const centre = ({ box: [x0, y0, x1, y1] }) => [(x0 + x1) / 2, (y0 + y1) / 2];
  const said = [];
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    if (a.object === b.object) return;
    const [ax, ay] = centre(a), [bx, by] = centre(b);
    const across = Math.abs(ax - bx) >= Math.abs(ay - by);
    said.push([a.object, across ? (ax < bx ? 'left of' : 'right of') : (ay < by ? 'above' : 'below'), b.object]);
  }));
  return said;
}
