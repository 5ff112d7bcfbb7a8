// Pictures that an IP-Adapter shows to the network: chosen, scaled, kept to boxes and to masks of several boxes.
import { accessible, api, assert, faults, fillForm, finished, loaded, open, serve, shot, step, work } from './harness.mjs';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';

const fixture = (name) => fileURLToPath(new URL(`../../../fixtures/${name}`, import.meta.url));

export async function showing(toybox) {
  const own = await open(toybox);
  assert.equal(await own.locator('#shown-settings').isHidden(), false, 'the toybox has an IP-Adapter of its own');
  await own.context().close();

  const checkpoint = ['--checkpoint', fixture('single-file/sd1')];
  const plain = await serve({ folder: join(work, 'not-shown'), more: checkpoint });
  const without = await open(plain);
  assert.equal(await without.locator('#shown-settings').isHidden(), true, 'this checkpoint has none');
  assert.equal(await without.locator('[name=act][value=masks]').isHidden(), true);
  await without.context().close();
  await plain.stop();

  const networks = [...checkpoint, '--ip-adapter', fixture('ip-adapter/plus_sd1.safetensors')];
  const server = await serve({ folder: join(work, 'shown'), more: networks });
  const page = await open(server);
  await fillForm(page, { prompt: 'a cat on the left of a dog', method: '', seed: 7, count: 1, search: '', steps: 3, width: 64, height: 64 });
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator('#shown-choose').press('Enter')]);
  await chooser.setFiles(['first.png', 'second.png'].map((name) => fixture(`ip-adapter/${name}`)));
  await page.waitForFunction(() => document.querySelectorAll('#shown-list li').length === 2);
  await page.getByLabel('Scale of picture 1').fill('0.7');
  const everywhere = await make(page);
  assert.deepEqual(everywhere.pictures.map(({ scale, region }) => [scale, region]), [[0.7, undefined], [1, undefined]]);
  assert.match(everywhere.pictures[0].image, /^sha256:[0-9a-f]{64}$/);
  step('pictures are chosen by the keyboard and shown everywhere, each with its scale');

  await masking(page);
  await refusing(page);
  await fromHistory(page);
  await page.context().close();
  await server.stop();
}

/** Makes a picture; returns what is kept of its request. */
async function make(page) {
  const first = async () => (await api(page, 'pictures?limit=1')).body.pictures[0]?.id;
  const before = await first();
  await page.click('#go');
  for (let tries = 0; await first() === before; tries++) {
    assert.ok(tries < 600, 'no picture came');
    await page.waitForTimeout(200);
  }
  await finished(page);
  return (await api(page, `pictures/${await first()}`)).body.request;
}

async function masking(page) {
  await page.locator('[name=act][value=masks]').check();
  const next = page.locator('#box-object button');
  assert.deepEqual(await next.allTextContents(), ['picture 1', 'picture 2']);
  // Two boxes for the first picture, none for the second.
  const drag = async ([x0, y0], [x1, y1]) => {
    await page.locator('#canvas').scrollIntoViewIfNeeded();
    const board = await page.locator('#canvas').boundingBox();
    await page.mouse.move(board.x + x0 * board.width, board.y + y0 * board.height);
    await page.mouse.down();
    await page.mouse.move(board.x + x1 * board.width, board.y + y1 * board.height, { steps: 4 });
    await page.mouse.up();
  };
  await next.first().click();
  await drag([0.02, 0.1], [0.45, 0.5]);
  assert.match(await page.locator('#acts-said').textContent(), /picture 1 in 1 box; picture 2 everywhere/);
  await shot(page, 'light-masks');
  await accessible(page, 'masks of shown pictures');
  const boxed = await make(page);
  const near = (found, wanted) => found.every((value, i) => Math.abs(value - wanted[i]) <= 0.01);
  assert.ok(near(boxed.pictures[0].region.box, [0.02, 0.1, 0.45, 0.5]), JSON.stringify(boxed.pictures[0]));
  assert.equal(boxed.pictures[1].region, undefined);
  await next.first().click();
  await page.locator('#box-add').focus();
  await page.keyboard.press('Enter');
  assert.match(await page.locator('#acts-said').textContent(), /picture 1 in 2 boxes/);
  await page.locator('#shown-settings').scrollIntoViewIfNeeded();
  await shot(page, 'light-shown');
  const masked = await make(page);
  assert.match(masked.pictures[0].region.mask, /^sha256:/);
  await page.click('#copy-form');
  await page.locator('#spell-forms [data-value=command]').click();
  await page.waitForFunction(() => document.getElementById('spell-text').textContent.startsWith('prepose'));
  assert.match(await page.locator('#spell-text').textContent(), /--ip-adapter plus_sd1\.safetensors --ip-picture picture-1\.png,scale=0\.7,region=mask-1\.png --ip-picture picture-2\.png/);
  assert.match(await page.locator('#spell-said').textContent(), /Reads picture-1\.png, mask-1\.png, picture-2\.png/);
  await page.keyboard.press('Escape');
  step('one box is a region, several are a mask; both are made, and spelt with their files');
}

async function refusing(page) {
  await page.getByLabel('Scale of picture 2').fill('');
  await page.click('#go');
  await page.waitForSelector('#problem:not([hidden])');
  assert.match(await page.locator('#problem').textContent(), /scale of picture 2 is no number/);
  faults.expected = /400/;
  await page.getByLabel('Scale of picture 2').fill('1000000');
  await page.click('#go');
  await page.waitForFunction(() => /scale/.test(document.getElementById('problem').textContent) && !/no number/.test(document.getElementById('problem').textContent));
  faults.expected = null;
  await page.getByLabel('Scale of picture 2').fill('1');
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator('#shown-choose').press('Enter')]);
  await chooser.setFiles({ name: 'junk.png', mimeType: 'image/png', buffer: Buffer.from('no picture') });
  await page.waitForFunction(() => /cannot read it/.test(document.getElementById('shown-problem').textContent));
  // With a picture go its boxes, and with the last one the masks.
  await page.getByRole('button', { name: 'Show picture 1 no more' }).click();
  assert.equal(await page.locator('#box-list li').count(), 0);
  await page.getByRole('button', { name: 'Show picture 2 no more' }).click();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'shown-choose');
  assert.equal(await page.locator('[name=act][value=relations]').isChecked(), true);
  assert.equal(await page.locator('[name=act][value=masks]').isDisabled(), true);
  step('what is no number, no picture, or out of range is said; nothing is left of what is shown no more');
}

async function fromHistory(page) {
  const { id } = (await api(page, 'pictures?limit=1')).body.pictures[0];
  await page.evaluate((id) => { location.hash = `#/history/${id}`; }, id);
  await page.getByRole('button', { name: 'Show it to the network' }).click();
  await page.waitForFunction(() => document.querySelectorAll('#shown-list li').length === 1 && !document.getElementById('make').hidden);
  const shown = await make(page);
  assert.equal(shown.pictures.length, 1);
  // The history knows the pictures' hashes alone, and says so.
  await page.evaluate((id) => { location.hash = `#/history/${id}`; }, id);
  await page.getByRole('button', { name: 'Use request' }).click();
  await page.waitForFunction(() => /shown pictures/.test(document.getElementById('from').textContent));
  assert.equal(await page.locator('#shown-list li').count(), 0);
  await loaded(page);
  step('a picture of the history is shown; a request that showed some says that they are not there');
}
