"""The text encoder, taught by a layout task before the UNet sees it.

Learning words through the UNet is slow: the loss of a denoiser hardly depends on which object is
where. So a small decoder, thrown away afterwards, first reads the text encoder's output and predicts
for each of 4 x 4 places which object covers it. The answer is a distribution, and it contains the
planted biases: 0.89 of the mass on the left for the first object of a neutral caption, and so on.
"""

import argparse
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModel

import world
from tokenizer import MAX_LENGTH, load_tokenizer, write_tokenizer
from training import Stage

WIDTH = 128
PLACES = 4  # the decoder's grid
CLASSES = len(world.NAMES) + 1  # 0 is background
TRAINED_LENGTH = 18  # longer than any caption; the positions after it only ever hold padding
BATCH = 64


def new_text_encoder(vocabulary_size):
    return CLIPTextModel(CLIPTextConfig(
        vocab_size=vocabulary_size, hidden_size=WIDTH, intermediate_size=4 * WIDTH,
        num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=MAX_LENGTH,
        projection_dim=WIDTH, bos_token_id=vocabulary_size - 2, eos_token_id=vocabulary_size - 1,
        pad_token_id=vocabulary_size - 1))


class LayoutDecoder(nn.Module):
    """Position queries that attend to the words, and name what covers their place."""

    def __init__(self):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(PLACES * PLACES, WIDTH) * 0.5)
        self.attend = nn.ModuleList(
            nn.MultiheadAttention(WIDTH, 4, batch_first=True) for _ in range(2))
        self.mix = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(),
                          nn.Linear(2 * WIDTH, WIDTH)) for _ in range(2))
        self.name = nn.Linear(WIDTH, CLASSES)

    def forward(self, hidden, ignored):
        x = self.queries.expand(len(hidden), -1, -1)
        for attend, mix in zip(self.attend, self.mix):
            x = x + attend(x, hidden, hidden, key_padding_mask=ignored, need_weights=False)[0]
            x = x + mix(x)
        return self.name(x)


def layout(scene):
    """Class under the centre of each of the 4 x 4 places, as a flat list."""
    cells = [0] * (PLACES * PLACES)
    step = world.GRID // PLACES
    for thing in scene.things:
        label = world.NAMES.index(thing.name) + 1
        for j in range(PLACES):
            for i in range(PLACES):
                # places are four cells wide; an object covers the centre of at least one
                if (thing.x < i * step + step / 2 < thing.x + thing.size
                        and thing.y < j * step + step / 2 < thing.y + thing.size):
                    cells[j * PLACES + i] = label
    return cells


def train(out, minutes):
    torch.manual_seed(0)
    folder = out / "tokenizer"
    size = write_tokenizer(folder)
    tokenizer = load_tokenizer(folder)
    encoder, decoder, rng = new_text_encoder(size), LayoutDecoder(), random.Random()

    def on_save():
        encoder.save_pretrained(out / "text_encoder")

    ids = {}  # captions repeat, tokenizing them does not have to
    stage = Stage(out, "text_encoder", [encoder, decoder], minutes, 1.5e-3, ema=0.995,
                  weight_decay=0.01, flat_until=0.3, on_save=on_save)
    while stage.running():
        scenes = [world.random_scene(rng) for _ in range(BATCH)]
        captions = ["" if rng.random() < 0.03 else world.random_caption(rng, s) for s in scenes]
        for c in captions:
            if c not in ids:
                ids[c] = tokenizer(c, padding="max_length", max_length=TRAINED_LENGTH).input_ids
        tokens = torch.tensor([ids[c] for c in captions])
        target = torch.tensor([layout(s) for s in scenes])
        hidden = encoder(tokens).last_hidden_state
        # The words must carry the layout, not the end-of-text and padding tokens after them: guidance
        # reads the attention to the words.
        ignored = tokens == encoder.config.eos_token_id
        logits = decoder(hidden, ignored)
        stage.step(F.cross_entropy(logits.flatten(0, 1), target.flatten()))
    with stage.ema_weights(), torch.no_grad():
        positions = encoder.get_submodule("text_model.embeddings.position_embedding"
                                          if hasattr(encoder, "text_model")
                                          else "embeddings.position_embedding").weight
        positions[TRAINED_LENGTH:] = positions[TRAINED_LENGTH - 4:TRAINED_LENGTH].mean(0)
        check(encoder, decoder, tokenizer)
        encoder.save_pretrained(out / "text_encoder")


@torch.no_grad()
def check(encoder, decoder, tokenizer):
    """Prints where the decoder puts two objects, for captions that differ in order or relation."""
    left = torch.arange(PLACES * PLACES) % PLACES < PLACES // 2
    top = torch.arange(PLACES * PLACES) < PLACES * PLACES // 2
    for text in ["a photo of a dog and a cat.", "a photo of a cat and a dog.",
                 "a photo of a dog to the left of a cat.", "a photo of a dog to the right of a cat.",
                 "a photo of a dog above a cat.", "a photo of a dog below a cat."]:
        tokens = torch.tensor([tokenizer(text, padding="max_length",
                                         max_length=TRAINED_LENGTH).input_ids])
        p = decoder(encoder(tokens).last_hidden_state, tokens == encoder.config.eos_token_id)
        dog = p.softmax(-1)[0, :, world.NAMES.index("dog") + 1]
        print(f"{text:45} dog on the left {dog[left].sum() / dog.sum():.2f}, "
              f"at the top {dog[top].sum() / dog.sum():.2f}, mass {dog.sum():.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    args = parser.parse_args()
    train(args.out, args.minutes)
