// What is known of a finished picture, in words and numbers: the verdict and what it goes by, the request, the cost.
import { element, number, stepsSaid, words } from './dom.js';
import { markOf, toneOf } from './overlay.js';

/** Pairs as a list; what is not known is left out. */
export function list(pairs) {
  return element('dl', { class: 'pairs' }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([name, value]) => [element('dt', {}, name), element('dd', {}, value instanceof Node ? value : String(value))]));
}

/** The verdict with its relations and detections; a line that says so where there is none. */
export function verdictNode(verdict, waiting) {
  if (!verdict) return element('p', { class: 'note' }, waiting ?? 'Not checked.');
  const sure = Number.isFinite(verdict.confidence) ? `confidence ${verdict.confidence.toFixed(2)}` : '';
  const nodes = [element('p', { class: `verdict ${toneOf(verdict)}` }, element('b', {}, `${markOf(verdict)} ${verdict.status}`), element('span', {}, sure))];
  if (verdict.reason) nodes.push(element('p', { class: 'note' }, words(verdict.reason)));
  const relations = verdict.relations ?? [];
  if (relations.length) {
    nodes.push(element('ul', { class: 'relations' }, relations.map((one) => element('li', { class: toneOf(one) },
      element('b', { 'aria-label': one.status }, markOf(one)), element('span', {}, `${one.subject} ${words(one.relation)} ${one.object}`),
      one.reason && element('small', {}, words(one.reason))))));
  }
  const detections = verdict.detections ?? [];
  if (detections.length) {
    const names = { a: 'first', b: 'second' };
    nodes.push(element('table', { class: 'detections' }, element('caption', {}, 'Detections'), element('tbody', {}, [...detections].sort((a, b) => b.score - a.score).slice(0, 12).map(({ label, score, role }) =>
      element('tr', {}, element('th', { scope: 'row' }, label), element('td', {}, names[role] ? element('span', { class: `swatch ${role}` }, names[role]) : ''), element('td', { class: 'number' }, score.toFixed(2)))))));
  }
  return element('div', { class: 'verdict-all' }, nodes);
}

/** A request in the words of the form. */
export function requestNode(request, more = []) {
  const guide = request.guide;
  const constants = guide ? Object.entries(guide).filter(([name, value]) => name !== 'method' && value !== null && value !== false && !(name === 'preset' && value === 'default')).map(([name, value]) => `${words(name)} ${typeof value === 'object' ? JSON.stringify(value) : value}`).join(', ') : '';
  const placed = (all, name) => (all?.length ? all.map((one) => `${one[name]}: ${one.box.map((share) => number(share)).join(', ')}`).join('; ') : null);
  return list([
    ['Method', guide ? `${guide.method}${constants ? ` (${constants})` : ''}` : 'none'],
    ['Seed', request.seed], ['Size', request.width && `${request.width} × ${request.height}`], ['Steps', request.steps],
    ['Guidance scale', request.guidance_scale], ['Its steps', request.guidance_steps && stepsSaid(request.guidance_steps)], ['Scheduler', request.scheduler], ['Not wanted', request.negative_prompt],
    ['Relations', request.relations?.length ? request.relations.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join('; ') : null],
    ['Boxes', placed(request.boxes, 'object')], ['Regions', placed(request.regions, 'part')], ['Shown pictures', request.pictures?.length ? request.pictures.map(({ region }) => (region?.box ? `in ${region.box.map((share) => number(share)).join(', ')}` : region?.mask ? 'in a mask' : 'everywhere')).join('; ') : null],
    ['GLIGEN', request.ground ? `${number(request.ground.share * 100)} % of the steps` : null],
    ['Second pass', request.second_pass ? `${request.second_pass.width} × ${request.second_pass.height} by ${words(request.second_pass.upscaler).replaceAll('-', ' ')}, strength ${request.second_pass.strength}` : null],
    ['Search', request.found ? `best of ${request.found.search?.best_of}, candidate ${request.found.candidate}` : null],
    ['Checkpoint', request.checkpoint ?? request.model?.checkpoint], ...more,
  ]);
}
