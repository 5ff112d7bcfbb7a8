// Requests out of PNGs and into the clipboard.
import { accessible, api, assert, fillForm, finished, open, shot, step } from './harness.mjs';

/** Drops a file with these bytes, as a file manager would. */
async function drop(page, name, bytes) {
  const transfer = await page.evaluateHandle(([name, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(bytes)], name, { type: 'image/png' }));
    return data;
  }, [name, [...bytes]]);
  for (const kind of ['dragenter', 'dragover', 'drop']) await page.dispatchEvent('body', kind, { dataTransfer: transfer });
  await page.waitForSelector('#from:not([hidden]) p');
  return page.locator('#from p').textContent();
}

/** A PNG of nothing but text chunks; checksums are nobody's concern here. */
function png(...chunks) {
  const parts = [Buffer.from([137, 80, 78, 71, 13, 10, 26, 10])];
  for (const [kind, data] of [...chunks, ['IEND', Buffer.alloc(0)]]) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(data.length);
    parts.push(length, Buffer.from(kind), data, Buffer.alloc(4));
  }
  return Buffer.concat(parts);
}
const text = (keyword, value) => ['iTXt', Buffer.concat([Buffer.from(`${keyword}\0\0\0\0\0`), Buffer.from(value)])];

export async function taking(server) {
  const page = await open(server);
  await fillForm(page, { prompt: 'a teddy bear below a clock', method: 'pos', seed: 21, count: 1, plain: false, search: '', steps: 10, scale: '15' });
  await page.click('#go');
  await finished(page);
  const made = (await api(page, 'pictures?limit=1')).body.pictures[0];
  const bytes = await page.evaluate(async (id) => [...new Uint8Array(await (await fetch(`api/pictures/${id}.png`)).arrayBuffer())], made.id);
  await fillForm(page, { prompt: 'something else', method: '', seed: 1, steps: 30 });
  assert.match(await drop(page, 'made.png', bytes), /^The request of made\.png/);
  assert.equal(await page.inputValue('#prompt'), 'a teddy bear below a clock');
  assert.deepEqual(await page.evaluate(() => ['method', 'seed', 'steps', 'scale'].map((name) => document.querySelector(`#composer [name=${name}]`).value)), ['pos', '21', '10', '15']);
  await shot(page, 'light-dropped');
  await accessible(page, 'after a drop');
  await fillForm(page, { prompt: 'something else' });
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator('#from-png').press('Enter')]);
  await chooser.setFiles({ name: 'chosen.png', mimeType: 'image/png', buffer: Buffer.from(bytes) });
  await page.waitForFunction(() => /chosen\.png/.test(document.getElementById('from').textContent));
  assert.equal(await page.inputValue('#prompt'), 'a teddy bear below a clock');
  step('a picture that was dropped, or chosen by keyboard, gives its request back');

  const bad = '<img src=x onerror="document.title=\'broken\'">';
  const hostile = png(text('prepose', JSON.stringify({ prompt: bad, seed: 7, steps: '<b>', guide: { method: bad }, boxes: [{ object: bad, box: [0, 0, 2, 'x'] }], relations: [{ x: 1 }], [bad]: 1, scheduler: bad })));
  await drop(page, `${bad}.png`, hostile);
  assert.equal(await page.inputValue('#prompt'), bad);
  assert.notEqual(await page.title(), 'broken');
  assert.equal(await page.locator('main img[src="x"]').count(), 0);
  const big = png(text('prepose', '{"prompt":"a dog","seed":18446744073709551615,"steps":5}'));
  await drop(page, 'big.png', big);
  assert.equal(await page.inputValue('#seed'), '18446744073709551615', 'a large seed keeps its end');
  const foreign = png(['tEXt', Buffer.from('parameters\0a castle, (red:1.2)\nNegative prompt: blur\nSteps: 12, Sampler: Euler a, CFG scale: 5.5, Seed: 99, Size: 128x192', 'latin1')]);
  assert.match(await drop(page, 'foreign.png', foreign), /Sampler/);
  assert.deepEqual(await page.evaluate(() => ['prompt', 'negative_prompt', 'steps', 'guidance_scale', 'seed', 'width', 'height'].map((name) => document.querySelector(`#composer [name=${name}]`).value)), ['a castle, (red:1.2)', 'blur', '12', '5.5', '99', '128', '192']);
  for (const [name, content, why] of [['text.png', Buffer.from('no picture'), /no PNG/], ['bare.png', png(), /carries no request/], ['cut.png', big.subarray(0, 30), /cut short/], ['junk.png', png(text('prepose', '{')), /carries no request/]]) {
    assert.match(await drop(page, name, content), why, name);
  }
  const places = [{ object: 'dog', box: [0, 0.2, 0.4, 0.8] }, { object: 'cat', box: [0.6, 0.2, 1, 0.8] }];
  const grounded = { prompt: 'a dog to the left of a cat', seed: 1, boxes: places, ground: { share: 0.5 }, relations: ['dog | left of | cat'], guide: { method: 'pos', updates: 2, threshold: 0.5, classifier: 'mine.safetensors' } };
  assert.match(await drop(page, 'grounded.png', png(text('prepose', JSON.stringify(grounded)))), /guide classifier, guide updates, guide threshold, relations\.$/);
  assert.match(await page.locator('#acts-said').textContent(), /first 50 % of the steps/);
  await page.click('#copy-form');
  await page.locator('#spell-forms [data-value=command]').click();
  await page.waitForFunction(() => /--ground=0\.5/.test(document.getElementById('spell-text').textContent), null, { timeout: 30_000 });
  await page.keyboard.press('Escape');
  await drop(page, 'plain.png', big);
  step('markup, large seeds, AUTOMATIC1111’s form, and files that carry nothing');

  await fillForm(page, { prompt: 'a dog to the left of a cat', negative_prompt: `it's "dim" & $HOME`, method: 'pos', width: 128, height: 128 });
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.click('#copy-form');
  for (const [form, sign] of [['command', /^prepose generate /], ['python', /import /], ['curl', /^curl /], ['json', /^\{/]]) {
    await page.locator(`#spell-forms [data-value=${form}]`).click();
    await page.waitForFunction(() => document.getElementById('spell-text').textContent !== 'Writing…');
    const shown = await page.locator('#spell-text').textContent();
    assert.match(shown, sign);
    await page.click('#spell-copy');
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), shown);
  }
  await page.locator('#spell-forms [data-value=command]').click();
  await shot(page, 'light-copy');
  await accessible(page, 'the dialog for copying');
  await page.keyboard.press('Escape');
  await page.context().close();
  step('the request as a command line, Python, curl and JSON, in the clipboard');
}
