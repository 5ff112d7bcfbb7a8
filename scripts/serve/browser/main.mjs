// Uses the page of `prepose serve` as a person would. See README.md.
import { assert, closeBrowser, errors, serve } from './harness.mjs';
import { making } from './making.mjs';
import { placing } from './placing.mjs';
import { taking } from './taking.mjs';
import { starting } from './starting.mjs';
import { showing } from './showing.mjs';
import { looking } from './looking.mjs';
import { failing } from './failing.mjs';

const only = process.env.SCENES?.split(',');
const scenes = { making, placing, taking, starting, showing, looking, failing };
const server = await serve({ more: process.env.RUNS ? ['--runs', process.env.RUNS] : [] });
try {
  for (const [name, scene] of Object.entries(scenes)) {
    if (only && !only.includes(name)) continue;
    console.log(`--  ${name}`);
    await scene(server);
    assert.deepEqual(errors, [], `${name}: what the console said`);
  }
} finally {
  await closeBrowser();
  await server.stop();
}
console.log('no message in the console, nothing asked of anybody but the server');
