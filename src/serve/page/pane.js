// A picture with what is drawn over it. A pane stays in the page while pictures come and go in it, and changes only what is different:
// a step comes several times a second.
import { element } from './dom.js';
import { attention, boxesOf, rgbOf } from './overlay.js';

/** `{node, update}`; `update({address, alt, width, height, verdict, maps: [{map, colour}], label, waiting})`. */
export function makePane(className = '') {
  const image = element('img', { alt: '', draggable: 'false', decoding: 'async' });
  const frame = element('div', { class: 'frame' }, image);
  const caption = element('figcaption');
  const node = element('figure', { class: `pane ${className}` }, frame, caption);
  let before = {};
  let boxes = null;
  let heat = [];
  image.addEventListener('error', () => { frame.classList.add('lost'); });
  image.addEventListener('load', () => { frame.classList.remove('lost'); });

  function update(next) {
    const { address, alt = '', width = 1, height = 1, verdict = null, maps = [], label = '', waiting = '' } = next;
    if (address !== before.address) {
      if (address) image.src = address; else image.removeAttribute('src');
      image.hidden = !address;
      frame.classList.remove('lost');
    }
    if (alt !== before.alt) image.alt = alt;
    if (width !== before.width || height !== before.height) {
      frame.style.setProperty('--aspect', `${width} / ${height}`);
      // Pixels of a small picture stay squares.
      frame.classList.toggle('small', Math.max(width, height) <= 96);
    }
    if (verdict !== before.verdict) {
      boxes?.remove();
      boxes = boxesOf(verdict, width, height);
      if (boxes) frame.append(boxes);
    }
    const theme = getComputedStyle(document.documentElement).getPropertyValue('--h0');
    if (theme !== before.theme || maps.length !== before.maps?.length || maps.some(({ map }, i) => map !== before.maps[i].map)) {
      for (const canvas of heat) canvas.remove();
      heat = maps.map(({ map, colour }) => attention(map, rgbOf(colour)));
      image.after(...heat);
      frame.classList.toggle('mapped', heat.length > 0);
    }
    if (label !== before.label) caption.textContent = label;
    caption.hidden = !label;
    frame.dataset.waiting = address ? '' : waiting;
    before = { address, alt, width, height, verdict, maps, label, theme };
  }
  return { node, update, frame };
}

/** Two pictures of one size on top of each other, and a slider that says how much of which is seen. */
export function makeCompare() {
  const under = makePane('under'), over = makePane('over');
  const range = element('input', { type: 'range', min: 0, max: 100, step: 1, value: 50, class: 'split' });
  const line = element('i', { class: 'split-line', 'aria-hidden': 'true' });
  const stack = element('div', { class: 'stack' }, under.node, over.node, line);
  const ends = element('div', { class: 'split-ends' }, element('span'), range, element('span'));
  const node = element('div', { class: 'compare' }, stack, ends);
  const show = () => stack.style.setProperty('--split', `${range.value}%`);
  range.addEventListener('input', show);
  // The pointer may also take the line itself.
  stack.addEventListener('pointerdown', (event) => { if (event.button === 0) { stack.setPointerCapture(event.pointerId); follow(event); event.preventDefault(); } });
  stack.addEventListener('pointermove', (event) => { if (stack.hasPointerCapture(event.pointerId)) follow(event); });
  function follow(event) {
    const { left, width } = stack.getBoundingClientRect();
    range.value = Math.round(((event.clientX - left) / width) * 100);
    show();
  }
  show();
  return {
    node,
    /** `left` and `right` are what panes take; their labels stand at the slider's ends. */
    update(left, right) {
      // The one below is seen to the right of the line.
      under.update({ ...right, label: '' });
      over.update({ ...left, label: '' });
      ends.firstChild.textContent = left.label;
      ends.lastChild.textContent = right.label;
      range.setAttribute('aria-label', `From ${left.label} to ${right.label}`);
    },
  };
}
