// Loss and PoS over the steps, as two plots one below the other with the same steps across. A line is a picture; the chosen one is
// strong. The line of the step that is on show can be dragged.
import { element, number, oncePerFrame, shape } from './dom.js';

const WIDTH = 340, HEIGHT = 104, LEFT = 34, RIGHT = 8, TOP = 10, BOTTOM = 18;

const mean = (values) => {
  const known = values.filter(Number.isFinite);
  return known.length ? known.reduce((sum, one) => sum + one, 0) / known.length : null;
};

const PLOTS = [
  { key: 'pos', title: 'PoS', about: 'probability that the attention of the objects lies as the relation says', of: (point) => mean(point.pos), low: 0, high: 1 },
  { key: 'loss', title: 'Loss', about: 'what guidance lowers', of: (point) => point.loss, low: 0, high: null },
];

/** `{node, update}`; `update({lanes, chosen, of, step, names})`; `onStep(step)` is called when a step is chosen. */
export function makeCurve(onStep) {
  const plots = PLOTS.map((plot) => ({ ...plot, svg: shape('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', class: 'curve' }), head: element('output', { class: 'number' }) }));
  const figures = plots.map(({ title, about, svg, head }) => element('figure', { class: 'plot' }, element('figcaption', { title: about }, element('b', {}, title), ' ', head), svg));
  const node = element('div', { class: 'curves' }, figures);
  let last = null;
  let key = '';

  function pick(event) {
    if (!last?.of || !(event.buttons & 1)) return;
    const { left, width } = event.currentTarget.getBoundingClientRect();
    const share = ((event.clientX - left) / width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    onStep(Math.min(Math.max(1, Math.round(share * last.of)), last.of));
    event.preventDefault();
  }
  for (const { svg } of plots) { svg.addEventListener('pointerdown', pick); svg.addEventListener('pointermove', pick); }

  function paint() {
    const { lanes, chosen, of, step, names } = last;
    plots.forEach((plot, at) => {
      const series = lanes.map((lane) => ({ lane, points: lane.trace.map((point) => [point.step, plot.of(point)]).filter(([, value]) => Number.isFinite(value)) })).filter(({ points }) => points.length);
      figures[at].hidden = !series.length;
      if (!series.length) return;
      const values = series.flatMap(({ points }) => points.map(([, value]) => value));
      // Squares and probabilities start at 0; what goes below it has room there.
      const low = Math.min(plot.low, ...values);
      const high = Math.max(plot.high ?? 0, ...values) || 1;
      const x = (at) => LEFT + (at / Math.max(1, of)) * (WIDTH - LEFT - RIGHT);
      const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
      const parts = [];
      for (const value of [low, (low + high) / 2, high]) parts.push(
        shape('line', { class: 'rule', x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
        shape('text', { x: LEFT - 5, y: y(value) + 3.5, 'text-anchor': 'end' }, number(value, high < 0.1 ? 3 : 2)));
      for (const tick of [...new Set([0, Math.round(of / 2), of])]) parts.push(shape('text', { x: x(tick), y: HEIGHT - 5, 'text-anchor': tick === 0 ? 'start' : tick === of ? 'end' : 'middle' }, String(tick)));
      if (step) parts.push(shape('line', { class: 'now', x1: x(step), x2: x(step), y1: TOP - 4, y2: HEIGHT - BOTTOM }));
      const strong = (one) => one.lane === chosen;
      for (const one of [...series].sort((p, q) => strong(p) - strong(q))) {
        const d = one.points.map(([at, value], i) => `${i ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join('');
        const name = `trace ${one.lane.kind} ${strong(one) ? 'chosen' : ''}`;
        parts.push(one.points.length > 1 ? shape('path', { class: name, d }) : shape('circle', { class: name, cx: x(one.points[0][0]), cy: y(one.points[0][1]), r: 2.5 }));
      }
      const mine = series.find(strong)?.points ?? [];
      const now = mine.filter(([at]) => !step || at <= step).at(-1) ?? mine[0];
      if (now) parts.push(shape('circle', { class: `dot ${chosen.kind}`, cx: x(now[0]), cy: y(now[1]), r: 3.5 }));
      plot.svg.replaceChildren(...parts);
      plot.svg.setAttribute('aria-label', mine.length
        ? `${plot.title} of ${names(chosen)}: ${number(mine[0][1])} at step ${mine[0][0]}, ${number(mine.at(-1)[1])} at step ${mine.at(-1)[0]}`
        : `${plot.title}, ${series.length} pictures`);
      plot.head.textContent = now ? `${number(now[1])} at step ${now[0]}` : '';
    });
    node.hidden = figures.every((figure) => figure.hidden);
  }
  const soon = oncePerFrame(paint);

  return {
    node,
    update(next) {
      const nextKey = `${next.of} ${next.step} ${next.chosen?.lane} ${next.job} ${next.lanes.map((lane) => `${lane.trace.length}:${lane.dropped}`).join()}`;
      if (nextKey === key) return;
      key = nextKey;
      last = next;
      soon();
    },
  };
}
