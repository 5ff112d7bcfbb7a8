"""The bank: pictures that a toybox checkpoint decoded or generated, with the truth that their pixels tell.

    python scripts/toybox/detector_bank.py --checkpoint weights/toybox --out DIR/bank.pt --count 3000
    python scripts/toybox/detector_bank.py --checkpoint weights/toybox --out DIR/held-out.pt --count 320 --seed 1000000

Three kinds: scenes decoded from latents with noise, a different amount for each object; latents
between two scenes; and scenes that are noised to some step, mostly far, and denoised by the UNet again,
with a caption. What an object has become then decides its label (`detector_data.explain`). Goes on where it stopped.
"""

import argparse
import os
import random
from pathlib import Path

import numpy as np
import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline

import autoencoder
import detector_data
import world

BATCH = 16


def plain(scene):
    return world.draw(world.Scene((), "none", scene.background))


def latents_of(scenes):
    return autoencoder.ideal_latents(autoencoder.to_tensor([world.draw(s) for s in scenes]))


def noised(rng, scenes):
    """Each object with noise of its own strength, in standard deviations of the latents."""
    z = latents_of(scenes)
    for latents, scene in zip(z, scenes):
        for t in scene.things:
            strength = rng.choice((rng.uniform(0, 0.4), rng.uniform(0.3, 1.0), rng.uniform(1.0, 2.5)))
            cells = latents[:, t.y:t.y + t.size, t.x:t.x + t.size]
            cells += strength * torch.randn_like(cells)
    return z


def between(rng, scenes):
    """Mixed with scenes of other objects at the same places, on the same background."""
    pairs = []
    for scene in scenes:
        swap = lambda t: rng.choice([n for n in world.NAMES if world.CELLS_OF[n] == t.size])
        pairs.append(world.Scene(tuple(world.Thing(swap(t), t.x, t.y) for t in scene.things), "mixed",
                                 scene.background))
    share = torch.tensor([rng.uniform(0, 0.5) for _ in scenes]).view(-1, 1, 1, 1)
    return torch.lerp(latents_of(scenes), latents_of(pairs), share)


class Denoiser:
    def __init__(self, checkpoint):
        self.pipeline = StableDiffusionPipeline.from_pretrained(checkpoint, safety_checker=None).to(torch.float32)
        self.scheduler = DDIMScheduler.from_config(self.pipeline.scheduler.config)

    @torch.no_grad()
    def embed(self, captions):
        tokens = self.pipeline.tokenizer(captions, padding="max_length", max_length=77, truncation=True,
                                         return_tensors="pt").input_ids
        return self.pipeline.text_encoder(tokens)[0]

    @torch.no_grad()
    def denoise(self, z, captions, steps, of, guidance):
        """Noises latents to the `steps`-th last of `of` steps, and takes these steps."""
        self.scheduler.set_timesteps(of)
        times = self.scheduler.timesteps[of - steps:]
        z = self.scheduler.add_noise(z, torch.randn_like(z), times[:1])
        text = self.embed(captions) if guidance == 1 else self.embed([""] * len(captions) + captions)
        for t in times:
            if guidance == 1:
                v = self.pipeline.unet(z, t, text).sample
            else:
                without, prompted = self.pipeline.unet(torch.cat([z, z]), t, text).sample.chunk(2)
                v = torch.lerp(without, prompted, guidance)
            z = self.scheduler.step(v, t, z).prev_sample
        return z

    @torch.no_grad()
    def decode(self, z):
        return autoencoder.to_pictures(self.pipeline.vae.decode(z / autoencoder.SCALING_FACTOR).sample)


def make_batch(rng, denoiser):
    kind = rng.random()
    generated = kind < 0.6
    scenes = [(world.random_scene if generated else world.crowded_scene)(rng) for _ in range(BATCH)]
    if generated:
        captions = [world.random_caption(rng, s) for s in scenes]
        of = rng.choice((12, 16, 20))
        z = denoiser.denoise(latents_of(scenes), captions, round(of * rng.uniform(0.3, 1.0)), of,
                             rng.choice((1, 3)))
    else:
        z = (noised if kind < 0.85 else between)(rng, scenes)
    return [detector_data.explain(picture, plain(scene)) for picture, scene in zip(denoiser.decode(z), scenes)]


def packed(example):
    return dict(picture=torch.from_numpy(example.picture),
                objects=[(label, name, torch.from_numpy(np.packbits(mask))) for label, name, mask in example.objects])


def load(path):
    """The examples of a bank."""
    unpack = lambda bits: np.unpackbits(bits.numpy()).reshape(world.SIDE, world.SIDE).astype(bool)
    return [detector_data.Example(entry["picture"].numpy(),
                                  [(label, name, unpack(bits)) for label, name, bits in entry["objects"]])
            for entry in torch.load(path, weights_only=True)]


def make_bank(checkpoint, path, count, seed):
    entries = torch.load(path, weights_only=True) if path.exists() else []
    denoiser = Denoiser(checkpoint)
    while len(entries) < count:
        rng = random.Random(seed + len(entries))
        torch.manual_seed(seed + len(entries))
        entries += [packed(example) for example in make_batch(rng, denoiser)]
        if len(entries) % (8 * BATCH) == 0 or len(entries) >= count:
            torch.save(entries, path.with_suffix(".partial"))
            os.replace(path.with_suffix(".partial"), path)
            print(len(entries), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the file; goes on with it if it is there")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    make_bank(args.checkpoint, args.out, args.count, args.seed)
