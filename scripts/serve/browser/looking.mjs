// The history with a thousand pictures, one picture whole, runs, keys, a phone.
import { accessible, api, assert, fillForm, finished, loaded, open, shot, step } from './harness.mjs';

const MANY = 1000;
const cards = (page) => page.locator('#history-grid .card');
const total = async (page) => Number((await page.locator('#history-count').textContent()).match(/[\d,]+/)[0].replace(',', ''));
/** The history says how many there are. */
const counted = (page, test) => page.waitForFunction((test) => { const found = /[\d,]+/.exec(document.getElementById('history-count').textContent); return found && (test === null || Number(found[0].replace(',', '')) === test); }, test, { timeout: 60_000 });

/** Makes as many pictures as are missing, as small and rough as they may be. */
async function fillHistory(page) {
  const limit = (await api(page, 'about')).body.limits.pictures ?? 64;
  for (;;) {
    const missing = MANY - (await api(page, 'pictures?limit=1')).body.total;
    if (missing <= 0) return;
    const seeds = Array.from({ length: Math.min(missing, 64, limit) }, (_, i) => i);
    const { status, body } = await api(page, 'jobs', 'POST', { request: { prompt: missing % 3 ? 'a dog to the left of a cat' : 'a bird <b>above</b> a car', steps: 1, width: 64, height: 64 }, seeds, check: false, maps: false, previews: 0 });
    assert.equal(status, 202, JSON.stringify(body));
    for (let state = ''; !['done', 'failed', 'cancelled'].includes(state);) {
      await page.waitForTimeout(300);
      state = (await api(page, `jobs/${body.id}`)).body.status;
      assert.notEqual(state, 'failed');
    }
  }
}

export async function looking(server) {
  const page = await open(server);
  await fillHistory(page);
  await page.goto(`${server.address}#/history`);
  await counted(page, null);
  const all = await total(page);
  assert.ok(all >= MANY);
  await loaded(page);
  await shot(page, 'light-history');
  await accessible(page, 'the history');
  const end = page.locator(`#history-grid .card[aria-posinset="${all}"]`);
  for (const late = Date.now() + 120_000; await end.count() === 0;) {
    assert.ok(Date.now() < late, 'the end of the history is not reached');
    await page.evaluate(() => scrollTo({ top: document.body.scrollHeight, behavior: 'instant' }));
    await page.waitForTimeout(100);
  }
  assert.ok(await cards(page).count() < 150, `${await cards(page).count()} cards are in the document`);
  const frames = await page.evaluate(async () => {
    scrollTo({ top: 0, behavior: 'instant' });
    const gaps = [];
    let last = performance.now();
    for (let i = 0; i < 40; i++) {
      scrollBy({ top: 300, behavior: 'instant' });
      await new Promise(requestAnimationFrame);
      gaps.push(performance.now() - last);
      last = performance.now();
    }
    return gaps.sort((a, b) => a - b);
  });
  step(`${all} pictures, ${await cards(page).count()} in the document; scrolling: median frame ${frames[20].toFixed(0)} ms, slowest ${frames.at(-1).toFixed(0)} ms`);
  await keys(page, all);
  await page.context().close();
  await phone(server);
  await runs(server);
}

async function keys(page, all) {
  await page.evaluate(() => scrollTo({ top: 0, behavior: 'instant' }));
  await page.waitForTimeout(200);
  await cards(page).first().locator('button').focus();
  const at = () => page.evaluate(() => Number(document.activeElement.dataset.at));
  const columns = await page.locator('#history-grid .row').first().locator('.card').count();
  for (const [key, wanted] of [['ArrowRight', 1], ['ArrowDown', 1 + columns], ['ArrowUp', 1], ['Home', 0], ['End', all - 1], ['Home', 0]]) {
    await page.keyboard.press(key);
    assert.equal(await at(), wanted, key);
    const seen = await page.evaluate(() => { const { top, bottom } = document.activeElement.getBoundingClientRect(); return top >= 48 && bottom <= innerHeight + 1; });
    assert.ok(seen, `${key}: the focus is not in sight`);
  }
  await page.keyboard.press('Enter');
  await page.waitForSelector('#detail[open] .detail-acts');
  await loaded(page);
  await accessible(page, 'a picture of the history');
  const first = page.url();
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction((first) => location.href !== first, first);
  await page.waitForSelector('#detail[open] .detail-acts');
  assert.match(await page.locator('#detail-place').textContent(), /^2 of/);
  const kept = page.url();
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#detail').isVisible(), false);
  assert.equal(await at(), 1, 'the focus goes to the picture that was shown last');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'history-q');
  await page.keyboard.type('bird <b>');
  await page.waitForFunction((all) => { const found = /[\d,]+/.exec(document.getElementById('history-count').textContent); return found && Number(found[0].replace(',', '')) < all; }, all);
  assert.ok(await total(page) > 0);
  for (const prompt of await page.locator('.card-prompt').allTextContents()) assert.match(prompt, /bird <b>above<\/b>/);
  await page.fill('#history-q', 'nothing of the kind');
  await page.waitForSelector('#history-none:not([hidden])');
  await page.fill('#history-q', '');
  await counted(page, all);
  await page.goto(kept);
  await page.reload();
  await page.waitForSelector('#detail[open] .detail-acts');
  await page.locator('.detail-acts .main').click();
  await page.waitForSelector('#from:not([hidden])');
  assert.ok(await page.locator('#make').isVisible());
  page.once('dialog', (dialog) => dialog.accept());
  await page.goto(kept);
  await page.waitForSelector('#detail[open] .detail-acts');
  await page.locator('.detail-acts button', { hasText: 'Delete' }).click();
  await counted(page, all - 1);
  await page.evaluate(() => document.activeElement.blur());
  const themes = [];
  for (let i = 0; i < 3; i++) { await page.keyboard.press('t'); themes.push(await page.evaluate(() => document.documentElement.dataset.theme ?? 'auto')); }
  assert.deepEqual(themes, ['light', 'dark', 'auto']);
  await page.keyboard.press('?');
  assert.ok(await page.locator('#help').isVisible());
  await accessible(page, 'the help');
  await page.keyboard.press('Escape');
  step('the keyboard goes through the history; search; an address brings a picture back; delete; help; colours');
}

async function phone(server) {
  const page = await open(server, { viewport: { width: 320, height: 640 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
  const fits = async (where) => assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320, `${where} is wider than a phone`);
  await fits('the form');
  await fillForm(page, { prompt: 'a dog to the left of a cat', method: 'pos', seed: 2, count: 2, plain: true, search: '', steps: 10 });
  await page.locator('#box-add').tap();
  await page.locator('#box-add').tap();
  await page.locator('#canvas').scrollIntoViewIfNeeded();
  await fits('the board');
  await shot(page, 'phone-boxes');
  await page.evaluate(() => { for (const part of document.querySelectorAll('#composer details')) part.open = false; scrollTo(0, 0); });
  await shot(page, 'phone-form');
  await page.locator('#go').tap();
  await finished(page);
  await loaded(page);
  await page.locator('#stage').evaluate((node) => node.scrollIntoView({ behavior: 'instant' }));
  await fits('the pictures');
  await shot(page, 'phone-done');
  await accessible(page, 'the phone');
  for (const button of await page.locator('#go, .tools button:visible, #top a').all()) {
    const box = await button.boundingBox();
    if (box) assert.ok(box.height >= 38, `${await button.textContent()} is ${box.height} high, too small for a thumb`);
  }
  await page.goto(`${server.address}#/history`);
  await counted(page, null);
  await loaded(page);
  await fits('the history');
  await shot(page, 'phone-history');
  await cards(page).first().locator('button').tap();
  await page.waitForSelector('#detail[open] .detail-acts');
  await fits('a picture');
  await page.locator('#close').tap();
  await page.context().close();
  step('a phone of 320 pixels: nothing too wide, nothing too small');
}

async function runs(server) {
  const page = await open(server, { colorScheme: 'dark' });
  await page.goto(`${server.address}#/runs`);
  await page.waitForSelector('#runs > *');
  await page.waitForFunction(() => !/Reading/.test(document.getElementById('runs').textContent));
  await accessible(page, 'the runs');
  const links = page.locator('.runs-list a');
  if (process.env.RUNS) {
    await links.first().click();
    const report = page.frameLocator('.report');
    await report.locator('#overview').waitFor();
    await shot(page, 'dark-run');
    step('a run’s report in the page');
  } else {
    assert.match(await page.locator('#runs').textContent(), /No runs here/);
    step('no runs, and how to get some');
  }
  await page.context().close();
}
