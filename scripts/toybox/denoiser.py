"""The UNet, trained on cached latents and cached text embeddings.

Two choices make it learn layouts early, which a plain epsilon loss learns last:

* it predicts v (Salimans and Ho, 2022), so that the noisiest steps, where the layout is decided,
  weigh as much as the others (as an epsilon loss with the weight (snr + 1) / snr);
* a part of the training timesteps is drawn with a bias towards high noise.
"""

import argparse
import random
from datetime import timedelta
from pathlib import Path

import torch
from diffusers import DDIMScheduler, UNet2DConditionModel
from transformers import CLIPTextModel

import autoencoder
import text_encoder
import world
from tokenizer import MAX_LENGTH, load_tokenizer
from training import Stage

BATCH = 12  # of each worker
USUAL_WORKERS = 2
DROPOUT = 0.08  # share of empty captions, for classifier-free guidance


def new_unet():
    return UNet2DConditionModel(
        sample_size=world.GRID, in_channels=4, out_channels=4,
        down_block_types=["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
        up_block_types=["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
        block_out_channels=(48, 96, 128), layers_per_block=1, norm_num_groups=16,
        cross_attention_dim=text_encoder.WIDTH, attention_head_dim=2,  # SD1's misnomer: 2 heads
    ).to(memory_format=torch.channels_last)


def new_scheduler():
    return DDIMScheduler(
        num_train_timesteps=1000, beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012,
        clip_sample=False, set_alpha_to_one=False, steps_offset=1, prediction_type="v_prediction")


@torch.no_grad()
def cache_latents(out, count):
    """Draws `count` scenes and keeps them with their latents in a file."""
    path = out / "latents.pt"
    if path.exists():
        return torch.load(path, weights_only=False)
    rng = random.Random(1)
    scenes = [world.random_scene(rng) for _ in range(count)]
    latents = []
    for i in range(0, count, 32):
        x = autoencoder.to_tensor([world.draw(s) for s in scenes[i:i + 32]])
        latents.append(autoencoder.ideal_latents(x))
    cached = dict(scenes=scenes, latents=torch.cat(latents))
    torch.save(cached, path)
    return cached


def object_cells(scenes):
    """1 where an object's square is, 0 elsewhere: [N, 1, 16, 16]."""
    cells = torch.zeros(len(scenes), 1, world.GRID, world.GRID)
    for i, scene in enumerate(scenes):
        for thing in scene.things:
            cells[i, 0, thing.y:thing.y + thing.size, thing.x:thing.x + thing.size] = 1
    return cells


def random_timesteps(count, layout_share):
    """A part with a bias to high noise, which decides where things are; the others mostly in the
    middle, where it is decided what they are."""
    layout = torch.rand(count) ** 0.6
    identity = torch.sigmoid(0.8 * torch.randn(count))
    t = torch.where(torch.rand(count) < layout_share, layout, identity)
    return (1000 * t).long().clamp(max=999)


class Embeddings:
    """Text embeddings of captions, computed once each (the text encoder is frozen), kept in f16."""

    def __init__(self, out):
        self.tokenizer = load_tokenizer(out / "tokenizer")
        self.encoder = CLIPTextModel.from_pretrained(out / "text_encoder").eval()
        self.known = {}

    @torch.no_grad()
    def __call__(self, captions):
        new = sorted({c for c in captions if c not in self.known})
        if new:
            ids = self.tokenizer(new, padding="max_length", max_length=MAX_LENGTH, truncation=True,
                                 return_tensors="pt").input_ids
            for c, e in zip(new, self.encoder(ids).last_hidden_state.half()):
                self.known[c] = e.clone()
        return torch.stack([self.known[c] for c in captions]).float()


def train(out, minutes, scenes, peak_lr, p_relation_true, layout_share, start, rank):
    torch.manual_seed(2)  # the same first weights on every worker
    cached = cache_latents(out, scenes)
    scenes, latents = cached["scenes"], cached["latents"]
    print("latents", tuple(latents.shape), "std", latents.std().item(), flush=True)
    covered = object_cells(scenes)
    embed, rng = Embeddings(out), random.Random()
    unet = new_unet()
    if start:
        unet.load_state_dict(UNet2DConditionModel.from_pretrained(start).state_dict())
    scheduler = new_scheduler()
    alphas = scheduler.alphas_cumprod
    print("parameters", sum(p.numel() for p in unet.parameters()), flush=True)

    fast_unet = torch.compile(unet, dynamic=False)
    stage = Stage(out, "unet", [unet], minutes, peak_lr, ema=0.998, weight_decay=0.01,
                  flat_until=0.75, save_every=180, on_save=lambda: unet.save_pretrained(out / "unet"))
    torch.manual_seed(100 + rank)
    while stage.running():
        picked = [rng.randrange(len(scenes)) for _ in range(BATCH)]
        captions = ["" if rng.random() < DROPOUT
                    else world.random_caption(rng, scenes[i], p_relation_true) for i in picked]
        clean = latents[picked]
        t = random_timesteps(BATCH, layout_share)
        alpha = alphas[t].view(-1, 1, 1, 1)
        noise = torch.randn_like(clean)
        noisy = alpha.sqrt() * clean + (1 - alpha).sqrt() * noise
        v = alpha.sqrt() * noise - (1 - alpha).sqrt() * clean
        noisy = noisy.contiguous(memory_format=torch.channels_last)
        error = (fast_unet(noisy, t, embed(captions)).sample - v).square()
        # Objects cover a quarter of the picture and hold nearly all there is to learn. They weigh more
        # where the noise is so low that it is plain where they are; elsewhere that would bias layouts.
        weight = 1 + 3 * covered[picked] * (t < 600).view(-1, 1, 1, 1)
        stage.step((error * weight).sum() / weight.expand_as(error).sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--scenes", type=int, default=16000)
    parser.add_argument("--lr", type=float, default=8e-4)
    parser.add_argument("--p-relation-true", type=float, default=world.P_RELATION_TRUE)
    parser.add_argument("--layout-share", type=float, default=0.25,
                        help="share of the timesteps that are drawn with a bias to high noise")
    parser.add_argument("--start", type=Path, help="a UNet folder to go on from")
    parser.add_argument("--workers", type=int, default=1, help="processes, all with this command")
    parser.add_argument("--rank", type=int, default=0, help="which of the processes this is")
    args = parser.parse_args()
    if args.workers > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{args.out.resolve()}/workers", rank=args.rank,
            world_size=args.workers, timeout=timedelta(minutes=30))
    train(args.out, args.minutes, args.scenes, args.lr, args.p_relation_true, args.layout_share,
          args.start, args.rank)
