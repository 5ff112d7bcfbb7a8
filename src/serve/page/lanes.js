// The pictures of a job as a grid: plain above guided for each seed, or a search's candidates with their scores, those that were
// dropped faint. Tiles stay while their picture is there, so that the keyboard's place is kept while steps come.
import { element, number, say } from './dom.js';
import * as api from './api.js';
import { makePane } from './pane.js';
import { mapsAt } from './maps.js';
import { markOf, spoken, toneOf } from './overlay.js';

/** A picture's name in few words. */
export function nameOf(lane) {
  if (lane.candidate !== null) return `candidate ${lane.candidate}`;
  return `${lane.kind === 'plain' ? 'plain' : lane.kind}, seed ${lane.seed ?? '?'}`;
}

/** What a lane shows at a step: its finished picture, or the step's preview, or the last one before it. */
export function addressAt(lane, step) {
  if (lane.picture !== null && (step === null || step === undefined)) return api.pictureAddress(lane.picture);
  const steps = [...lane.frames.keys()].filter((at) => step === null || step === undefined || at <= step);
  if (steps.length) return lane.frames.get(Math.max(...steps));
  return lane.picture !== null && step === null ? api.pictureAddress(lane.picture) : null;
}

/** `{node, update}`; `update({job, lanes, chosen, step, size, map})`, `map` the number of the object whose attention lies over all of them, -1
 *  for none; `onChoose(lane)`. */
export function makeLanes(onChoose) {
  const node = element('div', { class: 'lanes', role: 'group', 'aria-label': 'Pictures of this job' });
  const tiles = new Map();
  /** seed → the group of its plain and its guided picture. */
  const pairs = new Map();
  let shown = null;

  function tileOf(lane) {
    const pane = makePane();
    const mark = element('b', { 'aria-hidden': 'true' }), name = element('span', { class: 'grow' }), score = element('span', { class: 'number' }), bar = element('i', { 'aria-hidden': 'true' });
    // Names of buttons are their text; what the eye sees in the picture and the bar is told in words that only the ear gets.
    const before = element('span', { class: 'sr' }), after = element('span', { class: 'sr' });
    const button = element('button', { type: 'button', class: 'tile', 'data-value': lane.lane, onclick: () => onChoose(lane) }, pane.node, element('span', { class: 'tile-said' }, mark, before, name, score, after), bar);
    return { button, pane, mark, name, score, bar, before, after };
  }

  function pairOf(seed) {
    if (!pairs.has(seed)) {
      pairs.set(seed, element('div', { class: 'seed-pair', role: 'group', 'aria-label': `Seed ${seed}` }, element('h4', {}, `seed ${seed ?? '?'}`)));
      node.append(pairs.get(seed));
    }
    return pairs.get(seed);
  }

  return {
    node,
    update({ job, lanes, chosen, step, size, map, hidden }) {
      if (shown !== job.id) { node.replaceChildren(); tiles.clear(); pairs.clear(); shown = job.id; }
      node.hidden = hidden;
      const paired = lanes.some((lane) => lane.kind === 'plain') && lanes.some((lane) => lane.kind !== 'plain') && lanes.every(({ candidate }) => candidate === null);
      node.classList.toggle('single', !paired);
      const searched = lanes.some((lane) => lane.candidate !== null);
      node.classList.toggle('searched', searched);
      const scores = lanes.map(({ score }) => score).filter(Number.isFinite);
      const [least, most] = [Math.min(...scores), Math.max(...scores)];
      lanes.forEach((lane, at) => {
        if (!tiles.has(lane.lane)) tiles.set(lane.lane, tileOf(lane));
        const tile = tiles.get(lane.lane);
        const found = map >= 0 ? mapsAt(lane, step)?.[map] : null;
        tile.pane.update({ address: addressAt(lane, step), ...size, maps: found ? [{ map: found, colour: map }] : [], waiting: lane.dropped ? 'dropped' : '' });
        const dropped = lane.dropped ? `dropped after step ${lane.dropped}` : '';
        tile.button.className = `tile ${toneOf(lane.verdict)} ${lane.dropped ? 'dropped' : ''} ${lane.picture !== null ? 'finished' : ''}`;
        tile.button.setAttribute('aria-pressed', String(lane === chosen));
        say(tile.mark, lane.verdict ? markOf(lane.verdict) : '');
        tile.mark.hidden = !lane.verdict;
        say(tile.name, searched ? `${lane.candidate ?? at}` : `${paired ? lane.kind : lane.seed ?? ''}`);
        say(tile.score, Number.isFinite(lane.score) ? number(lane.score, 3) : '');
        tile.bar.style.setProperty('--share', Number.isFinite(lane.score) && most > least ? (lane.score - least) / (most - least) : Number.isFinite(lane.score) ? 1 : 0);
        tile.bar.hidden = !searched;
        say(tile.before, searched ? 'candidate ' : paired ? `seed ${lane.seed} ` : 'seed ');
        say(tile.after, [Number.isFinite(lane.score) ? ' is the score' : '', dropped, lane.verdict && spoken(lane.verdict), lane.picture === null && !dropped && 'not finished'].filter(Boolean).map((fact) => `, ${fact}`).join(''));
        const into = paired ? pairOf(lane.seed) : node;
        if (tile.button.parentNode !== into) into.append(tile.button);
      });
    },
  };
}

/** In the grid's order: candidates by number; otherwise seed by seed, plain before guided. */
export function ordered(lanes) {
  const rank = (lane) => (lane.kind === 'plain' ? 0 : 1);
  return [...lanes].sort((a, b) => (a.candidate !== null && b.candidate !== null ? a.lane - b.lane : 0) || seedOrder(a, b) || rank(a) - rank(b) || a.lane - b.lane);
}
const seedOrder = (a, b) => {
  const [x, y] = [BigInt(a.seed ?? 0), BigInt(b.seed ?? 0)];
  return x < y ? -1 : x > y ? 1 : 0;
};
