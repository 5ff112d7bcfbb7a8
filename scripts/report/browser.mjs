// Uses a report's page as a person would: node browser.mjs PAGE SHOTS [CHROMIUM]. The page is that of make_run.mjs. See README.md.
import assert from 'node:assert/strict';
import { mkdir, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

// Found from the working directory, so that it need not be installed in the repository.
const { chromium } = createRequire(resolve('here'))('playwright-core');

const [page_path, shots, executablePath = '/usr/bin/chromium'] = process.argv.slice(2);
if (!shots) throw new Error('usage: node browser.mjs PAGE SHOTS [CHROMIUM]');
await mkdir(shots, { recursive: true });
const address = pathToFileURL(resolve(page_path)).href;
const folder = pathToFileURL(resolve(page_path, '../..') + '/').href;
const browser = await chromium.launch({ executablePath });
const errors = [], asked = new Set(), times = [];

const step = (name) => console.log(`ok  ${name}`);
const time = (name, milliseconds, most) => {
  times.push(`${name} ${milliseconds.toFixed(0)} ms`);
  assert.ok(milliseconds <= most, `${name} took ${milliseconds.toFixed(0)} ms, more than ${most}`);
};
const shot = (page, name) => page.screenshot({ path: join(shots, `${name}.png`) });
const text = (page, id) => page.locator(`#${id}`).textContent();
const count = async (page) => Number((await text(page, 'count')).match(/[\d,]+/)[0].replace(',', ''));
const to = (page, id) => page.evaluate((id) => document.getElementById(id).scrollIntoView({ behavior: 'instant' }), id);
/** All pictures in sight are there. */
const loaded = (page) => page.waitForFunction(() => [...document.querySelectorAll('.card img, #detail[open] img')].filter((image) => {
  const { top, bottom } = image.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}).every((image) => image.complete && image.naturalWidth > 0));

async function open(options = {}, hash = '') {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, ...options });
  const page = await context.newPage();
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && errors.push(message.text()));
  page.on('request', (request) => {
    asked.add(request.url().slice(0, 200));
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(folder)) errors.push(`asked for ${request.url()}`);
  });
  const start = Date.now();
  await page.goto(address + hash);
  await page.waitForFunction(() => document.querySelectorAll('.card').length > 0 || document.getElementById('grid').style.height);
  page.loading = Date.now() - start;
  return page;
}

/** Milliseconds that `act` takes with all that it puts on the page, and until it is painted. */
const timed = (page, act) => page.evaluate(async (act) => {
  const start = performance.now();
  new Function(act)();
  document.body.offsetHeight;
  const done = performance.now() - start;
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  return [done, performance.now() - start];
}, act);

// --- What is there.
let page = await open();
time('load', page.loading, 5000);
time('parse and first layout', await page.evaluate(() => performance.getEntriesByType('navigation')[0].domComplete), 4000);
const total = await count(page);
assert.equal(total, 10_000);
assert.ok(!/broken/.test(await page.title()), 'a prompt ran as a script');
assert.equal(await page.locator('img[src="x"]').count(), 0, 'a prompt became markup');
assert.equal(await page.locator('.methods article').count(), 5);
assert.ok(await page.locator('#plots svg.plot').count() >= 8);
await shot(page, 'light-overview');
await to(page, 'tables');
await shot(page, 'light-tables');
await to(page, 'plots');
await shot(page, 'light-plots');
await page.locator('#plots').screenshot({ path: join(shots, 'light-all-plots.png') });
step(`${total} pictures, ${(await stat(page_path)).size >> 10} KiB`);

// --- Tables sort, by pointer and by key.
const column = (name) => page.locator(`#table-main_results tbody tr`).evaluateAll((rows, name) => {
  const heads = [...document.querySelectorAll('#table-main_results thead th')].map((head) => head.textContent);
  return rows.map((row) => row.cells[heads.indexOf(name)].textContent);
}, name);
const original = await column('run');
const head = page.locator('#table-main_results thead button', { hasText: /^pass_rate$/ });
await head.click();
const falling = (await column('pass_rate')).map(parseFloat);
assert.deepEqual(falling, [...falling].sort((a, b) => b - a));
await head.focus();
await page.keyboard.press('Enter');
assert.deepEqual((await column('pass_rate')).map(parseFloat), falling.reverse());
assert.equal(await page.locator('#table-main_results [aria-sort]').getAttribute('aria-sort'), 'ascending');
await page.keyboard.press('Enter');
assert.deepEqual(await column('run'), original);
step('heads sort tables: falling, rising, as before');

// --- Tables are copied as they stand.
await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
const copied = async (name) => {
  const button = page.locator(`#table-main_results [data-copy=${name}]`);
  await button.click();
  await page.waitForFunction((name) => document.querySelector(`#table-main_results [data-copy=${name}]`).textContent === 'Copied', name);
  return page.evaluate(() => navigator.clipboard.readText());
};
assert.match(await copied('latex'), /\\toprule\n    run & samples & pass\\_rate/);
assert.match(await copied('markdown'), /^\| run \| samples \| pass_rate .*\n\| --- \| ---: \|/);
step('copies of tables as Markdown and LaTeX');

// --- Filters.
await to(page, 'gallery');
await loaded(page);
await shot(page, 'light-gallery');
const chip = (name) => page.locator('.chip', { hasText: name }).first();
const told = async (name) => Number((await chip(name).locator('small').textContent()).replace(',', ''));
const psg = await told('psg');
await chip('psg').click();
assert.equal(await count(page), psg);
const fails = await told('FAIL');
await chip('FAIL').click();
assert.equal(await count(page), fails);
const above = await told('above');
await chip('above').click();
assert.equal(await count(page), above);
assert.ok(above > 0 && above < fails);
const cards = page.locator('.card button');
for (const label of await cards.evaluateAll((all) => all.map((one) => one.ariaLabel))) assert.match(label, /above.*psg.*: fail, confidence/);
step('method, verdict and relation, each with how many it would give');
await page.locator('#q').fill('zebra -bus');
const both = await count(page);
assert.ok(both > 0 && both < above);
for (const label of await cards.evaluateAll((all) => all.map((one) => one.ariaLabel))) assert.ok(/zebra/.test(label) && !/bus/.test(label), label);
const kept = page.url();
assert.match(kept, /q=zebra/);
await page.locator('#q').fill('nothing of the kind');
assert.equal(await count(page), 0);
assert.ok(await page.locator('#none').isVisible());
await page.keyboard.press('Escape');
await page.locator('#reset').click();
assert.equal(await count(page), total);
step('search with several words and without others; nothing fits; reset');
await page.locator('#low').fill('0.8');
const sure = await count(page);
await page.locator('#high').fill('0.9');
assert.ok(sure > 0 && await count(page) < sure);
await page.locator('#order').selectOption('least');
const confidences = await cards.evaluateAll((all) => all.map((one) => Number(one.ariaLabel.match(/confidence ([\d.]+)/)[1])));
assert.ok(confidences[0] >= 0.8 && confidences.every((c, i) => !i || c >= confidences[i - 1]));
await page.locator('#reset').click();
step('range of confidence, order by confidence');
const again = await open({}, kept.slice(kept.indexOf('#')));
assert.equal(await count(again), both);
await again.close();
step('the address brings the filters back');

// --- Timings, from the event to layout and to the painted frame.
/** The best of three, since others may use the machine; `back` undoes `act`. */
const filter = async (name, act, back) => {
  const tries = [];
  for (let i = 0; i < 3; i++) {
    tries.push(await timed(page, act));
    await timed(page, back);
  }
  const best = (part) => Math.min(...tries.map((one) => one[part]));
  time(`${name}: filtered`, best(0), 100);
  time(`${name}: painted`, best(1), 250);
};
const type = (value) => `const q = document.getElementById('q'); q.value = '${value}'; q.dispatchEvent(new Event('input', { bubbles: true }));`;
const choose = (id, value) => `const s = document.getElementById('${id}'); s.value = '${value}'; s.dispatchEvent(new Event('change'));`;
const [first] = await timed(page, type('zebra'));
time('first search', first, 300);
await filter('search', type('dog clock'), type(''));
await filter('chip', `document.querySelectorAll('.chip input')[1].click()`, `document.querySelectorAll('.chip input')[1].click()`);
await filter('confidence', `const l = document.getElementById('low'); l.value = 0.5; l.dispatchEvent(new Event('input'));`, `document.getElementById('reset').click()`);
await filter('order by prompt', choose('order', 'prompt'), choose('order', 'run'));
await filter('side by side', choose('view', 'compare'), choose('view', 'grid'));
await filter('boxes', choose('boxes', '2'), choose('boxes', '0'));
await page.evaluate(() => scrollTo(0, document.body.scrollHeight / 2));
await page.waitForFunction(() => [...document.querySelectorAll('.card button')].some((one) => { const { top } = one.getBoundingClientRect(); return top > 0 && top < innerHeight; }));
await loaded(page);
const nodes = await page.locator('.card').count();
assert.ok(nodes < 250, `${nodes} cards are in the document`);
const [, jump] = await timed(page, 'scrollTo(0, document.body.scrollHeight)');
time('jump to the end', jump, 250);
const frames = await page.evaluate(async () => {
  scrollTo(0, 3000);
  const gaps = [];
  let last = performance.now();
  for (let i = 0; i < 60; i++) {
    scrollBy(0, 400);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - last);
    last = now;
  }
  return gaps.sort((a, b) => a - b);
});
times.push(`scrolling: median frame ${frames[30].toFixed(0)} ms, slowest ${frames.at(-1).toFixed(0)} ms`);
times.push(`heap ${(await page.evaluate(() => performance.memory.usedJSHeapSize)) >> 20} MiB`);
step('filtering under 100 ms, few cards in the document');

// --- The keyboard alone.
await page.reload();
await page.waitForFunction(() => document.querySelectorAll('.card').length > 0);
await page.keyboard.press('/');
assert.equal(await page.evaluate(() => document.activeElement.id), 'q');
await page.keyboard.type('teddy');
await page.keyboard.press('ArrowDown');
const focused = () => page.evaluate(() => document.activeElement.ariaLabel);
const columns = await page.evaluate(() => getComputedStyle(document.querySelector('.cells')).gridTemplateColumns.split(' ').length);
const labels = await cards.evaluateAll((all) => all.map((one) => one.ariaLabel));
assert.equal(await focused(), labels[0]);
await page.keyboard.press('ArrowRight');
await page.keyboard.press('ArrowRight');
assert.equal(await focused(), labels[2]);
await page.keyboard.press('ArrowDown');
assert.equal(await focused(), labels[2 + columns]);
await page.keyboard.press('ArrowUp');
await page.keyboard.press('ArrowLeft');
assert.equal(await focused(), labels[1]);
for (const key of ['PageDown', 'PageDown', 'End', 'Home']) {
  await page.keyboard.press(key);
  const { top, bottom } = await page.evaluate(() => document.activeElement.getBoundingClientRect().toJSON());
  assert.ok(top >= 50 && bottom <= 900, `after ${key} the picture is not in sight: ${top} to ${bottom}`);
  assert.equal(await page.evaluate(() => document.activeElement.matches(':focus-visible') && getComputedStyle(document.activeElement).outlineStyle), 'solid');
}
assert.equal(await focused(), labels[0]);
step('/ searches, arrows, Page, Home and End move, and the focus is seen');
await page.keyboard.press('ArrowRight');
await page.keyboard.press('Enter');
assert.ok(await page.locator('#detail').isVisible());
await loaded(page);
await shot(page, 'light-detail');
const title = async () => `${await text(page, 'detail-title')} ${await text(page, 'detail-place')}`;
const second = await title();
assert.match(second, /2 of /);
await page.keyboard.press('ArrowRight');
assert.match(await title(), /3 of /);
await page.keyboard.press('ArrowLeft');
assert.equal(await title(), second);
const drawn = () => page.locator('#detail-frame svg.boxes rect:not(.label)').count();
const chosen = await drawn();
await page.keyboard.press('b');
const every = await drawn();
await page.keyboard.press('b');
assert.equal(await drawn(), 0);
assert.ok(every >= chosen);
await page.keyboard.press('b');
assert.equal(await drawn(), chosen);
assert.match(page.url(), /picture=/);
await page.keyboard.press('ArrowRight');
await page.keyboard.press('ArrowRight');
await page.keyboard.press('Escape');
assert.ok(!(await page.locator('#detail').isVisible()));
assert.equal(await focused(), labels[3], 'the focus goes to the picture that was shown last');
step('Enter opens, arrows go on, B draws boxes, Esc closes');
await page.keyboard.press('x');
assert.equal(await count(page), total);
await page.keyboard.press('?');
assert.ok(await page.locator('#help').isVisible());
await shot(page, 'light-help');
await page.keyboard.press('Escape');
assert.ok(!(await page.locator('#help').isVisible()));
const themes = [];
for (let i = 0; i < 3; i++) {
  await page.keyboard.press('t');
  themes.push(await page.evaluate(() => document.documentElement.dataset.theme ?? 'auto'));
}
assert.deepEqual(themes, ['light', 'dark', 'auto']);
step('X resets, ? helps, T changes the colours');

// Tab reaches every control, and only one of the pictures.
await page.evaluate(() => { scrollTo(0, 0); document.activeElement.blur(); });
const reached = new Set();
let stops = 0;
for (; stops < 400; stops++) {
  await page.keyboard.press('Tab');
  const where = await page.evaluate(() => { const e = document.activeElement; return e === document.body ? 'body' : e.closest('.card') ? 'card' : e.id || e.closest('fieldset')?.querySelector('legend')?.textContent || e.textContent.trim(); });
  if (stops > 3 && where === 'body') break;
  reached.add(where);
}
for (const name of ['Skip to the pictures', 'Tables', 'theme', 'help-button', 'q', 'view', 'order', 'boxes', 'size', 'Method', 'Verdict', 'Relation', 'low', 'high', 'reset', 'card']) {
  assert.ok([...reached].some((there) => there.startsWith(name)), `Tab does not reach ${name}: ${[...reached].join(', ')}`);
}
step(`Tab reaches every control in ${stops} stops`);

// --- Attention maps and methods side by side.
const side = await open({}, '#view=compare&boxes=1');
await loaded(side);
assert.equal(await side.locator('.row').first().locator('.card').count(), 5);
assert.match(await side.locator('.row h3').first().textContent(), /seed 0/);
const names = await side.locator('.row').first().locator('.card button').evaluateAll((all) => all.map((one) => one.ariaLabel.match(/, ([^,]*), seed/)[1]));
assert.deepEqual(names, original);
await shot(side, 'light-side-by-side');
await side.locator('.card button').nth(1).click();
await loaded(side);
assert.equal(await side.locator('#detail-frame path.mask').count(), 0, 'boxes without masks');
await side.keyboard.press('s');
assert.equal(await side.locator('#detail-frame path.mask').count(), 2, 'a mask for each box');
assert.equal(await side.locator('#detail-frame path.mask.a').evaluate((path) => getComputedStyle(path).fill), 'none', 'the picture keeps its colours');
const beside = await side.evaluate(() => {
  // The outline goes as far as the box, and no line of it through the middle.
  const path = document.querySelector('#detail-frame path.mask.a'), box = document.querySelector('#detail-frame rect.a');
  const [x, y, w, h] = ['x', 'y', 'width', 'height'].map((name) => Number(box.getAttribute(name)));
  const { a, d } = path.transform.baseVal[0].matrix, drawn = path.getBBox();
  const off = [drawn.x * a - x, drawn.y * d - y, drawn.width * a - w, drawn.height * d - h].map(Math.abs);
  return [Math.max(...off) <= 3, path.isPointInStroke(new DOMPoint((x + w / 2) / a, (y + h / 2) / d))];
});
assert.deepEqual(beside, [true, false]);
// An address that is changed in the open page is followed, also in what it no longer names.
await side.evaluate(() => { location.hash = 'verdict=FAIL'; });
await side.waitForFunction(() => !document.getElementById('detail').open);
assert.equal(await side.locator('#view').inputValue(), 'grid');
assert.equal(await side.locator('#boxes').inputValue(), '0');
await side.evaluate(() => { location.hash = 'view=compare&boxes=1'; });
await side.waitForFunction(() => document.getElementById('view').value === 'compare');
await side.locator('.card button').nth(1).click();
await loaded(side);
step('the address of an open page is followed');
const picture = await side.locator('#detail-frame img').getAttribute('src');
await side.keyboard.press('m');
const map = await side.locator('#detail-frame img').getAttribute('src');
assert.ok(map !== picture && /maps/.test(map), map);
await loaded(side);
await shot(side, 'light-attention');
await side.keyboard.press('m');
await side.keyboard.press('m');
assert.equal(await side.locator('#detail-frame img').getAttribute('src'), picture);
await side.locator('#related .strip').first().locator('button').nth(3).click();
assert.match(await side.locator('#facts').innerText(), /best-of-4/);
await side.keyboard.press('Escape');
await side.close();
step('methods side by side at the same prompt and seed; masks; attention maps');

// --- Contrast of every text on its ground.
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
    .filter((node) => !node.closest('svg') && node.offsetParent && !node.disabled && !node.closest('.empty') && getComputedStyle(node).opacity === '1'
      && [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()))
    .map((node) => {
      const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), node.outerHTML.slice(0, 80)];
    })
    .filter(([ratio]) => ratio < 4.5);
};
for (const colorScheme of ['light', 'dark']) {
  const tinted = await open({ colorScheme });
  await loaded(tinted);
  assert.deepEqual(await tinted.evaluate(contrasts), [], colorScheme);
  await to(tinted, 'gallery');
  await loaded(tinted);
  await tinted.locator('.card button').first().click();
  await loaded(tinted);
  assert.deepEqual(await tinted.evaluate(contrasts), [], `${colorScheme}, a picture open`);
  if (colorScheme === 'dark') {
    await shot(tinted, 'dark-detail');
    await tinted.keyboard.press('Escape');
    await tinted.locator('#boxes').selectOption('1');
    await loaded(tinted);
    await shot(tinted, 'dark-gallery');
    await to(tinted, 'overview');
    await shot(tinted, 'dark-overview');
    await to(tinted, 'plots');
    await shot(tinted, 'dark-plots');
    await tinted.locator('#plots').screenshot({ path: join(shots, 'dark-all-plots.png') });
  }
  await tinted.close();
}
step('every text has a contrast of 4.5 or more, light and dark');

// --- A phone, 360 pixels wide.
const phone = await open({ viewport: { width: 360, height: 780 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 360, 'the page is wider than a phone');
await shot(phone, 'phone-overview');
await to(phone, 'plots');
await shot(phone, 'phone-plots');
await to(phone, 'gallery');
await loaded(phone);
await shot(phone, 'phone-gallery');
await phone.locator('#more').tap();
assert.ok(await phone.locator('#facets').isVisible());
await shot(phone, 'phone-filters');
await phone.locator('.chip', { hasText: 'best-of-8' }).tap();
assert.equal(await count(phone), 2000);
await phone.locator('#more').tap();
await phone.locator('.card button').first().tap();
await loaded(phone);
const dialog = await phone.locator('#detail').boundingBox();
assert.ok(dialog.x >= 0 && dialog.width <= 360);
assert.equal(await phone.evaluate(() => document.getElementById('detail-body').scrollWidth <= document.getElementById('detail-body').clientWidth), true);
await shot(phone, 'phone-detail');
for (const id of ['previous', 'next', 'close']) {
  const box = await phone.locator(`#${id}`).boundingBox();
  assert.ok(box.height >= 40 && box.width >= 36, `${id} is too small for a thumb`);
}
await phone.locator('#next').tap();
await phone.locator('#close').tap();
assert.ok(!(await phone.locator('#detail').isVisible()));
await phone.close();
step('a phone: nothing too wide, filters fold, pictures open');

await browser.close();
assert.deepEqual(errors, []);
console.log(`no errors in the console, nothing asked for but files of the run (${asked.size})`);
for (const line of times) console.log(`    ${line}`);
