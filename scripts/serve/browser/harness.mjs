// The server, the browser, and what every scene needs: pages whose console must stay silent and that may ask nobody but the server.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

// Found from the working directory, so that they need not be installed in the repository.
const installed = createRequire(resolve('here'));
const { chromium } = installed('playwright-core');
const AXE = readFileSync(installed.resolve('axe-core/axe.min.js'), 'utf8');

export const [work, shots] = process.argv.slice(2);
if (!shots) throw new Error('usage: node main.mjs WORK SHOTS');
mkdirSync(shots, { recursive: true });

export const TOKEN = 'a token of the browser test';
const tokenFile = join(work, 'token');
writeFileSync(tokenFile, TOKEN, { mode: 0o600 });

/** What went wrong on any page; must be empty at the end. */
export const errors = [];
/** What the console may say while just that is tested: Chromium itself writes each refusal and each lost connection there. */
export const faults = { expected: null };
export const LOST = /ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY_RESPONSE|ERR_NETWORK|ERR_SOCKET|401|404/;

export const step = (name) => console.log(`ok  ${name}`);

/** A server of its own; `{address, stop(signal), started}`. `port` 0 picks one. */
export async function serve({ folder = join(work, 'served'), port = 0, more = [] } = {}) {
  const given = ['serve', '--port', String(port), '--token-file', tokenFile, '-o', folder, ...more, ...(process.env.PAGE ? ['--page', process.env.PAGE] : [])];
  const child = spawn(process.env.PREPOSE, given, { cwd: work, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  const address = await new Promise((done, fail) => {
    const hear = (chunk) => {
      said += chunk;
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
      if (found) done(`${found[0]}/`);
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    child.on('exit', (code) => fail(new Error(`the server ended with ${code}: ${said}`)));
  });
  const ended = once(child, 'exit');
  return { address, port: Number(new URL(address).port), async stop(signal = 'SIGTERM') { child.kill(signal); await ended; } };
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM });
export const closeBrowser = () => browser.close();

/** A page, signed in by the address's end as the server prints it. Pages of one `context` share cookies, as tabs do. */
export async function open(server, { hash = '', context, signIn = true, ...options } = {}) {
  const own = context ?? await browser.newContext({ viewport: { width: 1360, height: 860 }, bypassCSP: false, ...options });
  const page = await own.newPage();
  page.on('pageerror', (error) => errors.push(`${error.stack}`));
  page.on('console', (message) => {
    if (!faults.expected?.test(message.text())) errors.push(`${message.type()}: ${message.text()} ${message.location().url}`);
  });
  page.on('request', (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(server.address)) errors.push(`asked for ${request.url()}`);
  });
  page.on('response', (response) => {
    if (response.status() === 200 && response.url() === server.address) {
      const policy = response.headers()['content-security-policy'] ?? '';
      if (!/default-src 'none'/.test(policy) || /unsafe/.test(policy)) errors.push(`the page's policy is ${policy}`);
    }
  });
  await page.goto(server.address + (signIn && !context ? `#token=${encodeURIComponent(TOKEN)}` : hash));
  if (signIn) await ready(page);
  if (hash && !context) { await page.evaluate((to) => { location.hash = to; }, hash); }
  return page;
}

/** The page knows what the server can do. */
export const ready = (page) => page.waitForSelector('#method option:nth-child(2)', { state: 'attached' });

/** Calls the server as the page does. */
export const api = (page, path, method = 'GET', body) => page.evaluate(async ([path, method, body]) => {
  const answer = await fetch(`api/${path}`, { method, headers: body ? { 'Content-Type': 'application/json' } : {}, body: body && JSON.stringify(body) });
  const text = await answer.text();
  return { status: answer.status, body: text ? JSON.parse(text) : null };
}, [path, method, body]);

export const shot = async (page, name) => {
  await page.evaluate(() => document.fonts.ready);
  await page.waitForTimeout(150);
  await page.screenshot({ path: join(shots, `${name}.png`) });
};

export const status = (page) => page.locator('.status').textContent();
/** Until the job on show is at its end. */
export const finished = (page) => page.waitForFunction(() => /^(Done|Cancelled|Failed)/.test(document.querySelector('.status')?.textContent ?? ''), null, { timeout: 240_000 });
/** Until the job on show has taken some steps. */
export const underWay = (page, least = 1) => page.waitForFunction((least) => Number(/Step (\d+) of/.exec(document.querySelector('.status')?.textContent ?? '')?.[1] ?? 0) >= least, least, { timeout: 120_000 });
/** All pictures in sight are there. */
export const loaded = (page) => page.waitForFunction(() => [...document.querySelectorAll('main img:not([hidden]), dialog[open] img')].filter((image) => {
  const { top, bottom, width } = image.getBoundingClientRect();
  return width > 0 && bottom > 0 && top < innerHeight;
}).every((image) => image.complete && image.naturalWidth > 0));

/** Nothing serious by axe, on what is on show. */
export async function accessible(page, where) {
  // The page's policy lets no script in but the server's own; the driver's own way in does not go by it.
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const serious = found.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`).join(' | ')}`), [], where);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${where} is wider than the window`);
}

/** Sets what is in the form and waits until the prompt is read. */
export async function fillForm(page, { prompt, ...fields }) {
  if (prompt !== undefined) {
    await page.fill('#prompt', prompt);
    await page.waitForTimeout(400);
  }
  await page.evaluate(() => { for (const part of document.querySelectorAll('#composer details')) part.open = true; });
  for (const [name, value] of Object.entries(fields)) {
    const field = page.locator(`#composer [name="${name}"]`);
    if (typeof value === 'boolean') await field.setChecked(value);
    else if (await field.evaluate((node) => node.tagName) === 'SELECT') await field.selectOption(String(value));
    else await field.fill(String(value));
  }
}
export { assert };
