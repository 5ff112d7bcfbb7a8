// Writes a run folder to try a report on: node make_run.mjs FOLDER [PROMPTS [SEEDS]]. Five methods, pictures that show what their
// records say, prompts that try to be markup, attention maps, people's labels.
import { createHash } from 'node:crypto';
import { linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32, deflateSync } from 'node:zlib';

const [out, prompts = '500', seeds = '4'] = process.argv.slice(2);
if (!out) throw new Error('usage: node make_run.mjs FOLDER [PROMPTS [SEEDS]]');
rmSync(out, { recursive: true, force: true });

const SIZE = 96;
const OBJECTS = ['cat', 'dog', 'teddy bear', 'fire hydrant', 'clock', 'zebra', 'bus', 'apple', 'potted plant', 'chair'];
const COLOURS = [[222, 132, 52], [120, 84, 60], [190, 140, 90], [200, 40, 40], [70, 110, 170], [60, 60, 66], [235, 190, 50], [120, 170, 60], [50, 130, 90], [150, 90, 160]];
const RELATIONS = ['left_of', 'right_of', 'above', 'below'];
const WORDS = { left_of: 'to the left of', right_of: 'to the right of', above: 'above', below: 'below' };
const INVERSE = { left_of: 'right_of', right_of: 'left_of', above: 'below', below: 'above' };
const HOSTILE = ['</script><script>document.title="broken"</script>', '"quotes" & \'more\' <b>bold</b>', '🐶 ← 🐱 ünïcödé', '{{DATA}} {{TITLE}}', '<img src=x onerror=alert(1)>'];
// [name, chance to pass, chance to be decided, UNet calls, noises]
const METHODS = [['prompt-only', 0.45, 0.45, 20, 1], ['psg', 0.93, 0.7, 20, 1], ['boxdiff', 0.9, 0.6, 20, 1], ['best-of-4', 0.7, 0.62, 80, 4], ['best-of-8', 0.78, 0.68, 160, 8]];

let state = 12345;
const random = () => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return state / 2 ** 32; };
const between = (low, high) => low + random() * (high - low);

/** `pixel(x, y, out)` writes red, green and blue into `out`. */
function png(width, height, pixel) {
  const raw = Buffer.alloc((width * 3 + 1) * height);
  const colour = [0, 0, 0];
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    pixel(x, y, colour);
    const at = y * (width * 3 + 1) + 1 + x * 3;
    for (let c = 0; c < 3; c++) raw[at + c] = Math.max(0, Math.min(255, colour[c]));
  }
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', deflateSync(raw)), chunk('IEND', Buffer.alloc(0))]);
}

const inside = (x, y, [x0, y0, x1, y1]) => ((x - (x0 + x1) / 2) / ((x1 - x0) / 2)) ** 2 + ((y - (y0 + y1) / 2) / ((y1 - y0) / 2)) ** 2 <= 1;
const scene = (ground, things) => png(SIZE, SIZE, (x, y, out) => {
  let colour = ground, shade = -y / 6;
  for (const thing of things) if (inside(x, y, thing.box)) { colour = thing.colour; shade = (x + y) / 8; }
  for (let c = 0; c < 3; c++) out[c] = colour[c] + shade;
});
/** An ellipse in COCO's run-length encoding, as text. */
function encoded(box) {
  const runs = [];
  let covered = false, length = 0;
  for (let x = 0; x < SIZE; x++) for (let y = 0; y < SIZE; y++) {
    if (inside(x, y, box) !== covered) { runs.push(length); length = 0; covered = !covered; }
    length++;
  }
  runs.push(length);
  let counts = '';
  runs.forEach((run, i) => {
    let value = i > 2 ? run - runs[i - 2] : run, more = true;
    while (more) {
      let piece = value & 31;
      value >>= 5;
      more = piece & 16 ? value !== -1 : value !== 0;
      if (more) piece |= 32;
      counts += String.fromCharCode(piece + 48);
    }
  });
  return { size: [SIZE, SIZE], counts };
}
const heat = (box) => png(SIZE, SIZE, (x, y, out) => {
  const away = Math.hypot(x - (box[0] + box[2]) / 2, y - (box[1] + box[3]) / 2) / 30;
  const v = Math.exp(-away * away);
  [out[0], out[1], out[2]] = [255 * Math.min(1, v * 1.6), 200 * v * v, 60 + 60 * v * (1 - v)];
});

const list = [];
for (let i = 0; i < Number(prompts); i++) {
  const pair = i >> 1;
  const relation = i % 2 ? INVERSE[RELATIONS[pair % 4]] : RELATIONS[pair % 4];
  let [a, b] = [OBJECTS[pair % 10], OBJECTS[(pair * 7 + 3) % 10]];
  if (a === b) b = OBJECTS[(pair + 5) % 10];
  if (i % 2) [a, b] = [b, a];
  const extra = i % 40 < HOSTILE.length ? ` ${HOSTILE[i % 40]}` : '';
  list.push({ prompt_id: `p_${String(i).padStart(6, '0')}`, prompt: `A photo of a ${a} ${WORDS[relation]} a ${b}.${extra}`, objects: [a, b], relations: [{ relation, a: 0, b: 1 }] });
}
const promptsFile = list.map((p) => JSON.stringify(p) + '\n').join('');
const config = {
  suite: { name: 'made-up', version: '1', sha256: createHash('sha256').update(promptsFile).digest('hex') },
  prompts: list.length, seeds: [...Array(Number(seeds)).keys()], methods: METHODS.map(([name]) => ({ name })),
  model: { checkpoint: 'toybox', sha256: '0'.repeat(64) },
  sampling: { steps: 20, guidance_scale: 7.5, scheduler: 'ddim', width: SIZE, height: SIZE, negative_prompt: '' }, checker: null, shard: null,
};
mkdirSync(join(out, 'provenance'), { recursive: true });
writeFileSync(join(out, 'run.json'), JSON.stringify(config, null, 2));
writeFileSync(join(out, 'prompts.jsonl'), promptsFile);
writeFileSync(join(out, 'provenance/2026-11-22T10-00-00Z.json'), JSON.stringify({ command: ['prepose', 'run', 'made-up', '--method', 'psg'], prepose: '0.1.0', device: 'flex f32', git_commit: null }, null, 2));

const labels = [];
for (const [method, right, sure, calls, noises] of METHODS) {
  for (const folder of ['images', 'maps', 'eval']) mkdirSync(join(out, method, folder), { recursive: true });
  const [manifest, records, scores] = [[], [], []];
  const drawn = new Map();
  let index = 0;
  for (const { prompt_id, prompt, objects: [a, b], relations: [{ relation }] } of list) for (const seed of config.seeds) {
    const id = `${method}_${prompt_id}_seed${String(seed).padStart(4, '0')}`;
    // One of six arrangements of each pair of objects, so that few pictures have to be drawn.
    const decided = random() < sure, pass = random() < right, kind = Math.floor(random() * 6);
    const reason = decided ? null : ['missing', 'missing', 'ambiguous', 'near'][kind % 4];
    const straight = pass === ['left_of', 'above'].includes(relation);
    const sideways = relation === 'left_of' || relation === 'right_of';
    const gap = reason === 'near' ? 3 : 20 + (kind % 3) * 4;
    const middle = (sign) => (sideways ? [48 + sign * gap, 42 + (kind % 5) * 3] : [42 + (kind % 5) * 3, 48 + sign * gap]);
    const box = ([x, y], r) => [x - r, y - r * 0.9, x + r, y + r * 0.9];
    const boxA = box(middle(straight ? -1 : 1), 12 + (kind % 4)), boxB = box(middle(straight ? 1 : -1), 15 - (kind % 3));
    const things = [{ label: a, box: boxA, colour: COLOURS[OBJECTS.indexOf(a)] }, { label: b, box: boxB, colour: COLOURS[OBJECTS.indexOf(b)] }];
    if (reason === 'missing') things.splice(kind % 2, 1);
    if (reason === 'ambiguous') things.push({ ...things[0], box: box([48, 84], 8) });
    const key = `${a} ${b} ${relation} ${pass} ${reason} ${kind}`;
    const image = join(out, method, 'images', `${id}.png`);
    if (drawn.has(key)) linkSync(drawn.get(key), image);
    else { writeFileSync(image, scene([236 - kind * 3, 228, 214 + kind * 2], things)); drawn.set(key, image); }
    if (index < 40) for (const thing of things.slice(0, 2)) writeFileSync(join(out, method, 'maps', `${id}-${thing.label}.png`), heat(thing.box));
    const conf = decided ? Math.min(1, between(0.25, 0.7) + (pass ? 0.25 : 0)) : 0;
    const verdict = decided ? (pass ? 'PASS' : 'FAIL') : 'UNDECIDABLE';
    const delta = (sideways ? boxA[0] - boxB[0] : boxA[1] - boxB[1]) / SIZE;
    const missing = things.length < 2 ? (things[0].label === a ? b : a) : null;
    const why = { missing: `missing: ${missing}`, ambiguous: `ambiguous: multiple ${a}`, near: 'near_boundary (|delta|=0.047 <= margin=0.1)' }[reason] ?? null;
    manifest.push({ sample_id: id, run_id: method, prompt_id, image_path: `images/${id}.png`, model: { pipeline: method, model_id: 'toybox', revision: null }, gen_params: { seed, height: SIZE, width: SIZE, num_inference_steps: 20, guidance_scale: 7.5, scheduler: 'ddim', negative_prompt: null }, prompt, relation, object_a: a, object_b: b, timestamp_utc: '2026-11-22T10:00:00Z', code_version: { prepose: '0.1.0', burn: '0', device: 'flex', git_commit: null } });
    records.push({
      sample_id: id, prompt_id, relation, object_a: a, object_b: b, verdict_raw: verdict, verdict_reason: why, conf,
      conf_components: { detection: between(0.7, 1), geometry: decided ? between(0.5, 1) : 0, stability: 1, agreement: 1 },
      detectors: { primary: { type: 'toybox', detections: things.map(({ label, box }) => ({ label, score: between(0.55, 0.99), box_xyxy: box, ...(index < 400 && { segmentation: encoded(box) }) })) } },
      selected: things.length < 2 || reason === 'ambiguous' ? { box_a_xyxy: null, box_b_xyxy: null, score_a: null, score_b: null } : { box_a_xyxy: boxA, box_b_xyxy: boxB, score_a: 0.9, score_b: 0.8 },
      geometry: { delta: reason === 'missing' ? null : delta, margin: 0.1, iou_ab: reason === 'missing' ? null : 0 }, overlay_path: null, image_size: [SIZE, SIZE],
    });
    scores.push({ sample_id: id, prompt_id, seed, unet_calls: calls, guided_calls: method === 'psg' ? 10 : 0, candidates: noises, seconds: calls * 0.03, found: missing ? 1 : 2, objects: 2, centre: missing ? null : pass, geneval: !missing && pass, t2i: !missing && pass ? 1 : 0, hrs: !missing && pass, pse: missing ? 0 : pass ? between(0.7, 1) : between(0, 0.3), side: null, level: null });
    if (index % 97 === 0) labels.push({ sample_id: id, human_verdict: random() < 0.9 ? verdict : 'FAIL', notes: '', timestamp: '' });
    index++;
  }
  const lines = (list) => list.map((line) => JSON.stringify(line) + '\n').join('');
  writeFileSync(join(out, method, 'manifest.jsonl'), lines(manifest));
  writeFileSync(join(out, method, 'eval/per_sample.jsonl'), lines(records));
  writeFileSync(join(out, method, 'eval/scores.jsonl'), lines(scores));
}
mkdirSync(join(out, 'audits/v1'), { recursive: true });
writeFileSync(join(out, 'audits/v1/labels_filled.json'), JSON.stringify(labels));
console.log(`${METHODS.length * list.length * config.seeds.length} pictures in ${out}`);
