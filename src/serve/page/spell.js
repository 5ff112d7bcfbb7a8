// A request as a command line, Python, JSON or curl, as the server writes it, to be copied.
import { $, choice, refill, say } from './dom.js';
import * as api from './api.js';
import { asJson } from './form.js';

const FORMS = [['command', 'Command line'], ['python', 'Python'], ['curl', 'curl'], ['json', 'JSON']];
let form = 'command';
let texts = {};
let files = [];

/** Of a finished job the server knows pictures that were sent by their hashes alone. */
const isThere = (image) => typeof image === 'string' && !image.startsWith('sha256:');

/** `body` without the pictures that are not there any more, and what those were, in words. */
function parted(body) {
  const { init, pictures = [], ...request } = body.request;
  const gone = [];
  if (isThere(init?.image)) request.init = init;
  else if (init) gone.push('the start picture');
  if (!pictures.every(({ image, region }) => isThere(image) && (!region?.mask || isThere(region.mask)))) gone.push('the shown pictures');
  else if (pictures.length) request.pictures = pictures;
  return [{ ...body, request }, gone];
}

/** Opens the dialog for what would be sent. */
export async function openSpell(given) {
  texts = {};
  const [body, gone] = parted(given);
  const lacks = gone.length ? `without ${gone.join(' and ')}, which the server has not kept` : '';
  $('spell-lacks').hidden = !lacks;
  say($('spell-lacks'), lacks && `The copy is ${lacks}.`);
  const { init, pictures = [] } = body.request;
  // As the server names them.
  files = [init && 'start.png', ...pictures.flatMap(({ region }, i) => [`picture-${i + 1}.png`, region?.mask && `mask-${i + 1}.png`])].filter(Boolean);
  say($('spell-said'), '');
  show('Writing…');
  $('spell').showModal();
  try {
    texts = await api.spell(body);
  } catch (error) {
    // JSON needs no server.
    texts = { json: asJson(body, 2), wrong: error.message };
    if (!texts[form]) form = 'json';
  }
  if (lacks) texts = noted(texts, lacks);
  show();
}

/** The texts with a comment, where there can be one. */
function noted({ command, python, curl, ...others }, lacks) {
  const behind = (text) => text && `${text}  # ${lacks}`;
  return { ...others, command: behind(command), python: python && `# ${lacks}\n${python}`, curl: behind(curl) };
}

function show(waiting) {
  refill($('spell-forms'), choice('Form', FORMS.filter(([name]) => waiting || texts[name]), form, (value) => { form = value; say($('spell-said'), ''); show(); }));
  $('spell-text').textContent = waiting ?? texts[form] ?? '';
  // A picture is too long to be read, let alone copied.
  if (files.length && !waiting) say($('spell-said'), form === 'json' ? `${files.join(', ')}: the picture${files.length > 1 ? 's' : ''} in base64.` : `Reads ${files.join(', ')}.`);
  if (texts.wrong) say($('spell-said'), texts.wrong);
  $('spell-copy').disabled = Boolean(waiting);
}

$('spell-copy').addEventListener('click', async () => {
  const text = $('spell-text').textContent;
  try {
    await navigator.clipboard.writeText(text);
    say($('spell-said'), 'Copied.');
  } catch {
    // Without the right to the clipboard (plain http from elsewhere) the text is selected, so that Ctrl+C takes it.
    getSelection().selectAllChildren($('spell-text'));
    $('spell-text').focus();
    say($('spell-said'), 'Selected; press Ctrl+C.');
  }
});
$('spell-close').addEventListener('click', () => $('spell').close());
$('spell').addEventListener('click', (event) => { if (event.target === $('spell')) $('spell').close(); });
