"""`fixtures/gligen/`: GLIGEN's layers on the tiny SD1.x of `single-file`, through diffusers' network and pipeline."""

import diffusers
import torch
from cases.guidance_procedures import Store, latent_gradient
from cases.single_file import MINI_TEXT, MINI_UNET, MINI_VAE, exact_in_every_type, networks
from common import FIXTURES, case_dir, generator, randomize, write_case, write_json
from ldm import unet_to_ldm
from networks import save_state
from outputs import check_against_f64, random_like
from scheduler_configs import SCHEDULERS, SD1

GATED_UNET = MINI_UNET | {"attention_type": "gated"}
PLACES, TOKENS, WIDTH = 30, 77, MINI_UNET["cross_attention_dim"]
# One box is neither square nor in the middle, so that a wrong order of the corners shows.
BOXES = [[0.05, 0.25, 0.35, 0.75], [0.6, 0.1, 0.95, 0.9], [0.3, 0.55, 0.7, 1.0]]
PHRASES = ["a cat", "a red dog", "the bench"]
REQUEST = {
    "prompt": "a photo of a cat on the left of a dog",
    "negative_prompt": "blurry, bad",
    "num_inference_steps": 10,
    "guidance_scale": 7.5,
    "height": 16,
    "width": 24,
}
SEED = 5
# Name → scheduler, share of grounded steps, number of boxes.
PIPELINES = {
    "ddim": ("ddim", 0.3, 2),
    "pndm": ("pndm", 0.3, 2),
    "always": ("ddim", 1.0, 3),
    "never": ("ddim", 0.0, 2),
    "null": ("ddim", 0.5, 0),
}
# A cat to the left of a dog, by the positions of their tokens.
GUIDANCE = {"method": "pos", "preset": "sd14-reference", "combine": "sum"}
TARGETS = [
    {"objects": [{"positions": [2]}, {"positions": [7, 8]}], "relations": [{"subject": 0, "relation": relation, "objects": [1]}], "end": 13}
    for relation in ("left of", "below")
]


def gated_unet(base):
    """The base network's weights with random layers of GLIGEN's: gates that are far from closed, of either sign."""
    unet = diffusers.UNet2DConditionModel.from_config(GATED_UNET)
    exact_in_every_type(randomize(unet, 85))
    rng = generator(86)
    with torch.no_grad():
        for name, parameter in sorted(unet.named_parameters()):
            if name.endswith(("alpha_attn", "alpha_dense")):
                parameter.copy_((torch.rand([], generator=rng) - 0.5).to(torch.bfloat16))
    missing = unet.load_state_dict(base.state_dict(), strict=False)
    assert not missing.unexpected_keys
    return unet.eval()


def grounding(rows, seed, dtype):
    """`rows`: how many objects each sample has."""
    mask = torch.tensor([[float(place < count) for place in range(PLACES)] for count in rows], dtype=dtype)
    corners = torch.rand([len(rows), PLACES, 4], generator=generator(seed))
    boxes = torch.cat([corners[..., :2] * 0.5, 0.5 + corners[..., 2:] * 0.5], -1).to(dtype) * mask[..., None]
    phrases = random_like([len(rows), PLACES, WIDTH], seed + 1, scale=2.0).to(dtype) * mask[..., None]
    return {"boxes": boxes, "positive_embeddings": phrases, "masks": mask}


def unet_cases(unet, dtype):
    tensors = {}
    # Name → size of the latents, objects of each sample. Odd sizes are rounded up on the way down.
    cases = {"batch": ([8, 12], [3, 0]), "odd": ([9, 10], [1, 2, 0]), "thirty": ([8, 8], [30]), "none": ([8, 8], [0])}
    for seed, (name, (size, rows)) in enumerate(cases.items()):
        sample = random_like([len(rows), 4, *size], 210 + seed).to(dtype)
        context = random_like([len(rows), TOKENS, WIDTH], 220 + seed).to(dtype)
        objects = grounding(rows, 230 + 2 * seed, dtype)
        timestep = torch.tensor([601])
        out = unet(sample, timestep, context, cross_attention_kwargs={"gligen": dict(objects)}).sample
        off = unet(sample, timestep, context).sample
        found = {"sample": sample, "context": context, "out": out, "off": off} | objects
        tensors |= {f"unet/{name}/{key}": value for key, value in found.items()}
    return tensors


def pipeline(unet, nets):
    pipe = diffusers.StableDiffusionGLIGENPipeline(
        vae=nets["vae"][0],
        text_encoder=nets["text_encoder"][0],
        tokenizer=diffusers.StableDiffusionPipeline.from_pretrained(
            FIXTURES / "single-file/sd1", use_safetensors=False
        ).tokenizer,
        unet=unet,
        scheduler=diffusers.DDIMScheduler.from_config(SD1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def pictures(unet, nets):
    pipe = pipeline(unet, nets)
    tensors = {}
    for name, (scheduler, share, boxes) in PIPELINES.items():
        kind, arguments = SCHEDULERS[scheduler]
        pipe.scheduler = getattr(diffusers, kind).from_config(SD1, **arguments)
        tensors[f"pipeline/{name}/latents"] = grounded(pipe, share, BOXES[:boxes], PHRASES[:boxes])
    pipe.enable_fuser(True)  # which the pipeline leaves off
    latents = tensors["pipeline/ddim/latents"]
    decoded = pipe.vae.decode(latents / pipe.vae.config.scaling_factor).sample
    tensors["pipeline/ddim/picture"] = (decoded / 2 + 0.5).clamp(0, 1)
    return tensors


def grounded(pipe, share, boxes, phrases):
    # diffusers cannot tokenise an empty list; without boxes what the phrase is does not matter.
    if not boxes:
        return null_grounded(pipe, share)
    return pipe(
        **REQUEST,
        output_type="latent",
        generator=generator(SEED),
        gligen_boxes=boxes,
        gligen_phrases=phrases,
        gligen_scheduled_sampling_beta=share,
    ).images


def null_grounded(pipe, share):
    """All places empty: the position network with all masks 0, whatever the boxes."""
    forward = pipe.unet.position_net.forward

    def empty(boxes, masks, positive_embeddings):
        return forward(boxes, masks * 0, positive_embeddings)

    pipe.unet.position_net.forward = empty
    latents = grounded(pipe, share, BOXES[:1], PHRASES[:1])
    pipe.unet.position_net.forward = forward
    return latents


def gradient(unet, dtype):
    """PoS through the gated layers."""
    latents = random_like([2, 4, 16, 12], 240).to(dtype)
    context = random_like([2, TOKENS, WIDTH], 241).to(dtype)
    objects = grounding([2, 1], 242, dtype)
    processors = unet.attn_processors
    store = Store(unet)
    conditioning = {"encoder_hidden_states": context, "cross_attention_kwargs": {"gligen": dict(objects)}}
    each, grad = latent_gradient(unet, store, latents, 701, conditioning, TARGETS, GUIDANCE, 12)
    found = {"latents": latents, "context": context, "losses": each, "gradient": grad} | objects
    unet.set_attn_processor(processors)
    return {f"gradient/{key}": value for key, value in found.items()}


def expected(dtype=torch.float32):
    nets = networks(81, MINI_UNET, MINI_VAE, {"text_encoder": MINI_TEXT})
    unet = gated_unet(nets["unet"][0]).to(dtype)
    with torch.no_grad():
        tensors = unet_cases(unet, dtype)
        if dtype == torch.float32:
            tensors |= pictures(unet, nets)
    # In f64 whatever the rest is in: PyTorch's own rounding in f32 is 8e-6 of the gradient.
    exact = gradient(unet.double().requires_grad_(False), torch.float64)
    return tensors | {key: value.to(dtype) for key, value in exact.items()}


def make():
    path = case_dir("gligen")
    nets = networks(81, MINI_UNET, MINI_VAE, {"text_encoder": MINI_TEXT})
    unet = gated_unet(nets["unet"][0])
    (path / "unet").mkdir()
    write_json(path / "unet/config.json", GATED_UNET)
    save_state(path / "unet/diffusion_pytorch_model.safetensors", unet.state_dict())
    # The names that the same tensors have in latent-diffusion's files, to make those from.
    plain = {key: value for key, value in unet.state_dict().items() if not key.startswith("position_net.")}
    names = {key: ldm.removeprefix("model.diffusion_model.") for ldm, key in unet_to_ldm(plain, GATED_UNET).items()}
    write_json(path / "names.json", names)
    tensors = expected()
    deviation = check_against_f64(tensors, lambda: expected(torch.float64))
    info = {
        "request": REQUEST,
        "seed": SEED,
        "boxes": [{"object": phrase, "box": box} for phrase, box in zip(PHRASES, BOXES)],
        "pipelines": {
            name: {"scheduler": scheduler, "share": share, "boxes": boxes}
            for name, (scheduler, share, boxes) in PIPELINES.items()
        },
        "guidance": {"config": GUIDANCE, "targets": TARGETS},
        "largest_relative_deviation_from_f64": float(f"{deviation:.1e}"),
    }
    write_case("gligen", tensors, info, path)
