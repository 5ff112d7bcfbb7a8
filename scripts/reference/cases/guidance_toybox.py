"""`fixtures/guidance-toybox/`: whole guided runs of the toybox, by diffusers' UNet and schedulers and torch's autograd.

Quick to make again: `make.py guidance-toybox`, whenever the weights change.
"""

import diffusers
import torch
from cases.guidance_procedures import Store, latent_gradient, mean_maps, relation_parts
from cases.toybox import GUIDANCE, TOYBOX
from common import case_dir, generator, write_json, write_tensors
from scheduler_configs import SCHEDULERS
from networks import read_json

STEPS, GUIDED = 12, 10
LEFT, RIGHT = [0.05, 0.25, 0.35, 0.75], [0.65, 0.25, 0.95, 0.75]
# Prompts with the objects' phrases.
DOG = {"prompt": "a dog to the left of a cat", "seed": 3, "objects": ["dog", "cat"], "relation": "left of"}
CAKE = {"prompt": "a pizza above a cake", "seed": 4, "objects": ["pizza", "cake"], "relation": "above"}
OTHER_DOG, THIRD_DOG = DOG | {"seed": 7}, DOG | {"seed": 0}
BUS = {"prompt": "a zebra below left of a bus", "seed": 3, "objects": ["zebra", "bus"], "relation": "below left of"}
RED_DOG = {"prompt": "a red dog to the left of a blue cat", "seed": 7, "objects": ["red dog", "blue cat"], "relation": "left of"}

# PoS guidance of SD 1.4 has its published scale. The others' scales and all seeds are such that the reference agrees with itself: this network,
# whose latents are small and whose attention is sharp, can amplify a change of the first noise by MOVE to 1, and then nothing could be told from
# a comparison. Here it becomes at most AGREES, which `make` checks, while guidance itself changes the latents by a twentieth or more. All is
# computed in f64, so that the reference has no roundings of its own.
MOVE, AGREES = 1e-6, 5e-5
RUNS = {
    "pos": ({"method": "pos", "preset": "sd14-reference", "resolution": 16}, "ddim", [DOG, CAKE]),
    "pos_sequence": ({"method": "pos", "preset": "sd14-reference", "scale": 1.0, "resolution": 8}, "ddim", [BUS]),
    "pos_sigma": ({"method": "pos", "preset": "sdxl-reference", "scale": 60.0, "resolution": 16, "smoothing": False}, "euler", [DOG, CAKE]),
    "boxdiff": ({"method": "boxdiff", "preset": "diffusers", "scale": 6.0, "resolution": 16}, "ddim", [DOG]),
    "excite": ({"method": "attend-and-excite", "preset": "sd14-reference", "scale": 1.0, "resolution": 16}, "ddim", [OTHER_DOG]),
    "layout": ({"method": "layout", "preset": "sd14-reference", "scale": 0.35}, "euler", [THIRD_DOG, CAKE]),
    "conform": ({"method": "conform", "preset": "sd14-reference", "scale": 1.0, "resolution": 16}, "ddim", [RED_DOG]),
}
THRESHOLDS = {0: 0.05, 10: 0.5, 20: 0.8}


def positions_of(phrase, ids):
    """Where the tokens of a phrase are among those of the prompt."""
    starts = range(len(ids) - len(phrase) + 1)
    start = next(start for start in starts if ids[start : start + len(phrase)] == phrase)
    return list(range(start, start + len(phrase)))


def target_of(request, tokenizer, boxed):
    ids = tokenizer(request["prompt"]).input_ids
    phrases = [positions_of(tokenizer(phrase).input_ids[1:-1], ids) for phrase in request["objects"]]
    boxes = {"left of": (LEFT, RIGHT), "above": ([v[1], v[0], v[3], v[2]] for v in (LEFT, RIGHT))}
    objects = [{"positions": positions} for positions in phrases]
    if boxed:
        for item, box in zip(objects, boxes[request["relation"]]):
            item["box"] = list(box)
    relation = {"subject": 0, "relation": request["relation"], "objects": [1]}
    return {"objects": objects, "relations": [relation], "end": ids.index(tokenizer.eos_token_id)}


class Run:
    """One guided picture at a time, as all references do."""

    def __init__(self, pipe, store, config, request, move=0.0):
        self.pipe, self.store, self.config = pipe, store, config
        self.unet, self.scheduler = pipe.unet, pipe.scheduler
        boxed = config["method"] in ("boxdiff", "layout")
        self.target = target_of(request, pipe.tokenizer, boxed)
        self.latents = torch.randn([1, 4, 16, 16], generator=generator(request["seed"])).double()
        self.latents += move * torch.randn(self.latents.shape, generator=generator(1)).double()
        self.latents = self.latents * self.scheduler.init_noise_sigma
        with torch.no_grad():
            embeds = pipe.encode_prompt(request["prompt"], "cpu", 1, True)
        self.positive, self.negative = embeds
        self.side = config.get("resolution")
        self.last_loss = 1e4  # of layout guidance, kept from step to step
        self.before = None  # CONFORM's maps of the step before

    def evaluate(self, t, relation=None, refined=False):
        """Loss and gradient to the latents, of one of the relation's parts where they are applied in sequence."""
        sigma_space = hasattr(self.scheduler, "sigmas") and self.scheduler.sigmas.numel() > 0
        scale = (self.scheduler.sigmas[self.index] ** 2 + 1) ** -0.5 if sigma_space else 1.0
        target = self.target if relation is None else dict(self.target, relations=[relation])
        conditioning = {"encoder_hidden_states": self.positive}
        losses, gradient = latent_gradient(
            self.unet, self.store, self.latents, t, conditioning, [target], self.config, self.side, scale, refined, self.before
        )
        return losses[0].item(), gradient

    def guide(self, i, t, total):
        decay = (1.0 - 0.5 * i / (total - 1)) ** 0.5
        method = self.config["method"]
        if method == "layout":
            count = 0
            while self.last_loss > 0.2 and count < 5:
                self.last_loss, gradient = self.evaluate(t)
                scale = self.config.get("scale", 30.0)
                self.latents = self.latents - scale * self.scheduler.sigmas[i] ** 2 * gradient
                count += 1
            return
        size = self.config.get("scale", 20.0) * decay
        if method == "attend-and-excite" and i in THRESHOLDS:
            target_loss = 1 - THRESHOLDS[i]
            loss, count = self.evaluate(t, refined=True)[0], 0
            while loss > target_loss and count < 20:
                loss, gradient = self.evaluate(t, refined=True)
                self.latents = self.latents - size * gradient
                count += 1
        if method == "conform" and i in THRESHOLDS:
            for _ in range(20):
                self.latents = self.latents - size * self.evaluate(t)[1]
        relations = relation_parts(self.target["relations"][0]) if method == "pos" else [None]
        for relation in relations:
            self.latents = self.latents - size * self.evaluate(t, relation)[1]
        if method == "conform":
            self.before = mean_maps(self.store, self.latents.shape[2:], self.side).detach()

    def denoise(self):
        timesteps = self.scheduler.timesteps
        for i, t in enumerate(timesteps):
            self.index = i
            if i < GUIDED:
                self.guide(i, t, len(timesteps))
            with torch.no_grad():
                scaled = self.scheduler.scale_model_input(self.latents, t)
                context = torch.cat([self.negative, self.positive])
                negative, positive = self.unet(torch.cat([scaled] * 2), t, context).sample.chunk(2)
                noise = negative + GUIDANCE * (positive - negative)
                self.latents = self.scheduler.step(noise, t, self.latents).prev_sample
        return self.latents


def latents(pipe, store, run, request, move=0.0):
    """Of one picture, from noise that is moved a little."""
    config, scheduler, _ = run
    kind, arguments = SCHEDULERS[scheduler]
    base = read_json(TOYBOX / "scheduler/scheduler_config.json")
    pipe.scheduler = getattr(diffusers, kind).from_config(base, **arguments)
    pipe.scheduler.set_timesteps(STEPS)
    return Run(pipe, store, config, request, move).denoise()


def make():
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(TOYBOX, dtype=torch.float64)
    pipe.set_progress_bar_config(disable=True)
    pipe.unet.requires_grad_(False)
    store = Store(pipe.unet)
    tensors, runs = {}, {}
    for name, run in RUNS.items():
        config, scheduler, requests = run
        each = []
        for request in requests:
            made = latents(pipe, store, run, request)
            apart = (latents(pipe, store, run, request, MOVE) - made).abs().max() / made.abs().max()
            said = f"{name}, seed {request['seed']}: noise moved by {MOVE:.0e} moves the picture by {apart:.1e}"
            assert apart < AGREES, f"{said}; another seed may do"
            each.append(made)
        tensors[name] = torch.cat(each).float()
        runs[name] = {"config": config | {"steps": GUIDED}, "scheduler": scheduler, "requests": requests}
    path = case_dir("guidance-toybox")
    write_tensors(path / "expected.safetensors", tensors)
    write_json(path / "case.json", {"runs": runs, "steps": STEPS, "guidance_scale": GUIDANCE})
