// From the prompt to guided pictures beside plain ones; what is shown while they come and afterwards; a search; light and dark.
import { accessible, api, assert, faults, fillForm, finished, loaded, open, shot, status, step, underWay } from './harness.mjs';

export async function making(server) {
  const page = await open(server);
  assert.ok(!page.url().includes('token'), 'the token stays in the address');
  assert.ok(!(await page.evaluate(() => document.cookie)).includes('prepose'), 'scripts can read the cookie');
  assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }).includes('browser test')), false, 'the token is kept');
  await accessible(page, 'the empty page');
  await shot(page, 'light-empty');
  step('signed in by the address, which then forgets the token');

  await page.fill('#prompt', 'a red dog to the left of a cat, a bird above the cat');
  await page.waitForFunction(() => document.querySelectorAll('#marks mark:not(.relation)').length >= 3);
  const marks = await page.locator('#marks mark').evaluateAll((all) => all.map((mark) => [mark.className.split(' ')[0], mark.textContent]));
  assert.deepEqual(marks.filter(([kind]) => kind !== 'relation').map(([kind]) => kind), ['h0', 'h1', 'h2', 'h1'].slice(0, marks.filter(([kind]) => kind !== 'relation').length));
  assert.ok(marks.some(([kind, text]) => kind === 'relation' && text === 'to the left of'), JSON.stringify(marks));
  assert.match(await page.locator('#reading').innerText(), /dog left of cat/);
  await page.fill('#prompt', '<img src=x onerror=alert(1)> a dog to the left of a cat');
  await page.waitForTimeout(500);
  assert.equal(await page.locator('main img[src="x"], #marks img').count(), 0, 'a prompt became markup');
  step('objects and relations are marked as they are read, and markup is text');

  await fillForm(page, { prompt: 'a dog to the left of a cat', method: 'pos', seed: 3, count: 2, steps: 20, plain: true });
  assert.match(await page.locator('#go').innerText(), /4 pictures/);
  await page.evaluate(() => { for (const part of document.querySelectorAll('#composer details')) part.open = false; });
  await page.locator('#prompt').press('Control+Enter');
  await underWay(page, 3);
  await page.waitForFunction(() => document.querySelector('.viewer img')?.src.startsWith('blob:'));
  await page.waitForFunction(() => document.querySelectorAll('.map-tile canvas').length === 2);
  await page.waitForFunction(() => document.querySelectorAll('.curve .trace').length > 0);
  assert.equal(await page.locator('.stage-body').getAttribute('aria-busy'), 'true');
  await shot(page, 'light-running');
  await accessible(page, 'a job under way');
  await finished(page);
  assert.match(await status(page), /^Done, 4 pictures/);
  await loaded(page);
  assert.equal(await page.locator('.seed-pair').count(), 2);
  assert.equal(await page.locator('.tile').count(), 4);
  assert.match(await page.locator('.verdict').innerText(), /PASS|FAIL|UNDECIDABLE/);
  assert.ok(await page.locator('.viewer svg.boxes').count() > 0, 'no boxes over the picture');
  assert.match(await page.locator('.curve').first().getAttribute('aria-label'), /PoS of guided, seed \d: [\d.]+ at step 1, [\d.]+ at step 20/);
  assert.match(await page.locator('#spoken').textContent(), /Done/);
  await shot(page, 'light-done');
  await accessible(page, 'a finished job');
  step('guided and plain pictures at the same seeds, with previews, maps, curves and verdicts');

  await sliding(page);
  await stepping(page);
  await page.context().close();
  await searching(server);
  await cancelling(server);
  await tabs(server);
}

/** The slider between plain and guided, by key and by pointer. */
async function sliding(page) {
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('v');
  await page.locator('.split').focus();
  await page.keyboard.press('Home');
  const split = () => page.locator('.stack').evaluate((node) => node.style.getPropertyValue('--split'));
  assert.equal(await split(), '0%');
  await page.keyboard.press('PageUp');
  assert.notEqual(await split(), '0%');
  const box = await page.locator('.stack').boundingBox();
  await page.mouse.move(box.x + box.width * 0.2, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 3 });
  await page.mouse.up();
  assert.equal(await split(), '50%');
  await shot(page, 'light-slider');
  await accessible(page, 'the slider');
  await page.evaluate(() => document.activeElement.blur());
  step('the slider goes by key and by pointer');
}

/** Back through the steps, attention over the picture, boxes away. */
async function stepping(page) {
  await page.locator('[aria-label="View"] [data-value=beside]').click();
  await page.evaluate(() => document.activeElement.blur());
  const source = () => page.locator('.two img').last().getAttribute('src');
  const final = await source();
  assert.match(final, /api\/pictures\//);
  await page.keyboard.press('[');
  assert.ok((await source()).startsWith('blob:'), 'a step back shows a preview');
  assert.match(await page.locator('.steps output').textContent(), /step 19 of 20/);
  await page.keyboard.press(']');
  assert.equal(await source(), final);
  await page.locator('#step').fill('5');
  assert.match(await page.locator('.steps output').textContent(), /step 5 of 20/);
  await page.locator('.steps button').click();
  assert.equal(await source(), final);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('m');
  assert.equal(await page.locator('.viewer canvas.attention').count(), 2, 'the first object, over both pictures');
  await shot(page, 'light-attention');
  await page.keyboard.press('m');
  await page.keyboard.press('m');
  assert.equal(await page.locator('.viewer canvas.attention').count(), 0);
  const boxes = await page.locator('.viewer svg.boxes').count();
  await page.keyboard.press('b');
  assert.equal(await page.locator('.viewer svg.boxes').count(), 0);
  await page.keyboard.press('b');
  assert.equal(await page.locator('.viewer svg.boxes').count(), boxes);
  step('back through the steps, attention over the picture, boxes on and off');
}

async function searching(server) {
  const page = await open(server, { colorScheme: 'dark' });
  await fillForm(page, { prompt: 'a cat above a dog', method: '', seed: 5, count: 1, search: 'prune', best_of: 8, steps: 20 });
  await page.evaluate(() => { for (const part of document.querySelectorAll('#composer details')) part.open = false; });
  assert.match(await page.locator('#go').innerText(), /best of 8/);
  await page.click('#go');
  await page.waitForFunction(() => document.querySelectorAll('.tile').length === 8, null, { timeout: 120_000 });
  await page.waitForFunction(() => document.querySelectorAll('.map-tile canvas').length === 2, null, { timeout: 120_000 });
  await page.waitForFunction(() => document.querySelectorAll('.tile.dropped').length >= 4, null, { timeout: 120_000 });
  await shot(page, 'dark-candidates');
  await accessible(page, 'a search, dark');
  await finished(page);
  const dropped = await page.locator('.tile.dropped').count();
  assert.ok(dropped >= 6, `${dropped} of 8 were dropped`);
  const scores = await page.locator('.tile .number').allTextContents();
  assert.ok(scores.filter((score) => /\d/.test(score)).length === 8, `scores: ${scores}`);
  assert.match(await page.locator('.tile.dropped').first().textContent(), /candidate \d+.*dropped after step \d+/);
  await loaded(page);
  await shot(page, 'dark-found');
  step('candidates with their scores, and which were dropped when');
  await watching(page);
  await page.context().close();
}

/** Where each candidate looks, and how well it obeyed. */
async function watching(page) {
  const maps = () => page.locator('.tile canvas.attention').count();
  assert.equal(await page.locator('.curve .trace').count() >= 8, true, 'a line for each candidate');
  assert.equal(await maps(), 0);
  await page.locator('[aria-label="Attention"] [data-value="0"]').click();
  assert.equal(await maps(), 8, 'the first object over all candidates');
  await page.locator('.tile.dropped').first().click();
  assert.equal(await page.locator('.map-tile').count(), 2, 'a dropped one has the maps of its last step');
  assert.equal(await page.locator('.viewer canvas.attention').count(), 1);
  await page.locator('#step').fill('2');
  assert.equal(await maps(), 8);
  await page.locator('.steps button').click();
  await loaded(page);
  await shot(page, 'dark-candidates-attention');
  await accessible(page, 'attention of candidates, dark');
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('m');
  await page.keyboard.press('m');
  assert.equal(await maps(), 0);
  step('the attention of every candidate, of those that were dropped as well');
}

async function cancelling(server) {
  const page = await open(server);
  await fillForm(page, { prompt: 'a bird above a car', method: '', seed: 1, count: 8, steps: 140, search: '' });
  await page.click('#go');
  await underWay(page, 2);
  await page.locator('.stage-head button').click();
  await finished(page);
  assert.match(await status(page), /^Cancelled at step \d+/);
  assert.equal(await page.evaluate(() => document.querySelector('.stage-head button').hidden), true);
  await fillForm(page, { steps: 5, width: 100 });
  faults.expected = /status of 4\d\d/;
  await page.click('#go');
  await page.waitForSelector('#problem:not([hidden])');
  faults.expected = null;
  assert.match(await page.locator('#problem').textContent(), /100/);
  await accessible(page, 'a refused request');
  await fillForm(page, { width: 128, seed: 'x' });
  await page.click('#go');
  assert.match(await page.locator('#problem').textContent(), /seed is a whole number/);
  assert.equal(await page.evaluate(() => document.activeElement.name), 'seed');
  assert.equal(await page.locator('[name=seed]').getAttribute('aria-invalid'), 'true');
  await page.context().close();
  step('cancelled in the middle; what is wrong is said at its field');
}

/** A reload in the middle, and two tabs that work at once. */
async function tabs(server) {
  const page = await open(server);
  await fillForm(page, { prompt: 'a clock below a zebra', method: 'pos', seed: 11, count: 2, plain: true, steps: 60, search: '', width: 128 });
  await page.click('#go');
  await underWay(page, 4);
  await page.reload();
  await page.waitForFunction(() => /^Step|^Finish|^Done/.test(document.querySelector('.status')?.textContent ?? ''));
  assert.equal(await page.inputValue('#prompt'), 'a clock below a zebra');
  await page.waitForFunction(() => document.querySelectorAll('.curve .trace').length > 0);
  const second = await open(server, { context: page.context() });
  await second.waitForTimeout(300);
  assert.ok(await second.locator('.stage-body').isHidden(), 'another tab shows its own jobs first');
  await fillForm(second, { prompt: 'a bus near a car', method: '', seed: 2, count: 1, steps: 10 });
  await second.click('#go');
  await Promise.all([finished(page), finished(second)]);
  assert.match(await status(page), /^Done, 4 pictures/);
  assert.match(await status(second), /^Done, 1 picture$/);
  assert.ok(await second.locator('.jobs button').count() >= 1);
  // A hidden page gives its stream back and, seen again, reads what it missed.
  const streams = () => second.evaluate(() => performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/api/events')).length);
  const before = await streams();
  await second.evaluate(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  const { body } = await api(second, 'jobs', 'POST', { request: { prompt: 'a dog', steps: 3 }, seeds: [1] });
  assert.ok(body.id);
  await second.waitForTimeout(500);
  await second.evaluate(() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); });
  await second.waitForTimeout(500);
  assert.ok(await streams() >= before, 'the stream was opened again');
  await page.context().close();
  step('a reload in the middle goes on; two tabs work; a hidden one gives its stream back');
}
