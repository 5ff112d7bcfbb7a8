"""The toybox's CLIP, in weights/toybox/clip: a text and a picture encoder in miniature, on a CPU.

    python scripts/toybox/clip.py train --out DIR --minutes 25
    python scripts/toybox/clip.py take DIR                # puts it into weights/toybox/clip, measures it, and writes its card

It learns as CLIP does: of a batch of pictures and captions, which belong together. Half of the pictures are drawings, half are such as the
toybox's autoencoder decodes from somewhat wrong latents. Captions tell the truth, name two things in either order, and every
fourth pair comes with its two things exchanged, so that what is where can be told apart.
"""

import argparse
import json
import random
import shutil
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPTextModel, CLIPVisionConfig

import autoencoder
import world
from text_encoder import TRAINED_LENGTH
from tokenizer import load_tokenizer
from training import Stage

TOYBOX = Path(__file__).resolve().parents[2] / "weights/toybox"
TARGET = TOYBOX / "clip"
WIDTH, LAYERS, HEADS, PATCH, SPACE = 128, 3, 4, 16, 128
BATCH = 128
EXCHANGED = 0.25  # share of a batch in which the things of a scene before it are exchanged
DECODED = 800  # pictures from the autoencoder
MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(3, 1, 1)
DEVIATION = torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(3, 1, 1)
START, END = "<!-- measured -->", "<!-- /measured -->"


def new_clip():
    """Random, but for the text encoder, which begins as the toybox's first layers."""
    before = CLIPTextModel.from_pretrained(TOYBOX / "text_encoder").float()
    sizes = dict(hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                 projection_dim=SPACE)
    own = {key: getattr(before.config, key) for key in
           ("vocab_size", "max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id")}
    text = CLIPTextConfig(**sizes, **own)
    vision = CLIPVisionConfig(**sizes, image_size=world.SIDE, patch_size=PATCH)
    model = CLIPModel(CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=SPACE))
    there = model.state_dict()
    prefixed = {name if name.startswith("text_model.") else f"text_model.{name}": value for name, value in before.state_dict().items()}
    taken = {name: value for name, value in prefixed.items() if name in there and there[name].shape == value.shape}
    if not taken:
        raise SystemExit("the toybox's text encoder has none of the names that CLIP's has")
    model.load_state_dict(there | taken)
    return model


def exchanged(scene):
    """The same two things, each where the other one was, as far as their sizes allow."""
    a, b = scene.things
    place = lambda name, thing: world.Thing(name, min(thing.x, world.GRID - world.CELLS_OF[name]), min(thing.y, world.GRID - world.CELLS_OF[name]))
    return world.Scene((place(b.name, a), place(a.name, b)), scene.arrangement, scene.background)


def caption(rng, scene, relational=False):
    """A true caption, of which the order says nothing."""
    text = world.random_caption(rng, scene, p_relation_true=1.0)
    if scene.arrangement == "single":
        return text
    a, b = (thing.name for thing in scene.things)
    if relational:
        words = ("to the left of", "to the right of") if scene.arrangement == "side_by_side" else ("above", "below")
        x, relation, y = rng.choice([(a, words[0], b), (b, words[1], a)])
        return world.decorate(rng, f"{world.with_article(x, rng)} {relation} {world.with_article(y, rng)}")
    if " and " in text:
        x, y = rng.choice([(a, b), (b, a)])
        return world.decorate(rng, f"{world.with_article(x, rng)} and {world.with_article(y, rng)}")
    return text


def pixels(pictures):
    """Pictures, uint8 [N, H, W, 3], as CLIP normalises them."""
    x = torch.from_numpy(np.asarray(pictures)).permute(0, 3, 1, 2).float() / 255
    return (x - MEAN) / DEVIATION


class Texts:
    """Tokens of captions; they repeat, and need not be made again."""

    def __init__(self):
        self.tokenizer, self.known = load_tokenizer(TOYBOX / "tokenizer"), {}

    def __call__(self, captions):
        for text in captions:
            if text not in self.known:
                self.known[text] = self.tokenizer(text, padding="max_length", max_length=TRAINED_LENGTH).input_ids
        return torch.tensor([self.known[text] for text in captions])


@torch.no_grad()
def decoded(rng, count):
    """Scenes, and what the toybox's decoder makes of their latents with noise: uint8 [count, 128, 128, 3]."""
    vae = AutoencoderKL.from_pretrained(TOYBOX / "vae").float()
    scenes = [world.random_scene(rng) for _ in range(count)]
    pictures = []
    for first in range(0, count, 32):
        z = autoencoder.ideal_latents(autoencoder.to_tensor([world.draw(scene) for scene in scenes[first:first + 32]]))
        z = z + 0.3 * torch.rand(len(z), 1, 1, 1) * torch.randn_like(z)
        pictures.append(autoencoder.to_pictures(vae.decode(z / autoencoder.SCALING_FACTOR).sample))
    return scenes, np.concatenate(pictures)


def batch(rng, bank):
    """Pictures with their captions."""
    scenes, pictures, captions = [], [], []
    for i in range(BATCH):
        before = scenes[-1] if scenes else None
        relational = bool(before) and len(before.things) == 2 and rng.random() < EXCHANGED
        if relational:
            scene = exchanged(before)
            captions[-1] = caption(rng, before, relational)
            picture = world.draw(scene)
        elif i % 2:
            scene = world.random_scene(rng)
            picture = world.draw(scene)
        else:
            number = rng.randrange(len(bank[0]))
            scene, picture = bank[0][number], bank[1][number]
        scenes.append(None if relational else scene)
        pictures.append(picture)
        captions.append(caption(rng, scene, relational))
    return pixels(pictures), captions


def loss_of(model, x, tokens, captions):
    """Each picture names its caption among all and the other way round; equal captions are all right."""
    picture, text = embeddings(model, x, tokens)
    logits = model.logit_scale.exp().clamp(max=100) * picture @ text.T
    same = torch.tensor([[a == b for b in captions] for a in captions]).float()
    target = same / same.sum(1, keepdim=True)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def of_pictures(model, x):
    return F.normalize(model.visual_projection(model.vision_model(x).pooler_output), dim=-1)


def of_texts(model, tokens):
    return F.normalize(model.text_projection(model.text_model(tokens).pooler_output), dim=-1)


def embeddings(model, x, tokens):
    return of_pictures(model, x), of_texts(model, tokens)


def train(out, minutes):
    torch.manual_seed(0)
    out.mkdir(parents=True, exist_ok=True)
    model, texts, rng = new_clip(), Texts(), random.Random()
    bank = decoded(random.Random(1), DECODED)

    def on_save():
        model.half().save_pretrained(out / "clip")
        model.float()

    stage = Stage(out, "clip", [model], minutes, 1e-3, ema=0.995, weight_decay=0.05, flat_until=0.3, on_save=on_save)
    while stage.running():
        x, captions = batch(rng, bank)
        stage.step(loss_of(model, x, texts(captions), captions))
    with stage.ema_weights(), torch.no_grad():
        positions = model.text_model.embeddings.position_embedding.weight
        positions[TRAINED_LENGTH:] = positions[TRAINED_LENGTH - 4:TRAINED_LENGTH].mean(0)
        on_save()


@torch.no_grad()
def measure(folder):
    """What it can tell of 1,000 pictures that it has not seen, half drawn and half decoded, as lines of a table."""
    model, texts, rng = CLIPModel.from_pretrained(folder).float().eval(), Texts(), random.Random(1_000_000)
    drawn = [world.random_scene(rng) for _ in range(500)]
    bank = decoded(rng, 500)
    scenes = drawn + bank[0]
    x = pixels([world.draw(scene) for scene in drawn] + list(bank[1]))
    pictures = torch.cat([of_pictures(model, part) for part in x.split(100)])
    names = of_texts(model, texts([f"a photo of {world.with_article(name)}" for name in world.NAMES]))
    ranked = (pictures @ names.T).argsort(1, descending=True)
    found = {1: [], 2: []}
    for scene, order in zip(scenes, ranked.tolist()):
        best = {world.NAMES[number] for number in order[:len(scene.things)]}
        found[len(scene.things)].append(best == {thing.name for thing in scene.things})
    pairs = [number for number, scene in enumerate(scenes) if len(scene.things) == 2]
    true = [caption(rng, scenes[number], True) for number in pairs]
    wrong = [opposite(text) for text in true]
    right = [(pictures[pairs] * of_texts(model, texts(captions))).sum(1) for captions in (true, wrong)]
    half = texts([caption(rng, scene) for scene in scenes[250:750]])
    own = (pictures[250:750] @ of_texts(model, half).T).argmax(1) == torch.arange(500)
    share = lambda right: f"{100 * sum(map(float, right)) / len(right):.1f}"
    return [
        ["the name of a single thing, of 35", len(found[1]), share(found[1])],
        ["both names of two things, of 35", len(found[2]), share(found[2])],
        ["the true relation of two things above its opposite", len(pairs), share(right[0] > right[1])],
        ["a picture's own caption among 500", 500, share(own)],
    ]


def opposite(text):
    """The relation of a caption turned around."""
    for one, other in (("to the left of", "to the right of"), ("to the right of", "to the left of"), ("above", "below"), ("below", "above")):
        if f" {one} " in text:
            return text.replace(f" {one} ", f" {other} ")
    raise ValueError(text)


def take(out):
    TARGET.mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(out / "clip" / name, TARGET / name)
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    last = [line for line in log if line["stage"] == "clip"][-1]
    rows = ["| what | pictures | right, % |", "| --- | ---: | ---: |", *(f"| {' | '.join(map(str, row))} |" for row in measure(TARGET))]
    text = f"{last['step']} steps of {BATCH} pictures in {last['minutes']:.0f} minutes, mean loss at the end {last['loss']:.3f}. Of pictures that it has not seen:\n\n" + "\n".join(rows)
    card = TARGET / "README.md"
    before, rest = card.read_text().split(START)
    card.write_text(f"{before}{START}\n{text}\n{END}{rest.split(END)[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("--out", type=Path, required=True, help="goes on where it stopped")
    training.add_argument("--minutes", type=float, default=25)
    commands.add_parser("take").add_argument("out", type=Path)
    args = parser.parse_args()
    if args.command == "train":
        train(args.out, args.minutes)
    else:
        take(args.out)


if __name__ == "__main__":
    main()
