"""`fixtures/upscale/`: latents made larger by `torch.nn.functional.interpolate`, by the names of AUTOMATIC1111's web UI."""

import torch
from common import FIXTURES, generator, write_tensors

MODES = {
    "Latent": ("bilinear", False),
    "Latent (antialiased)": ("bilinear", True),
    "Latent (bicubic)": ("bicubic", False),
    "Latent (bicubic antialiased)": ("bicubic", True),
    "Latent (nearest)": ("nearest", False),
    "Latent (nearest-exact)": ("nearest-exact", False),
}
SIZES = [(10, 14), (8, 9), (5, 7)]


def make():
    latents = torch.randn([1, 2, 5, 7], generator=generator(11))
    tensors = {"latents": latents}
    for name, (mode, antialias) in MODES.items():
        for height, width in SIZES:
            larger = torch.nn.functional.interpolate(latents, size=(height, width), mode=mode, antialias=antialias)
            tensors[f"{name}/{height}x{width}"] = larger
    folder = FIXTURES / "upscale"
    folder.mkdir(exist_ok=True)
    write_tensors(folder / "expected.safetensors", tensors)
