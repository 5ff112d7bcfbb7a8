"""`fixtures/savings/`: DeepCache, T-GATE and token merging by their authors' packages in diffusers' pipeline, on sd1-tiny and, where
a name begins with it, on sdxl-tiny.

T-GATE runs as in its paper, without the reuse of self-attention that its second version added: `sp_interval=1` and
`fi_interval=1`. tomesd runs without its random choice, in the largest feature maps that have attention: SDXL's are halved once.
"""

import diffusers
import tomesd
import torch
from cases.guidance import CASES as GUIDANCE
from cases.guidance import NETWORKS, TOKENS
from cases.guidance_procedures import Store, latent_gradient
from common import FIXTURES, generator, write_case
from DeepCache import DeepCacheSDHelper
from diffusers import UNet2DConditionModel
from outputs import random_like
from scheduler_configs import SD1, SDXL
from tgate import TgateSDDeepCacheLoader, TgateSDLoader, TgateSDXLDeepCacheLoader, TgateSDXLLoader

REQUEST = {
    "prompt": "a photo of a cat on the left of a dog",
    "negative_prompt": "blurry, bad",
    "num_inference_steps": 8,
    "guidance_scale": 7.5,
    "height": 32,
    "width": 48,
}
SEED = 5
# Name → scheduler, DeepCache's interval and branch, T-GATE's gate, the share of merged tokens, height and width in pixels.
CASES = {
    "deep-cache": ("ddim", [3, 0], None, None, None),
    "deep-cache-branch1": ("euler", [2, 1], None, None, None),
    "deep-cache-branch4": ("ddim", [4, 4], None, None, None),
    "tgate": ("ddim", None, 3, None, None),
    "tgate-late": ("euler", None, 7, None, None),
    "token-merging": ("ddim", None, None, 0.5, None),
    "token-merging-odd": ("ddim", None, None, 0.4, [36, 52]),
    "token-merging-most": ("euler", None, None, 0.75, None),
    "tgate-deep-cache": ("ddim", [3, 0], 3, None, None),
    "all": ("ddim", [2, 1], 4, 0.5, None),
    "sdxl-deep-cache": ("euler", [3, 0], None, None, None),
    "sdxl-tgate": ("euler", None, 3, None, None),
    "sdxl-all": ("euler", [2, 1], 4, 0.5, None),
}
SCHEDULERS = {"ddim": "DDIMScheduler", "euler": "EulerDiscreteScheduler"}
# How much is merged where PoS guidance is differentiated.
MERGED = 0.5


def latents(name, dtype=torch.float32):
    scheduler, deep, gate, merged, size = CASES[name]
    xl = name.startswith("sdxl")
    if xl:
        kind, options, config = diffusers.StableDiffusionXLPipeline, {"variant": "fp16", "add_watermarker": False}, SDXL
    else:
        kind, options, config = diffusers.StableDiffusionPipeline, {}, SD1
    pipe = kind.from_pretrained(FIXTURES / ("sdxl-tiny" if xl else "sd1-tiny"), dtype=dtype, **options)
    pipe.set_progress_bar_config(disable=True)
    pipe.scheduler = getattr(diffusers, SCHEDULERS[scheduler]).from_config(config)
    request = dict(REQUEST, generator=generator(SEED), output_type="latent")
    if size:
        # diffusers' pipeline wants multiples of 8, its networks do not.
        request["latents"] = torch.randn([1, 4, size[0] // 4, size[1] // 4], generator=generator(SEED), dtype=dtype)
    if merged:
        tomesd.apply_patch(pipe, ratio=merged, use_rand=False, max_downsample=2 if xl else 1)
    if not gate:
        if deep:
            helper = DeepCacheSDHelper(pipe=pipe)
            helper.set_params(cache_interval=deep[0], cache_branch_id=deep[1])
            helper.enable()
        return pipe(**request).images
    if deep:
        load = TgateSDXLDeepCacheLoader if xl else TgateSDDeepCacheLoader
        pipe = load(pipe, cache_interval=deep[0], cache_branch_id=deep[1])
    else:
        pipe = (TgateSDXLLoader if xl else TgateSDLoader)(pipe)
    return pipe.tgate(gate_step=gate, sp_interval=1, fi_interval=1, warm_up=0, **request).images


def guided_gradient(dtype):
    """Losses and gradients to the latents through a network that merges tokens, on the inputs of `guidance`."""
    [_, _], side, timestep, scale = NETWORKS["sd1"]
    config, wanted = GUIDANCE["one"]
    unet = UNet2DConditionModel.from_pretrained(FIXTURES / "sd1-tiny/unet", dtype=dtype).eval().requires_grad_(False)
    store = Store(unet)
    tomesd.apply_patch(unet, ratio=MERGED, use_rand=False)
    latents = random_like([2, 4, *NETWORKS["sd1"][0]], 72).to(dtype) / scale
    context = random_like([2, TOKENS, 32], 73, scale=2.0).to(dtype)
    conditioning = {"encoder_hidden_states": context}
    return latent_gradient(unet, store, latents, timestep, conditioning, wanted, config, side, scale)


def make():
    tensors = {}
    with torch.no_grad():
        for name in CASES:
            tensors[f"{name}/latents"] = latents(name)
    losses, gradient = guided_gradient(torch.float64)
    tensors |= {"guided/losses": losses, "guided/gradient": gradient}
    keys = ("scheduler", "deep_cache", "tgate", "token_merging", "size")
    info = {
        "cases": {name: dict(zip(keys, case)) for name, case in CASES.items()},
        "guided": {"case": "one", "token_merging": MERGED},
        "request": REQUEST,
        "seed": SEED,
    }
    write_case("savings", tensors, info)
