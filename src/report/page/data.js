// What the report holds: the arrays that gallery.rs wrote, by name.
const DATA = JSON.parse($('data').textContent);
const VERDICTS = ['PASS', 'FAIL', 'UNDECIDABLE', 'UNCHECKED'];
const MARKS = ['✓', '✕', '?', '·'];
const words = (name) => name.replaceAll('_', ' ');

const PROMPTS = DATA.prompts.map(([id, text, relations]) => ({ id, text, relations, low: `${text} ${id}`.toLowerCase() }));

const PICTURES = DATA.pictures.map((
  [method, place, prompt, seed, id, size, image, verdict, conf, records, boxes, maps, scores, human, masks, note], index) => ({
  index, method, place, prompt, seed, verdict, conf, records, boxes, maps, scores, human, masks, note, image,
  id: id || `${DATA.methods[method]}_${PROMPTS[prompt].id}_seed${seed.padStart(4, '0')}`,
  size: DATA.sizes[size] ?? [512, 512],
}));

/** The name of the reason before its details: `near_boundary`; empty for a decided picture. */
const REASON_NAMES = DATA.reasons.map((reason) => reason.match(/^[a-z_]*/i)[0] || reason);
for (const picture of PICTURES) {
  const record = picture.records.find((record) => record[4] >= 0);
  picture.reason = record && picture.verdict === 2 ? REASON_NAMES[record[4]] : '';
}

/** The address of a file of a picture's place. */
function address(picture, file) {
  if (/^(data|file):/.test(file)) return file;
  return DATA.bases[picture.place] + file;
}
/** The address of the picture itself; null if there is none. */
function source(picture) {
  if (!picture.image) return null;
  return address(picture, picture.image === 1 ? `images/${encodeURIComponent(picture.id)}.png` : picture.image);
}

/** The pictures of the same prompt and seed, by method: `${prompt} ${seed}` → [index or undefined, …]. */
const TWINS = new Map();
/** The pictures of the same method and prompt: `${method} ${prompt}` → [index, …]. */
const SIBLINGS = new Map();
for (const { index, method, prompt, seed } of PICTURES) {
  const twins = `${prompt} ${seed}`;
  if (!TWINS.has(twins)) TWINS.set(twins, []);
  TWINS.get(twins)[method] = index;
  const siblings = `${method} ${prompt}`;
  if (!SIBLINGS.has(siblings)) SIBLINGS.set(siblings, []);
  SIBLINGS.get(siblings).push(index);
}

/** The verdict in words, for those who hear it. */
function spoken(picture) {
  const conf = picture.conf === null || picture.verdict > 1 ? '' : `, confidence ${picture.conf.toFixed(2)}`;
  return `${VERDICTS[picture.verdict].toLowerCase()}${picture.reason ? `, ${words(picture.reason)}` : ''}${conf}`;
}
