// A wrong token, a server that dies in the middle and one that comes back.
import { accessible, api, assert, faults, fillForm, LOST, open, ready, serve, shot, step, TOKEN, underWay, work } from './harness.mjs';
import { join } from 'node:path';

export async function failing() {
  const folder = join(work, 'dying');
  let server = await serve({ folder });
  await signingIn(server);

  const page = await open(server);
  await fillForm(page, { prompt: 'a dog to the left of a cat', method: '', seed: 1, count: 1, search: '', steps: 10 });
  await page.click('#go');
  await page.waitForFunction(() => /^Done/.test(document.querySelector('.status')?.textContent ?? ''), null, { timeout: 120_000 });
  await fillForm(page, { count: 8, steps: 140 });
  await page.click('#go');
  await underWay(page, 3);
  faults.expected = LOST;
  await server.stop('SIGKILL');
  await page.waitForSelector('#link:not([hidden])', { timeout: 60_000 });
  assert.match(await page.locator('#link').textContent(), /cannot be reached/);
  await page.locator('#go').click();
  await page.waitForSelector('#problem:not([hidden])');
  assert.match(await page.locator('#problem').textContent(), /cannot be reached/);
  await shot(page, 'light-lost');
  await accessible(page, 'without a server');
  server = await serve({ folder, port: server.port });
  // A server that was started anew may want the token again.
  await Promise.race([page.waitForSelector('#sign-in[open]', { timeout: 60_000 }), page.waitForSelector('#link', { state: 'hidden', timeout: 60_000 })]);
  if (await page.locator('#sign-in').isVisible()) {
    await page.fill('#token', TOKEN);
    await page.keyboard.press('Enter');
  }
  await page.waitForSelector('#link', { state: 'hidden', timeout: 60_000 });
  await page.waitForFunction(() => /^Failed/.test(document.querySelector('.status').textContent), null, { timeout: 60_000 });
  assert.match(await page.locator('.stage-body .problem').textContent(), /does not know this job/);
  assert.ok((await api(page, 'pictures?limit=5')).body.total >= 1, 'the finished picture is kept');
  faults.expected = null;
  await fillForm(page, { count: 1, steps: 5 });
  await page.click('#go');
  await page.waitForFunction(() => /^Done/.test(document.querySelector('.status').textContent), null, { timeout: 120_000 });
  await page.context().close();
  await server.stop();
  step('killed in the middle of a stream: said, found again, nothing finished lost');
}

async function signingIn(server) {
  faults.expected = /401/;
  const page = await open(server, { signIn: false });
  await page.waitForSelector('#sign-in[open]');
  await page.fill('#token', 'wrong');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#sign-in-problem:not([hidden])');
  await accessible(page, 'signing in');
  await page.fill('#token', TOKEN);
  await page.keyboard.press('Enter');
  await ready(page);
  faults.expected = null;
  await page.context().close();
  step('a wrong token is refused, the right one lets in');
}
