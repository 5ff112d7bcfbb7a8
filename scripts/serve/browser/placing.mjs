// Boxes, by mouse and by keyboard, and what they become.
import { accessible, api, assert, fillForm, finished, loaded, open, shot, status, step } from './harness.mjs';

const list = (page) => page.locator('#box-list li').evaluateAll((all) => all.map((line) => [line.querySelector('.handle').textContent, ...[...line.querySelectorAll('input')].map((field) => Number(field.value))]));
const copied = async (page) => {
  await page.click('#copy-form');
  await page.locator('#spell-forms [data-value=json]').click();
  await page.waitForFunction(() => document.getElementById('spell-text').textContent.startsWith('{'));
  const text = await page.locator('#spell-text').textContent();
  await page.keyboard.press('Escape');
  return JSON.parse(text);
};

export async function placing(server) {
  const page = await open(server);
  await fillForm(page, { prompt: 'a dog to the left of a cat', method: 'pos', seed: 7, count: 1, plain: true, search: '', steps: 20, width: 128 });
  await page.locator('#canvas').scrollIntoViewIfNeeded();
  await byMouse(page);
  await byKeyboard(page);
  await asWhat(page);
  await ofOneName(page);
  await page.context().close();
}

async function byMouse(page) {
  const board = await page.locator('#canvas').boundingBox();
  const at = (x, y) => [board.x + x * board.width, board.y + y * board.height];
  const drag = async (from, to) => {
    await page.mouse.move(...at(...from));
    await page.mouse.down();
    await page.mouse.move(...at(...to), { steps: 4 });
    await page.mouse.up();
  };
  await drag([0.6, 0.3], [0.95, 0.7]);
  // From the right below to the left above, and over the edge.
  await drag([0.3, 0.8], [-0.2, 0.3]);
  let boxes = await list(page);
  assert.deepEqual(boxes.map(([object]) => object), ['dog', 'cat']);
  const near = (found, wanted) => found.every((value, i) => Math.abs(value - wanted[i]) <= 1);
  assert.ok(near(boxes[0].slice(1), [60, 30, 95, 70]), String(boxes[0]));
  assert.ok(near(boxes[1].slice(1), [0, 30, 30, 80]), String(boxes[1]));
  assert.match(await page.locator('#acts-said').textContent(), /dog right of cat/);
  // Moved by its middle, stretched by its corner, and an Escape in the middle undoes.
  await drag([0.775, 0.5], [0.575, 0.5]);
  await drag([0.75, 0.7], [0.7, 0.9]);
  boxes = await list(page);
  assert.ok(near(boxes[0].slice(1), [40, 30, 70, 90]), String(boxes[0]));
  await page.mouse.move(...at(0.5, 0.5));
  await page.mouse.down();
  await page.mouse.move(...at(0.1, 0.1), { steps: 3 });
  await page.keyboard.press('Escape');
  await page.mouse.up();
  assert.deepEqual(await list(page), boxes, 'Escape undoes');
  assert.deepEqual((await copied(page)).request?.relations, ['dog | right of | cat']);
  await shot(page, 'light-boxes');
  await accessible(page, 'the board');
  step('boxes drawn, moved and stretched by mouse become relations');
}

async function byKeyboard(page) {
  await page.locator('#box-list .handle').first().focus();
  const before = await list(page);
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'Shift+ArrowLeft']) await page.keyboard.press(key);
  const [[, left, top, right, bottom]] = await list(page);
  assert.deepEqual([left, top, right, bottom].map((value, i) => Math.round((value - before[0][i + 1]) * 10) / 10), [2, 1, 1, 1]);
  await page.keyboard.press('Delete');
  assert.equal((await list(page)).length, 1);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'cat', 'the focus goes to the neighbour');
  await page.keyboard.press('Delete');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'box-add');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'handle', 'the focus is on the new box');
  await page.locator('#box-add').focus();
  await page.keyboard.press('Enter');
  const field = page.locator('#box-list li').nth(1).locator('input').first();
  await field.fill('60');
  await field.press('Tab');
  const boxes = await list(page);
  assert.deepEqual(boxes.map(([object]) => object), ['dog', 'cat']);
  assert.equal(boxes[1][1], 60);
  await page.locator('#box-list li').nth(1).locator('input').nth(2).fill('500');
  await page.locator('#box-list li').nth(1).locator('input').nth(2).press('Tab');
  assert.equal((await list(page))[1][3], 100, 'over the edge is the edge');
  step('boxes added, moved, stretched, typed and removed by keyboard');
}

async function asWhat(page) {
  await page.locator('[name=act][value=boxes]').check();
  assert.equal(await page.inputValue('#method'), 'boxdiff', 'boxes come with a method that goes by them');
  assert.equal((await copied(page)).request.boxes?.length, 2);
  await page.click('#go');
  await finished(page);
  await loaded(page);
  const pictures = (await api(page, 'pictures?limit=5')).body.pictures;
  const guided = pictures.find(({ method }) => method === 'boxdiff');
  const { request } = (await api(page, `pictures/${guided.id}`)).body;
  assert.deepEqual(request.boxes.map(({ object }) => object), ['dog', 'cat']);
  await page.locator('[name=act][value=ground]').check();
  await fillForm(page, { method: '' });
  assert.equal((await copied(page)).request.ground.share, 0.3);
  await page.click('#go');
  await finished(page);
  await loaded(page);
  const [grounded] = (await api(page, 'pictures?limit=1')).body.pictures;
  assert.equal((await api(page, `pictures/${grounded.id}`)).body.request.ground.share, 0.3, 'the toybox has GLIGEN layers');
  await page.locator('[name=act][value=regions]').check();
  await page.locator('#acts-said button').click();
  await page.waitForTimeout(400);
  assert.equal(await page.inputValue('#prompt'), 'a dog to the left of a cat AND a dog AND a cat');
  assert.match(await page.locator('#acts-said').textContent(), /2 of 3 parts/);
  await fillForm(page, { method: '' });
  assert.deepEqual((await copied(page)).request.regions.map(({ part }) => part), [2, 3]);
  await page.click('#go');
  await finished(page);
  step('boxes for BoxDiff and for GLIGEN, and regions for the parts of a composed prompt, each made');
}

async function ofOneName(page) {
  const remove = page.locator('#box-list .remove');
  while (await remove.count()) await remove.first().click();
  await fillForm(page, { prompt: 'a dog to the left of a dog', method: '' });
  await page.locator('[name=act][value=relations]').check();
  await page.click('#box-add');
  await page.click('#box-add');
  assert.deepEqual((await list(page)).map(([object]) => object), ['dog#1', 'dog#2']);
  const hues = await page.locator('#box-list li').evaluateAll((all) => all.map((line) => line.className));
  assert.deepEqual(hues, ['h0', 'h1'], 'each has the colour that it has in the prompt');
  assert.deepEqual((await copied(page)).request.relations, ['dog#1 | left of | dog#2']);
  await page.click('#go');
  await finished(page);
  assert.match(await status(page), /^Done/);
  step('two objects of one name have a box each');
}
