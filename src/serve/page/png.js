// The text inside a PNG. A dropped file is hostile: lengths are bounded, nothing is believed but its bytes, and what is found goes
// into the page as text alone.
const SIGNATURE = [137, 80, 78, 71, 13, 10, 26, 10];
/** More than any request takes; what inflates to more is no request. */
const MOST_TEXT = 4 << 20;
const MOST_FILE = 64 << 20;
const MOST_CHUNKS = 100_000;

/** The text chunks of a PNG file by keyword; of several with one keyword the first. Throws an Error with a message for people. */
async function textsOf(file) {
  if (file.size > MOST_FILE) throw new Error(`the file has ${Math.round(file.size / (1 << 20))} MiB; a picture may have ${MOST_FILE >> 20}`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (SIGNATURE.some((byte, at) => bytes[at] !== byte)) throw new Error('the file is no PNG; only a PNG as it was saved carries its request');
  const view = new DataView(bytes.buffer);
  const texts = new Map();
  let chunks = 0;
  for (let at = 8; at + 12 <= bytes.length;) {
    const length = view.getUint32(at);
    const kind = latin(bytes.subarray(at + 4, at + 8));
    const end = at + 8 + length;
    if (end + 4 > bytes.length || ++chunks > MOST_CHUNKS) throw new Error('the PNG is cut short or broken');
    const data = bytes.subarray(at + 8, end);
    const read = length <= MOST_TEXT ? READERS[kind] : undefined;
    const entry = read && await read(data).catch(() => null);
    if (entry && !texts.has(entry[0])) texts.set(...entry);
    if (kind === 'IEND') break;
    at = end + 4;
  }
  return texts;
}

const latin = (bytes) => {
  let text = '';
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return text;
};

/** [what is before the first zero, what is after it]. */
function parted(bytes) {
  const zero = bytes.indexOf(0);
  if (zero < 0) throw new Error('no keyword');
  return [latin(bytes.subarray(0, zero)), bytes.subarray(zero + 1)];
}

async function inflated(bytes) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate')).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST_TEXT) { await reader.cancel(); throw new Error('too long'); }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

const READERS = {
  async tEXt(data) {
    const [keyword, text] = parted(data);
    return [keyword, latin(text)];
  },
  async zTXt(data) {
    const [keyword, rest] = parted(data);
    return [keyword, latin(await inflated(rest.subarray(1)))];
  },
  async iTXt(data) {
    const [keyword, rest] = parted(data);
    const packed = rest[0] === 1;
    // Past the flag and the method, then past the language and the translated keyword.
    let body = rest.subarray(2);
    for (let i = 0; i < 2; i++) body = parted(body)[1];
    return [keyword, new TextDecoder().decode(packed ? await inflated(body) : body)];
  },
};

/** The request inside a PNG: prepose's own, or what AUTOMATIC1111's line of parameters says. `{request, from, left}`. */
export async function requestOf(file) {
  const texts = await textsOf(file);
  const own = texts.get('prepose');
  if (own) {
    try {
      const made = parseExact(own);
      if (made && typeof made === 'object') return { request: made.request ?? made, from: 'prepose', left: [] };
    } catch { /* The other chunk may be whole. */ }
  }
  const parameters = texts.get('parameters');
  if (parameters) return { ...fromParameters(parameters), from: 'parameters' };
  throw new Error('the PNG carries no request; pictures copied out of a page or sent through a messenger have lost theirs');
}

/** JSON whose integers beyond 2^53 stay as they are written, as text: seeds go to 2^64 − 1. */
export function parseExact(text) {
  return JSON.parse(text, (_, value, context) =>
    (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && /^\d+$/.test(context?.source ?? '') ? context.source : value));
}

/** The other way: seeds that are text are written as numbers. */
export function writeExact(value, indent) {
  const whole = (key, item) => (key === 'seed' && typeof item === 'string' && /^\d{1,20}$/.test(item) ? exact(item) : item);
  return JSON.stringify(value, (key, item) => (key === 'seeds' && Array.isArray(item) ? item.map((one) => whole('seed', one)) : whole(key, item)), indent);
}
const exact = (digits) => (Number.isSafeInteger(Number(digits)) ? Number(digits) : JSON.rawJSON?.(digits) ?? Number(digits));

/** AUTOMATIC1111's form: the prompt, a line of what is not wanted, a line of settings. */
function fromParameters(text) {
  const lines = text.replaceAll('\r\n', '\n').split('\n');
  const pairs = [...(lines.at(-1) ?? '').matchAll(/\s*([\w ]+):\s*("(?:\\.|[^\\"])*"|[^,]*)(?:,|$)/g)];
  const settings = new Map(pairs.length >= 3 ? pairs.map(([, key, value]) => [key.trim(), value.trim()]) : []);
  if (settings.size) lines.pop();
  const negative = lines.findIndex((line) => line.startsWith('Negative prompt:'));
  const prompt = lines.slice(0, negative < 0 ? undefined : negative).join('\n').trim();
  const request = { prompt };
  if (negative >= 0) request.negative_prompt = [lines[negative].slice('Negative prompt:'.length), ...lines.slice(negative + 1)].join('\n').trim();
  const take = (key, field, pattern = /^[\d.]+$/) => {
    const value = settings.get(key);
    if (value !== undefined && pattern.test(value)) { request[field] = Number(value); settings.delete(key); }
  };
  take('Steps', 'steps', /^\d+$/);
  take('CFG scale', 'guidance_scale');
  const seed = settings.get('Seed');
  if (/^\d{1,20}$/.test(seed ?? '')) { request.seed = Number.isSafeInteger(Number(seed)) ? Number(seed) : seed; settings.delete('Seed'); }
  const size = /^(\d+)x(\d+)$/.exec(settings.get('Size') ?? '');
  if (size) { [request.width, request.height] = [Number(size[1]), Number(size[2])]; settings.delete('Size'); }
  return { request, left: [...settings.keys()] };
}
