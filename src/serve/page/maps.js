// Where the network looks: a small picture for each object, its attention in the object's colour over the faint preview.
import { element, hue } from './dom.js';
import { makePane } from './pane.js';

/** The maps of a lane at a step: that step's, else the last ones before it, else the first. */
export function mapsAt(lane, step) {
  if (!lane?.maps.size) return null;
  const steps = [...lane.maps.keys()].sort((a, b) => a - b);
  const before = steps.filter((at) => step === null || step === undefined || at <= step);
  return lane.maps.get(before.at(-1) ?? steps[0]);
}

/** `{node, update}`; `onChoose(index)` when an object's map is to be shown large. */
export function makeMaps(onChoose) {
  const row = element('div', { class: 'maps-row' });
  const node = element('section', { class: 'card-part maps', 'aria-label': 'Attention' }, element('h3', {}, 'Attention'), row);
  let tiles = [];
  let names = '';
  return {
    node,
    update({ lane, step, on, address, size }) {
      const maps = mapsAt(lane, step) ?? [];
      node.hidden = !maps.length;
      const key = JSON.stringify(maps.map(({ name }) => name));
      if (key !== names) {
        names = key;
        tiles = maps.map(({ name }, i) => {
          const pane = makePane();
          const button = element('button', { type: 'button', class: `map-tile ${hue(i)}`, 'data-value': `map-${i}`, 'aria-label': `Attention to ${name}`, onclick: () => onChoose(i) }, pane.node, element('span', {}, name));
          return { pane, button };
        });
        row.replaceChildren(...tiles.map(({ button }) => button));
      }
      tiles.forEach(({ pane, button }, i) => {
        pane.update({ address, width: size.width ?? 1, height: size.height ?? 1, maps: [{ map: maps[i], colour: i }] });
        button.setAttribute('aria-pressed', String(on === i));
      });
    },
  };
}
