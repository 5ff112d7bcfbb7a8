// The picture to begin with. It goes with the request and is kept by this tab alone.
import { $, say } from './dom.js';

/** Larger files do not fit into a request once they are text. */
const MOST_BYTES = 14 * 2 ** 20;
/** {base64, name, address}; null for none. */
let held = null;
let onStart = () => {};

/** Calls `changed` when there is another picture, or none any more. */
export function useStart(changed) { onStart = changed; show(); }

/** The picture as base64; undefined for none. */
export const startImage = () => held?.base64;

function show(problem) {
  $('start-image').hidden = !held;
  if (held) $('start-image').src = held.address;
  else $('start-image').removeAttribute('src');
  $('start-remove').hidden = !held;
  say($('start-said'), held?.name ?? '');
  $('start-problem').hidden = !problem;
  say($('start-problem'), problem ?? '');
  onStart();
}

function hold(next, problem) {
  if (held) URL.revokeObjectURL(held.address);
  held = next;
  show(problem);
}

/** `{base64, name, address}` of a file, or of what the history has; an error says why the browser cannot show it. */
export async function readPicture(blob, name) {
  const address = URL.createObjectURL(blob);
  try {
    if (blob.size > MOST_BYTES) throw new Error(`it has ${Math.ceil(blob.size / 2 ** 20)} MiB; up to 14 fit into a request`);
    const trial = new Image();
    trial.src = address;
    await trial.decode().catch(() => { throw new Error('this browser cannot read it as a picture'); });
    return { base64: base64Of(new Uint8Array(await blob.arrayBuffer())), name: name.slice(0, 80), address };
  } catch (error) {
    URL.revokeObjectURL(address);
    throw error;
  }
}

/** Takes a picture to begin with. Returns whether it could. */
export async function startFrom(blob, name) {
  try {
    hold(await readPicture(blob, name));
    $('start-settings').open = true;
    return true;
  } catch (error) {
    $('start-settings').open = true;
    show(`${name.slice(0, 80)}: ${error.message}.`);
    return false;
  }
}

export function base64Of(bytes) {
  // In pieces: a call takes only so many arguments.
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** Takes what a request begins with. Returns whether the picture itself was there: finished requests name only its hash or file. */
export function fillStart(init) {
  const base64 = typeof init?.image === 'string' && !init.image.startsWith('sha256:') ? init.image : null;
  if (base64 && base64 === held?.base64) return true;
  hold(null);
  if (!base64) return !init;
  try {
    const bytes = Uint8Array.from(atob(base64.replace(/^data:[^,]*,/, '')), (letter) => letter.charCodeAt(0));
    startFrom(new Blob([bytes]), 'as before');
    return true;
  } catch { return false; }
}

$('start-choose').addEventListener('click', () => $('start-file').click());
$('start-file').addEventListener('change', () => {
  const file = $('start-file').files[0];
  $('start-file').value = '';
  if (file) startFrom(file, file.name);
});
$('start-remove').addEventListener('click', () => { hold(null); $('start-choose').focus(); });
