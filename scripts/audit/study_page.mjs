// Uses the pages of `prepose agree page` as a person would: node study_page.mjs WORDS SCALES CHOICE SHOTS [CHROMIUM]. See README.md.
import assert from 'node:assert/strict';
import { readFile, mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const { chromium } = createRequire(resolve('here'))('playwright-core');
const [words, scales, choice, shots, executablePath = '/usr/bin/chromium'] = process.argv.slice(2);
if (!shots) throw new Error('usage: node study_page.mjs WORDS SCALES CHOICE SHOTS [CHROMIUM]');
await mkdir(shots, { recursive: true });
const browser = await chromium.launch({ executablePath });
const errors = [];

async function open(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
  page.on('request', (request) => /^(file|data|blob):/.test(request.url()) || errors.push(`asked for ${request.url()}`));
  await page.goto(pathToFileURL(resolve(path)).href);
  await shown(page);
  return page;
}
const shown = (page) => page.waitForFunction(() => {
  const picture = document.getElementById('picture');
  return picture.complete && picture.naturalWidth > 0;
});
async function press(page, ...keys) {
  for (const key of keys) {
    await page.keyboard.press(key);
    await shown(page);
  }
}
const data = (page) => page.evaluate(() => JSON.parse(document.getElementById('sample').textContent));
async function exported(page) {
  const [download] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('e')]);
  return JSON.parse(await readFile(await download.path(), 'utf8'));
}
const shot = (page, name) => page.screenshot({ path: join(shots, `${name}.png`) });
const step = (name) => console.log(`ok  ${name}`);

// --- Words: one key an answer, and the next picture comes.
let page = await open(words);
let { key, samples, order, questions } = await data(page);
assert.equal(await page.locator('#checker').isVisible(), false);
await press(page, '1', '3');
assert.match(await page.locator('#counts').textContent(), /^2 labelled: 1 .*1 /);
await shot(page, 'words');
let labels = await exported(page);
const word_of = (i) => labels.find((label) => label.sample_id === samples[order[i]].id).label;
assert.deepEqual([0, 1].map(word_of), [0, 2].map((i) => questions[0].answers[i].value));
assert.deepEqual(Object.keys(labels[0]), ['sample_id', 'label', 'notes', 'timestamp']);
await press(page, 'z', 'z');
assert.match(await page.locator('#counts').textContent(), /^0 labelled/);
// What is kept under the page's name and is no answer is not taken for one.
await page.evaluate(({ key, id }) => localStorage.setItem(key, JSON.stringify({ at: id, labels: [[id, { label: 'none of these' }]] })), { key, id: samples[0].id });
await page.reload();
await shown(page);
assert.match(await page.locator('#counts').textContent(), /^0 labelled/);
step('words');

// --- Scales: keys answer axis by axis, and a picture is done when all are; the mouse changes one.
page = await open(scales);
({ samples, order, questions } = await data(page));
await press(page, '5');
assert.match(await page.locator('#place').textContent(), /^Picture 1 /);
await press(page, ...questions.slice(1).map(() => '7'));
assert.match(await page.locator('#place').textContent(), /^Picture 2 /);
await press(page, 'ArrowLeft');
await page.locator('fieldset').first().getByRole('button', { name: '2' }).click();
await shot(page, 'scales');
labels = await exported(page);
assert.equal(labels.length, 1, 'pictures with open axes are not exported');
assert.equal(labels[0][questions[0].name], 2);
assert.equal(labels[0][questions.at(-1).name], 7);
const give = JSON.stringify(labels);
const other = await open(scales);
await other.setInputFiles('#file', { name: 'mine.json', mimeType: 'application/json', buffer: Buffer.from(give) });
await other.waitForFunction(() => document.getElementById('status').textContent.startsWith('1 labels imported'));
const wrong = JSON.stringify([{ ...labels[0], [questions[0].name]: 8 }]);
await other.setInputFiles('#file', { name: 'wrong.json', mimeType: 'application/json', buffer: Buffer.from(wrong) });
await other.waitForFunction(() => document.getElementById('status').textContent.includes('entry 1'));
step('scales');

// --- Choices: names are hidden, the order is another each time, and the name is what is exported.
page = await open(choice);
({ samples, order } = await data(page));
const visible = await page.locator('body').innerText();
for (const { value } of samples[0].candidates) assert.ok(!visible.includes(value), `${value} is in sight`);
await shot(page, 'choice');
await press(page, '2');
await page.locator('#verdicts button').first().click();
await shown(page);
labels = await exported(page);
const chosen = (i) => labels.find((label) => label.sample_id === samples[order[i]].id).choice;
assert.equal(chosen(0), samples[order[0]].candidates[1].value);
assert.equal(chosen(1), samples[order[1]].candidates[0].value);
step('choices');

// --- A phone.
for (const [name, path] of Object.entries({ words, scales, choice })) {
  const phone = await open(path, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${name} is ${wide} pixels wide on a phone`);
  await phone.locator('#verdicts button').first().tap();
  await shot(phone, `phone-${name}`);
}
step('a phone');

assert.deepEqual(errors, []);
await browser.close();
console.log('all as it should be');
