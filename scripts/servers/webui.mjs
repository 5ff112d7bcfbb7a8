// Two of npm's clients for AUTOMATIC1111's interface: `stable-diffusion-api`, with a name and a password, and `node-sd-webui`,
// which knows no tokens: webui.mjs FOLDER ADDRESS TOKEN OPEN. FOLDER has them installed, OPEN is a server without tokens.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const [folder, address, token, free] = process.argv.slice(2);
const installed = createRequire(join(resolve(folder), 'here'));
const prompt = 'a dog to the left of a cat';
const size = { width: 128, height: 128 };
/** Width and height of a PNG in base64. */
const sides = (base64) => { const png = Buffer.from(base64, 'base64'); return [png.readUInt32BE(16), png.readUInt32BE(20)]; };

const { StableDiffusionApi } = installed('stable-diffusion-api');
const api = new StableDiffusionApi({ baseUrl: `http://${address}` });
api.setAuth('anybody', token);
const made = await api.txt2img({ ...size, prompt, seed: 5, steps: 4, cfg_scale: 7, batch_size: 2, sampler_name: 'Euler a' });
assert.equal(made.images.length, 2);
const { width, height } = await made.image.metadata();
assert.deepEqual([width, height], [128, 128]);
const edited = await api.img2img({ ...size, init_images: [made.image], prompt: 'a cat', seed: 1, steps: 4, denoising_strength: 0.5 });
assert.equal(edited.images.length, 1);
assert.equal((await api.getSdModels())[0].model_name, 'toybox');
assert.ok((await api.getSamplers()).some(({ name }) => name === 'Euler a'));
console.log('stable-diffusion-api ok');

const { default: client } = installed('node-sd-webui');
const webui = client({ apiUrl: `http://${free}` });
const first = await webui.txt2img({ ...size, prompt, seed: 5, steps: 4, cfgScale: 7, samplingMethod: 'Euler a' });
assert.deepEqual(sides(first.images[0]), [128, 128]);
const second = await webui.img2img({ ...size, imageData: [first.images[0]], prompt: 'a cat', seed: 1, steps: 4 });
assert.deepEqual(sides(second.images[0]), [128, 128]);
const facts = await webui.pngInfo({ imageData: first.images[0] });
assert.equal(facts.prompt, prompt);
assert.equal(Number(facts.seed), 5);
console.log('node-sd-webui ok');
