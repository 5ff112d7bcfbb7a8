// Uses a labelling page as a person would: node label_page.mjs PAGE SHOTS [CHROMIUM]. See README.md.
import assert from 'node:assert/strict';
import { readFile, writeFile, mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

// Found from the working directory, so that it need not be installed in the repository.
const { chromium } = createRequire(resolve('here'))('playwright-core');

const [page_path, shots, executablePath = '/usr/bin/chromium'] = process.argv.slice(2);
if (!shots) throw new Error('usage: node label_page.mjs PAGE SHOTS [CHROMIUM]');
await mkdir(shots, { recursive: true });
const address = pathToFileURL(resolve(page_path)).href;
const browser = await chromium.launch({ executablePath });
const errors = [];

async function open(options = {}, expected = 0) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && expected-- <= 0 && errors.push(message.text()));
  page.on('request', (request) => /^(file|data|blob):/.test(request.url()) || errors.push(`asked for ${request.url()}`));
  await page.goto(address);
  await shown(page);
  return page;
}
const text = (page, id) => page.locator(`#${id}`).textContent();
const shown = (page) => page.waitForFunction(() => {
  const picture = document.getElementById('picture');
  return picture.complete && picture.naturalWidth > 0 && getComputedStyle(picture).visibility === 'visible';
});
async function press(page, ...keys) {
  for (const key of keys) {
    await page.keyboard.press(key);
    await shown(page);
  }
}
const shot = (page, name) => page.screenshot({ path: join(shots, `${name}.png`) });
const samples = (page) => page.evaluate(() => JSON.parse(document.getElementById('sample').textContent));
/** All of the picture is in sight, undistorted and not covered by its frame's edge. */
async function whole(page) {
  const [picture, frame, natural] = await page.evaluate(() => {
    const picture = document.getElementById('picture');
    const box = (node) => { const { x, y, width, height } = node.getBoundingClientRect(); return { x, y, width, height }; };
    return [box(picture), box(picture.parentElement), { width: picture.naturalWidth, height: picture.naturalHeight }];
  });
  assert.ok(picture.x >= frame.x && picture.x + picture.width <= frame.x + frame.width + 0.5, 'cut off at the side');
  assert.ok(picture.y >= frame.y && picture.y + picture.height <= frame.y + frame.height + 0.5, 'cut off at the foot');
  assert.equal(await page.evaluate(() => getComputedStyle(document.getElementById('picture')).objectFit), 'contain');
  assert.ok(Math.min(picture.width / natural.width, picture.height / natural.height) * natural.width >= 250, 'too small');
}
const step = (name) => console.log(`ok  ${name}`);

async function exported(page) {
  const [download] = await Promise.all([page.waitForEvent('download'), press(page, 'e')]);
  assert.equal(download.suggestedFilename(), 'labels_filled.json');
  return readFile(await download.path(), 'utf8');
}

// --- Blind, and every verdict has a key.
let page = await open();
const { samples: all, order } = await samples(page);
const total = all.length;
assert.ok(total >= 4, 'the sample needs at least four pictures');
assert.deepEqual([...order].sort((a, b) => a - b), all.map((_, i) => i));
const visible = await page.locator('body').innerText();
const first = all[order[0]];
assert.ok(!visible.includes(first.id) && !visible.includes(first.conf.toFixed(3)), 'the page is not blind');
assert.match(await text(page, 'question'), new RegExp(`^Is the ${first.a} .* the ${first.b}\\?$`));
assert.equal(await text(page, 'place'), `Picture 1 of ${total}`);
await whole(page);
await shot(page, 'start');
await press(page, 'v');
assert.ok((await page.locator('#verdict').innerText()).includes(first.verdict));
await shot(page, 'checker');
await press(page, 'v');
step('blind at first; V shows and hides the verdict');

await press(page, 'p', 'F', '3');
assert.match(await text(page, 'counts'), /^3 labelled: 1 pass, 1 fail, 1 undecidable/);
assert.equal(await text(page, 'place'), `Picture 4 of ${total}`);
step('P, F and 3 label and go on');

await press(page, 'z');
assert.match(await text(page, 'counts'), /^2 labelled: 1 pass, 1 fail, 0 undecidable/);
assert.equal(await text(page, 'place'), `Picture 3 of ${total}`);
await press(page, 'u', 'ArrowLeft');
assert.equal(await page.locator('[aria-pressed=true]').getAttribute('data-verdict'), 'UNDECIDABLE');
await press(page, 'Control+z');
assert.match(await text(page, 'counts'), /^2 labelled/);
step('Z and Ctrl+Z undo');

await press(page, 'n');
await page.keyboard.type('part of "it" is cut off, puff');
await press(page, 'Escape', 'u');
await press(page, 'ArrowLeft', 'ArrowLeft', 'ArrowLeft', 'ArrowLeft');
assert.equal(await text(page, 'place'), `Picture 1 of ${total}`);
await press(page, 'g');
assert.equal(await text(page, 'place'), `Picture 4 of ${total}`);
await press(page, 'ArrowLeft');
assert.equal(await page.locator('#notes').inputValue(), 'part of "it" is cut off, puff');
step('N writes a note, Esc leaves it, arrows and G move');

// --- Resuming, export.
await page.reload();
assert.equal(await text(page, 'place'), `Picture 3 of ${total}`);
assert.match(await text(page, 'counts'), /^3 labelled: 1 pass, 1 fail, 1 undecidable/);
assert.match(await text(page, 'status'), /3 labels of an earlier time/);
step('a reload goes on where it was');

const file = await exported(page);
const labels = JSON.parse(file);
assert.deepEqual(labels.map(Object.keys), Array(3).fill(['sample_id', 'human_verdict', 'notes', 'timestamp']));
const by_id = Object.fromEntries(labels.map((label) => [label.sample_id, label]));
['PASS', 'FAIL', 'UNDECIDABLE'].forEach((verdict, i) => assert.equal(by_id[all[order[i]].id].human_verdict, verdict));
assert.equal(by_id[all[order[2]].id].notes, 'part of "it" is cut off, puff');
for (const { timestamp } of labels) assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const place_of = new Map(all.map(({ id }, i) => [id, i]));
assert.deepEqual(labels.map((l) => place_of.get(l.sample_id)), labels.map((l) => place_of.get(l.sample_id)).sort((a, b) => a - b));
step('E exports the released format in the order of the sample');

// --- Import elsewhere, wrong files.
const half = join(shots, 'labels_filled.json');
await writeFile(half, '\uFEFF' + file.replaceAll('\n', '\r\n'));
page = await open({ colorScheme: 'dark' });
assert.match(await text(page, 'counts'), /^0 labelled/);
await press(page, 'e');
assert.match(await text(page, 'status'), /nothing to export/);
const give = async (name, content) => {
  await writeFile(join(shots, name), content);
  await page.locator('#file').setInputFiles(join(shots, name));
};
await page.locator('#file').setInputFiles(half);
await page.waitForFunction(() => document.getElementById('status').textContent.startsWith('3 labels imported'));
assert.match(await text(page, 'counts'), /^3 labelled: 1 pass, 1 fail, 1 undecidable/);
await press(page, 'z');
assert.match(await text(page, 'counts'), /^0 labelled/);
const refused = async (content, part) => {
  await give('wrong.json', content);
  await page.waitForFunction((part) => document.getElementById('status').textContent.includes(part), part);
  assert.match(await text(page, 'counts'), /^0 labelled/);
};
await refused('not json', 'not JSON');
await refused('{}', 'entry 1');
await refused(JSON.stringify([labels[0], { ...labels[1], human_verdict: 'maybe' }]), 'entry 2');
await refused(JSON.stringify([{ ...labels[0], sample_id: 'elsewhere' }]), '1 of other samples left out');
step('I imports, undone by Z; wrong files are refused whole');

// An older label does not replace a newer one.
await press(page, 'f');
await give('older.json', JSON.stringify([{ ...by_id[first.id], timestamp: '2001-01-01T00:00:00.000Z' }]));
await page.waitForFunction(() => document.getElementById('status').textContent.includes('1 older than yours'));
assert.match(await text(page, 'counts'), /^1 labelled: 0 pass, 1 fail/);
step('the later of two labels counts');

// --- To the end, by keyboard alone.
for (let i = 1; i < total; i++) await press(page, 'pfu'[i % 3]);
assert.match(await text(page, 'status'), new RegExp(`All ${total} pictures are labelled`));
assert.equal(JSON.parse(await exported(page)).length, total);
await press(page, 'n');
assert.equal(await page.evaluate(() => document.activeElement.id), 'notes');
await press(page, 'Escape');
await shot(page, 'finished-dark');
await press(page, '?');
assert.ok(await page.locator('#help').isVisible());
await shot(page, 'help-dark');
await press(page, 'p', 'Escape');
assert.ok(!(await page.locator('#help').isVisible()));
step('a whole sample is labelled with the keyboard alone');

// Every control is reached with Tab and has a name.
const names = new Set();
for (let i = 0; i < 20; i++) {
  await press(page, 'Tab');
  names.add(await page.evaluate(() => document.activeElement.textContent.trim() || document.activeElement.id));
}
for (const name of ['Pass', 'Fail', 'Undecidable', 'Export', 'Import', 'Help', 'Previous', 'Undo', 'What the checker']) {
  assert.ok([...names].some((reached) => reached.startsWith(name)), `Tab does not reach ${name}`);
}
step('Tab reaches every control');

// --- Contrast of every text on its ground, light and dark, before and after a verdict.
const contrasts = () => {
  const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour[3] !== 0) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('body *')]
    .filter((node) => node.offsetParent && !node.disabled && !node.closest(':disabled')
      && [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()))
    .map((node) => {
      const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), node.outerHTML.slice(0, 80)];
    })
    .filter(([ratio]) => ratio < 4.5);
};
for (const colorScheme of ['light', 'dark']) {
  await page.emulateMedia({ colorScheme });
  for (const key of ['p', 'f', 'u']) {
    await press(page, 'ArrowLeft', key, 'v');
    assert.deepEqual(await page.evaluate(contrasts), [], colorScheme);
    await press(page, 'v');
  }
}
step('every text has a contrast of 4.5 or more, light and dark');

// --- A phone.
for (const colorScheme of ['light', 'dark']) {
  page = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  for (const verdict of ['PASS', 'FAIL', 'UNDECIDABLE']) {
    const box = await page.locator(`[data-verdict=${verdict}]`).boundingBox();
    assert.ok(box.height >= 44 && box.y + box.height <= 844, `${verdict} is not under the thumb`);
  }
  await whole(page);
  const picture = await page.locator('#picture').boundingBox();
  assert.ok(picture.y + picture.height < 844 * 0.75, 'the picture is not above the buttons');
  await shot(page, `phone-${colorScheme}`);
  await page.locator('[data-verdict=FAIL]').tap();
  assert.match(await text(page, 'counts'), /^1 labelled: 0 pass, 1 fail/);
}
step('a phone shows picture and verdicts together');

// --- A browser that keeps nothing says so.
const context = await browser.newContext();
await context.addInitScript(() => {
  Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } });
});
page = await context.newPage();
page.on('pageerror', (error) => errors.push(String(error)));
await page.goto(address);
await shown(page);
assert.match(await text(page, 'status'), /does not keep labels/);
await press(page, 'p');
assert.match(await text(page, 'counts'), /^1 labelled/);
step('without storage it works and warns');

// --- A picture that is gone.
page = await open({}, 1);
await page.evaluate(() => { document.getElementById('picture').src = 'gone.png'; });
await page.waitForFunction(() => !document.getElementById('no-picture').hidden);
assert.match(await text(page, 'no-picture'), /is not there/);
await page.keyboard.press('p');
assert.match(await text(page, 'status'), /no picture to judge/);
assert.match(await text(page, 'counts'), /^0 labelled/);
step('a missing picture is said, and cannot be judged');

await browser.close();
assert.deepEqual(errors, []);
console.log('no errors in the console, no requests');
