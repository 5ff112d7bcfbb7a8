"""The KL autoencoder: 128 x 128 pictures to 16 x 16 x 4 latents and back.

What the latents mean is designed, not learned: block means of brightness and of two colour differences,
and the contrast inside the block (`ideal_latents`). An autoencoder that has to invent its code needs
hours on a CPU before it does more than brightness; with a fixed code

* encoder, decoder and UNet are three separate regressions that can be trained at the same time;
* the UNet paints a 16 x 16 thumbnail, which is easily learned;
* the decoder learns to draw the sprites that such thumbnails stand for. It sees the latents with noise
  on them, so it also draws clean sprites from the slightly wrong latents that a denoiser makes.

The files are those of an ordinary `AutoencoderKL`; nothing in the networks is special.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from diffusers.models.attention_processor import Attention
from diffusers.models.downsampling import Downsample2D
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.upsampling import Upsample2D
from safetensors.torch import load_file, save_file
from torch import nn

import trained
import world
from training import Stage

BATCH = 4
SCALING_FACTOR = 0.5  # the encoder's output has twice the unit variance that the UNet sees
LOG_VARIANCE = -8.0  # what the encoder says about its own precision
# Mean and standard deviation over random scenes of: brightness, red - blue, green - magenta, contrast
CHANNEL_MEAN = (0.50, 0.06, -0.03, 0.06)
CHANNEL_STD = (0.23, 0.45, 0.31, 0.12)


@torch.no_grad()
def start_linear(half):
    """Makes an encoder or decoder start as a plain resampling of a linear map of its input.

    Residual branches add nothing at first, the convolutions after upsampling pass everything on, and
    changes of width are orthogonal. The input's bias is a random constant that is larger than the
    signal: normalisation divides by the size of what it gets, and without a constant to compare with,
    light and dark backgrounds would come out the same.
    """
    def through(conv):
        nn.init.zeros_(conv.weight)
        middle = conv.kernel_size[0] // 2
        nn.init.orthogonal_(tap := torch.empty(conv.weight.shape[:2]))
        conv.weight[:, :, middle, middle] = tap

    through(half.conv_in)
    nn.init.normal_(half.conv_in.bias)
    for module in half.modules():
        if isinstance(module, ResnetBlock2D):
            nn.init.zeros_(module.conv2.weight)
            if module.conv_shortcut is not None:
                through(module.conv_shortcut)
        elif isinstance(module, Attention):
            nn.init.zeros_(module.to_out[0].weight)
        elif isinstance(module, (Upsample2D, Downsample2D)):
            through(module.conv)


@torch.no_grad()
def fit_output(half, x, target):
    """Sets an encoder's or decoder's last convolution by least squares, so that training starts from
    the best linear answer (for the decoder: the thumbnail, enlarged). `target` is [N, C, h, w]."""
    features = []
    handle = half.conv_out.register_forward_pre_hook(lambda _, inputs: features.append(inputs[0]))
    half(x)
    handle.remove()
    flat = features[0].permute(0, 2, 3, 1).reshape(-1, features[0].shape[1])
    flat = torch.cat([flat, torch.ones(len(flat), 1)], 1)
    wanted = target.permute(0, 2, 3, 1).reshape(len(flat), -1)
    gram = flat.T @ flat + 1e-3 * len(flat) * torch.eye(flat.shape[1])
    solution = torch.linalg.solve(gram, flat.T @ wanted)
    half.conv_out.weight.zero_()
    half.conv_out.weight[:wanted.shape[1], :, 1, 1] = solution[:-1].T
    half.conv_out.bias[:wanted.shape[1]] = solution[-1]


def new_autoencoder():
    vae = AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=4, sample_size=world.SIDE,
        down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4,
        # Narrow where there are many pixels; wide where the sprites are memorised. One group a norm:
        # several groups of few channels would normalise the colour of a plain background away.
        block_out_channels=(16, 32, 64, 128), layers_per_block=1, norm_num_groups=1,
        scaling_factor=SCALING_FACTOR,
    ).to(memory_format=torch.channels_last)
    for half, conv in ((vae.encoder, vae.quant_conv), (vae.decoder, vae.post_quant_conv)):
        start_linear(half)
        nn.init.zeros_(conv.bias)
        conv.weight.data.copy_(torch.eye(conv.in_channels)[..., None, None])
    return vae


def block_statistics(x):
    """[N, 3, H, W] in -1..1 -> [N, 4, H/8, W/8]: means of brightness and colour, and contrast."""
    r, g, b = x.unbind(1)
    bright = (r + g + b) / 3
    mean = F.avg_pool2d(torch.stack([bright, r - b, g - (r + b) / 2], 1), world.CELL)
    square = F.avg_pool2d(bright.square().unsqueeze(1), world.CELL)
    contrast = (square - mean[:, :1].square()).clamp(min=0).sqrt()
    return torch.cat([mean, contrast], 1)


def ideal_latents(x):
    """What the UNet works on, unit variance; `x` is [N, 3, H, W] in -1..1."""
    mean = torch.tensor(CHANNEL_MEAN).view(1, 4, 1, 1)
    std = torch.tensor(CHANNEL_STD).view(1, 4, 1, 1)
    return ((block_statistics(x) - mean) / std).contiguous(memory_format=torch.channels_last)


def to_tensor(pictures):
    """uint8 [N, H, W, 3] -> float [N, 3, H, W] in -1..1."""
    x = torch.from_numpy(np.asarray(pictures)).permute(0, 3, 1, 2).float() / 127.5 - 1
    return x.contiguous(memory_format=torch.channels_last)


def to_pictures(x):
    """float [N, 3, H, W] -> uint8 [N, H, W, 3]."""
    return ((x.clamp(-1, 1) + 1) * 127.5 + 0.5).byte().permute(0, 2, 3, 1).numpy()


def batch(rng, size=BATCH):
    scenes = [world.crowded_scene(rng) if rng.random() < 0.8 else world.random_scene(rng)
              for _ in range(size)]
    return to_tensor([world.draw(s) for s in scenes])


def picture_loss(y, x):
    """L1 of the pixels and of their differences (edges), at full and half resolution."""
    loss = 0.0
    for weight in (1.0, 0.5):
        dx = (y[..., 1:] - y[..., :-1]) - (x[..., 1:] - x[..., :-1])
        dy = (y[..., 1:, :] - y[..., :-1, :]) - (x[..., 1:, :] - x[..., :-1, :])
        loss = loss + weight * ((y - x).abs().mean() + (y - x).square().mean()
                                + 0.5 * dx.abs().mean() + 0.5 * dy.abs().mean())
        x, y = F.avg_pool2d(x, 2), F.avg_pool2d(y, 2)
    return loss


@torch.no_grad()
def report(decode, path):
    """Twelve scenes above what the decoder makes of their latents; returns the mean error in 0..1."""
    rng = random.Random(99)
    x = to_tensor([world.draw(world.random_scene(rng)) for _ in range(12)])
    y = decode(x)
    world.contact_sheet(np.concatenate([to_pictures(x), to_pictures(y)]), 12).save(path)
    return (x - y.clamp(-1, 1)).abs().mean().item() / 2


def train_decoder(out, minutes, start=None):
    torch.manual_seed(1)
    vae, rng = new_autoencoder(), random.Random()
    if start:
        vae.load_state_dict(AutoencoderKL.from_pretrained(start).state_dict())
    else:
        x = batch(rng, 24)
        fit_output(vae.decoder, ideal_latents(x) / SCALING_FACTOR, x)

    def on_save():
        error = report(lambda x: vae.decode(ideal_latents(x) / SCALING_FACTOR).sample,
                       out / "decoder.png")
        print("reconstruction error", round(error, 4), flush=True)

    stage = Stage(out, "decoder", [vae.post_quant_conv, vae.decoder], minutes, 8e-4,
                  ema=0.995, flat_until=0.5, on_save=on_save, by_width=True)
    decode = torch.compile(lambda z: vae.decode(z).sample, dynamic=False)
    while stage.running():
        x = batch(rng)
        z = ideal_latents(x)
        # Noise of up to 0.3 standard deviations, another amount for each picture.
        z = z + torch.randn_like(z) * 0.3 * torch.rand(len(z), 1, 1, 1)
        y = decode(z / SCALING_FACTOR)
        stage.step(picture_loss(y, x), l1=(y.detach() - x).abs().mean() / 2)


def train_encoder(out, minutes, start=None):
    torch.manual_seed(3)
    vae, rng = new_autoencoder(), random.Random()
    if start:
        vae.load_state_dict(AutoencoderKL.from_pretrained(start).state_dict())
    else:
        x = batch(rng, 24)
        fit_output(vae.encoder, x, ideal_latents(x) / SCALING_FACTOR)
    stage = Stage(out, "encoder", [vae.encoder, vae.quant_conv], minutes, 4e-4, ema=0.99,
                  flat_until=0.3, by_width=True)
    while stage.running():
        x = batch(rng)
        mean, log_variance = vae.quant_conv(vae.encoder(x)).chunk(2, 1)
        error = (mean * SCALING_FACTOR - ideal_latents(x)).square().mean()
        stage.step(error + 0.01 * (log_variance - LOG_VARIANCE).square().mean(), error=error.detach())


def join(out, folder, start=None):
    """Writes the averaged weights of both halves, as far as they are trained, as one AutoencoderKL; what is not is from `start`."""
    vae = new_autoencoder()
    if start:
        vae.load_state_dict(AutoencoderKL.from_pretrained(start).state_dict())
    for name, modules in (("decoder", [vae.post_quant_conv, vae.decoder]),
                          ("encoder", [vae.encoder, vae.quant_conv])):
        path = out / f"{name}.resume.pt"
        if path.exists():
            parameters = nn.ModuleList(modules).parameters()
            with torch.no_grad():
                for p, averaged in zip(parameters, torch.load(path, weights_only=True)["shadow"]):
                    p.copy_(averaged)
        elif not start:
            print(f"{path} is not there: the {name} is untrained")
    vae.save_pretrained(folder)
    return vae


def take(out, start):
    """Puts what was trained on from `start` into weights/toybox/vae, in f16."""
    join(out, out / "vae", start)
    file = "diffusion_pytorch_model.safetensors"
    halves = {name: value.half() for name, value in load_file(out / "vae" / file).items()}
    save_file(halves, trained.WEIGHTS / "vae" / file, metadata={"format": "pt"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["encoder", "decoder", "take"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, help="how long encoder or decoder is trained")
    parser.add_argument("--start", type=Path, help="an autoencoder's folder to go on from")
    args = parser.parse_args()
    match args.part:
        case "encoder":
            train_encoder(args.out, args.minutes, args.start)
        case "decoder":
            train_decoder(args.out, args.minutes, args.start)
        case "take":
            take(args.out, args.start)
