// Pictures that begin with a picture, LoRAs with weights, another source of noise: what is chosen is what is sent.
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, api, assert, faults, fillForm, finished, loaded, open, serve, shot, step, work } from './harness.mjs';

/** A folder with two LoRAs, trained for a step each by the program itself. */
function loras() {
  const folder = join(work, 'loras');
  const run = (...given) => execFileSync(process.env.PREPOSE, given, { cwd: work, stdio: 'pipe' });
  for (const [name, seed] of [['first', '1'], ['second', '2']]) {
    if (existsSync(join(folder, `${name}.safetensors`))) continue;
    const data = join(work, 'taught');
    mkdirSync(data, { recursive: true });
    run('generate', 'a dog', '--steps', '2', '--quiet', '--out', join(data, 'dog.png'));
    writeFileSync(join(data, 'dog.txt'), 'a dog');
    const out = join(work, `trained-${name}`);
    run('train', 'lora', data, '--steps', '1', '--rank', '2', '--rate', '0.01', '--seed', seed, '--out', out);
    mkdirSync(folder, { recursive: true });
    renameSync(join(out, 'lora.safetensors'), join(folder, `${name}.safetensors`));
  }
  return folder;
}

export async function starting() {
  const server = await serve({ folder: join(work, 'begun'), more: ['--loras', loras()] });
  const page = await open(server);
  /** Makes a picture and waits until it is in the history: the job before it may still be on show. */
  const make = async () => {
    const first = async () => (await api(page, 'pictures?limit=1')).body.pictures[0]?.id;
    const before = await first();
    await page.click('#go');
    for (let tries = 0; await first() === before; tries++) {
      assert.ok(tries < 600, 'no picture came');
      await page.waitForTimeout(200);
    }
    await finished(page);
  };
  await fillForm(page, { prompt: 'a dog', method: '', seed: 4, count: 1, search: '', steps: 6 });
  await make();
  const first = (await api(page, 'pictures?limit=1')).body.pictures[0];
  await page.evaluate((id) => { location.hash = `#/history/${id}`; }, first.id);
  await page.getByRole('button', { name: 'Start from it' }).click();
  await page.waitForFunction(() => document.getElementById('start-image').naturalWidth > 0 && !document.getElementById('make').hidden);
  await fillForm(page, { prompt: 'a cat', strength: '0.6', noise: 'philox', clip_skip: '1' });
  assert.match(await page.locator('#picture-said').innerText(), /from a picture/);
  await page.locator('#start-settings').scrollIntoViewIfNeeded();
  await shot(page, 'light-start');
  await accessible(page, 'a start picture');
  await make();
  const newest = async () => (await api(page, `pictures/${(await api(page, 'pictures?limit=1')).body.pictures[0].id}`)).body.request;
  const begun = await newest();
  assert.match(begun.init.image, /^sha256:[0-9a-f]{64}$/);
  assert.deepEqual([begun.init.strength, begun.noise, begun.clip_skip, begun.prompt], [0.6, 'philox', 1, 'a cat']);
  step('a picture of the history becomes the one to begin with');

  const chosen = async (name, buffer) => {
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator('#start-choose').press('Enter')]);
    await chooser.setFiles({ name, mimeType: 'image/png', buffer });
  };
  await chosen('junk.png', Buffer.from('no picture'));
  await page.waitForFunction(() => /cannot read it/.test(document.getElementById('start-problem').textContent));
  assert.equal(await page.locator('#start-said').innerText(), 'from the history', 'a wrong file took the right one away');
  const bytes = await page.evaluate(async (id) => [...new Uint8Array(await (await fetch(`api/pictures/${id}.png`)).arrayBuffer())], first.id);
  await chosen('mine.png', Buffer.from(bytes));
  await page.waitForFunction(() => document.getElementById('start-said').textContent === 'mine.png');
  faults.expected = /400/;
  await fillForm(page, { strength: '1.5' });
  await page.click('#go');
  await page.waitForFunction(() => document.querySelector('#composer [name=strength]').getAttribute('aria-invalid') === 'true');
  faults.expected = null;
  await page.click('#start-remove');
  assert.equal(await page.locator('#start-image').isHidden(), true);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'start-choose');
  step('one is chosen by the keyboard; what is no picture, and what the server refuses, is said where it stands');

  await fillForm(page, { strength: '0.5' });
  await page.locator('#lora-add').selectOption('first');
  await page.locator('#lora-add').selectOption('second');
  assert.equal(await page.locator('#lora-add').isDisabled(), true, 'all are chosen');
  await page.getByRole('button', { name: 'Leave first out' }).click();
  await page.getByLabel('Weight of second').fill('0.8');
  await page.locator('#lora-list').scrollIntoViewIfNeeded();
  await shot(page, 'light-loras');
  await accessible(page, 'LoRAs');
  await make();
  const merged = await newest();
  assert.deepEqual(merged.loras, [{ name: 'second', weight: 0.8 }]);
  assert.equal(merged.init, undefined);
  await page.reload();
  await page.waitForSelector('[aria-label="Weight of second"]', { state: 'attached' });
  assert.equal(await page.getByLabel('Weight of second').inputValue(), '0.8', 'a reload keeps them');
  step('LoRAs of the server with their weights, over a reload');

  const last = (await api(page, 'pictures?limit=1')).body.pictures[0];
  await page.evaluate(() => { document.getElementById('picture-settings').open = true; });
  await page.getByRole('button', { name: 'Leave second out' }).click();
  await page.evaluate((id) => { location.hash = `#/history/${id}`; }, last.id);
  await page.getByRole('button', { name: 'Use request' }).click();
  await page.waitForSelector('[aria-label="Weight of second"]', { state: 'attached' });
  assert.equal(await page.getByLabel('Weight of second').inputValue(), '0.8');
  assert.equal(await page.inputValue('#noise'), 'philox');
  await loaded(page);
  step('the request of a picture brings its LoRAs and its noise back');

  // Of what it began with the server has the hash alone; the rest is copied.
  const image = Buffer.from(bytes).toString('base64');
  const before = (await api(page, 'pictures?limit=1')).body.pictures[0].id;
  const twice = { request: { prompt: 'a bus', steps: 2, seed: 5, init: { image, strength: 0.5 } }, second_pass: { width: 192, height: 192, strength: 0.5 }, maps: false };
  assert.equal((await api(page, 'jobs', 'POST', twice)).status, 202);
  let made = before;
  for (let tries = 0; made === before; tries++) {
    assert.ok(tries < 600, 'no picture came');
    await page.waitForTimeout(200);
    made = (await api(page, 'pictures?limit=1')).body.pictures[0].id;
  }
  await page.evaluate((id) => { location.hash = `#/history/${id}`; }, made);
  await page.locator('#detail').getByRole('button', { name: 'Copy as…' }).click();
  await page.locator('#spell-forms [data-value=command]').click();
  await page.waitForFunction(() => document.getElementById('spell-text').textContent.startsWith('prepose'));
  assert.match(await page.locator('#spell-text').textContent(), /without the second pass.*without the start picture/);
  assert.match(await page.locator('#spell-lacks').innerText(), /without the start picture/);
  await page.locator('#spell-forms [data-value=json]').click();
  assert.match(await page.locator('#spell-text').textContent(), /"second_pass": \{\s*"width": 192/);
  await page.keyboard.press('Escape');
  step('a copy has the second pass, and says that the start picture is not in it');
  await page.context().close();
  await server.stop();
}
