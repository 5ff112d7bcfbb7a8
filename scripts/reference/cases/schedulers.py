"""`fixtures/schedulers/`: whole trajectories of diffusers' schedulers on a fixed analytic model."""

import math

import diffusers
import torch
from common import generator, write_case
from scheduler_configs import SCHEDULERS, SD1, SDXL

STEPS = [1, 4, 10, 20, 50]
FEW_STEPS = [1, 4, 10, 20]
SHAPE = (1, 4, 2, 2)
SEED = 7
# 50 × 0.58 is 28.999999999999996 in f64, and diffusers truncates.
# The share of fresh noise in each step of a case, where it is not the class's default.
ETAS = {"tcd/eta0": 0.0, "tcd/eta1": 1.0}
STRENGTHS = [(10, 0.6), (10, 0.3), (10, 1.0), (50, 0.58), (4, 0.5)]


def fake_model(x, t):
    """out = 0.3 · x + 0.1 · sin(t / 50), elementwise; the sine in f64, then rounded to f32."""
    return 0.3 * x + torch.tensor(0.1 * math.sin(float(t) / 50), dtype=torch.float32)


def variants():
    """(name, scheduler, checkpoint config, changes to it, step counts)"""
    for name in SCHEDULERS:
        yield f"{name}/sd1", name, SD1, {}, STEPS
        yield f"{name}/sd1_v", name, SD1, {"prediction_type": "v_prediction"}, STEPS
        yield f"{name}/sdxl", name, SDXL, {}, STEPS
        if name not in ("lcm", "tcd"):  # these have their own spacing only
            for spacing in ("linspace", "leading", "trailing"):
                yield f"{name}/{spacing}", name, SDXL, {"timestep_spacing": spacing}, FEW_STEPS
        if name != "pndm":  # the others know zero terminal SNR
            change = {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"}
            yield f"{name}/zero_snr", name, SDXL, change, FEW_STEPS
    for name in ("ddim", "pndm", "lcm"):
        yield f"{name}/alpha_one", name, SD1, {"set_alpha_to_one": True}, FEW_STEPS
    for name in ("euler", "unipc"):
        yield f"{name}/karras", name, SDXL, {"use_karras_sigmas": True}, FEW_STEPS
    for eta in ETAS:
        yield eta, "tcd", SDXL, {}, FEW_STEPS
    yield "ddim/clip_sample", "ddim", SD1, {"clip_sample": True}, FEW_STEPS
    yield "ddim/linear_betas", "ddim", SD1, {"beta_schedule": "linear", "steps_offset": 0}, FEW_STEPS
    yield "euler/linear_betas", "euler", SD1, {"beta_schedule": "linear", "steps_offset": 0}, FEW_STEPS


def build(scheduler, config):
    """As `Class.from_config(pipe.scheduler.config)`: keys that the file lacks get the *new* class's defaults."""
    name, arguments = SCHEDULERS[scheduler]
    return getattr(diffusers, name).from_config(config, **arguments)


class Recorder:
    """Runs a scheduler from a start sample and keeps everything a test needs."""

    def __init__(self, scheduler, tensors, prefix):
        self.scheduler, self.tensors, self.prefix = scheduler, tensors, prefix
        self.eta = next(({"eta": eta} for case, eta in ETAS.items() if prefix.startswith(f"{case}/")), {})

    def run(self, sample, timesteps, rng):
        trajectory = [sample]
        noise_state = torch.Generator("cpu")
        noise_state.set_state(rng.get_state())
        for t in timesteps:
            model_input = self.scheduler.scale_model_input(sample, t)
            arguments = {"generator": rng} if "generator" in self.scheduler.step.__code__.co_varnames else {}
            arguments |= self.eta
            sample = self.scheduler.step(fake_model(model_input, t), t, sample, return_dict=False, **arguments)[0]
            trajectory.append(sample)
        if not all(torch.isfinite(x).all() for x in trajectory):
            raise FloatingPointError(self.prefix)
        self.tensors[f"{self.prefix}/timesteps"] = torch.as_tensor(timesteps)
        self.tensors[f"{self.prefix}/trajectory"] = torch.cat(trajectory)
        self.record_noise(noise_state, rng)

    def record_noise(self, before, after):
        """The step noise drawn from the generator, in order, as many draws as the steps made."""
        draws = []
        while not torch.equal(before.get_state(), after.get_state()):
            draws.append(torch.randn(SHAPE, generator=before))
            assert len(draws) <= 100, "generator states never met"
        if draws:
            self.tensors[f"{self.prefix}/noise"] = torch.cat(draws)


def text_to_image(scheduler, steps, tensors, prefix):
    rng = generator(SEED)
    latents = torch.randn(SHAPE, generator=rng)
    scheduler.set_timesteps(steps)
    sigmas = getattr(scheduler, "sigmas", None)
    if sigmas is not None:
        tensors[f"{prefix}/sigmas"] = sigmas.clone()
    init_noise_sigma = float(scheduler.init_noise_sigma)
    Recorder(scheduler, tensors, prefix).run(latents * scheduler.init_noise_sigma, scheduler.timesteps, rng)
    return {"steps": steps, "prefix": prefix, "init_noise_sigma": init_noise_sigma}


def image_to_image(scheduler, steps, strength, original, tensors, prefix):
    """As StableDiffusionImg2ImgPipeline.get_timesteps and prepare_latents."""
    rng = generator(SEED)
    scheduler.set_timesteps(steps)
    t_start = max(steps - min(int(steps * strength), steps), 0)
    timesteps = scheduler.timesteps[t_start * scheduler.order :]
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(t_start * scheduler.order)
    noised = scheduler.add_noise(original, torch.randn(SHAPE, generator=rng), timesteps[:1])
    tensors[f"{prefix}/add_noise"] = noised
    Recorder(scheduler, tensors, prefix).run(noised, timesteps, rng)
    return {"steps": steps, "strength": strength, "t_start": t_start, "prefix": prefix}


def make():
    original = torch.randn(SHAPE, generator=generator(1)) * 0.8
    tensors = {"initial_noise": torch.randn(SHAPE, generator=generator(SEED)), "original": original}
    cases, skipped = [], []

    for name, scheduler_name, base, changes, step_counts in variants():
        config = base | changes
        case = {"name": name, "scheduler": scheduler_name, "checkpoint_config": config, "runs": [], "img2img": []}
        case["class"] = SCHEDULERS[scheduler_name][0]
        if name in ETAS:
            case["eta"] = ETAS[name]
        tensors[f"{name}/alphas_cumprod_every_37th"] = build(scheduler_name, config).alphas_cumprod[::37]
        for steps in step_counts:
            try:
                prefix = f"{name}/steps{steps}"
                case["runs"].append(text_to_image(build(scheduler_name, config), steps, tensors, prefix))
            except Exception as error:  # diffusers itself cannot do some combinations
                skipped.append({"name": prefix, "why": f"{type(error).__name__}: {error}"})
        if name.endswith(("/sd1", "/sdxl")):
            for steps, strength in STRENGTHS:
                prefix = f"{name}/img2img_steps{steps}_strength{strength}"
                run = image_to_image(build(scheduler_name, config), steps, strength, original, tensors, prefix)
                case["img2img"].append(run)
        cases.append(case)

    info = {
        "model": "out = 0.3 * x_scaled + 0.1 * sin(t / 50)",
        "initial_noise_seed": SEED,
        "shape": SHAPE,
        "cases": cases,
        "not_possible_in_diffusers": skipped,
    }
    for skip in skipped:
        print("  diffusers cannot:", skip["name"], skip["why"][:150])
    write_case("schedulers", tensors, info)
