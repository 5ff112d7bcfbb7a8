// A PNG that is dropped or pasted: its request goes into the form. Both events are held back everywhere, or the browser would leave the
// page for the file.
import { $, element } from './dom.js';
import { requestOf } from './png.js';
import { fill } from './form.js';

let onTaken = () => {};
/** Called when a request was taken: the form should be seen then. */
export function useDrop(taken) { onTaken = taken; }

let depth = 0;
const carriesFile = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
function hover(by) {
  depth = Math.max(0, depth + by);
  $('drop').hidden = depth === 0;
}
addEventListener('dragenter', (event) => { if (carriesFile(event)) { event.preventDefault(); hover(1); } });
addEventListener('dragleave', (event) => { if (carriesFile(event)) hover(-1); });
addEventListener('dragover', (event) => { if (carriesFile(event)) { event.preventDefault(); event.dataTransfer.dropEffect = 'copy'; } });
addEventListener('drop', (event) => {
  if (!carriesFile(event)) return;
  event.preventDefault();
  hover(-depth);
  take(event.dataTransfer.files[0]);
});
addEventListener('paste', (event) => {
  const file = [...(event.clipboardData?.files ?? [])][0];
  if (file) { event.preventDefault(); take(file); }
});

// The same for the keyboard and for phones, which drop nothing.
$('from-png').addEventListener('click', () => $('png-file').click());
$('png-file').addEventListener('change', () => {
  take($('png-file').files[0]);
  $('png-file').value = '';
});

function tell(text, wrong) {
  const line = $('from');
  line.replaceChildren(element('p', { role: wrong ? 'alert' : 'status', class: wrong ? 'problem' : null }, text),
    element('button', { type: 'button', class: 'quiet', 'aria-label': 'Dismiss', onclick: () => { line.hidden = true; } }, '×'));
  line.hidden = false;
}

/** Takes a file's request. Its name and all that it holds are shown as text. */
async function take(file) {
  if (!file) return;
  const name = file.name.slice(0, 80);
  try {
    const { request, left } = await requestOf(file);
    takeRequest(request, name, left);
  } catch (error) {
    tell(`${name}: ${error.message}.`, true);
    onTaken();
  }
}

/** Fills the form from a request, and says what the form has no place for. */
export function takeRequest(request, name, left = [], extras) {
  const lost = [...left, ...fill(request, extras)].map((one) => String(one).slice(0, 60));
  tell(`The request of ${name}.${lost.length ? ` Not taken, since this page has no field or choice for it: ${lost.slice(0, 12).join(', ')}.` : ''}`, false);
  onTaken();
}
