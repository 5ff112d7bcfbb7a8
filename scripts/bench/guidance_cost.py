#!/usr/bin/env python3
"""What a guided step costs over a plain one: prepose against the reference procedure in PyTorch, on the CPU.

    cargo build --release -p prepose-models --example guidance_cost
    guidance_cost.py --bench target/release/examples/guidance_cost --sd15 /scratch/sd15 --json benches/results/FILE

A plain step is one UNet call for both halves of classifier-free guidance. The reference procedure is that of
Attend-and-Excite and its descendants: the whole UNet once more on the conditional half, with attention that forms and
keeps every map of up to 32² pixels, the mean of the cross-attention maps of one size over layers and heads, a loss on
two tokens' maps (squared probability of the wrong order), and `torch.autograd.grad` to the latents. Its plain step is
diffusers' own, with fused attention.

Each program measures its extra time as a share of its own plain step, and by how much its process grows over its
weights; the programs take turns and the fastest run of each counts. On a machine that does other work meanwhile,
`--clock cpu` counts the seconds that the processor worked for it instead of those that passed. `--sd15` is a checkpoint
that full_size.py made.
Exit code 1 if a limit is exceeded.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from programs import TOYBOX, processor, run

TOKENS = 77
# Ours over theirs, at most: extra share of a step with the reference's layers, with the cheapest, and extra memory.
LIMITS = {"reference": 0.75, "cheapest": 0.45, "memory": 0.35}


class Peak:
    """By how many bytes this process grew since this was made, at most."""

    def __init__(self):
        Path("/proc/self/clear_refs").write_text("5")
        self.before = self.field("VmRSS")

    @staticmethod
    def field(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))

    def bytes(self):
        return self.field("VmHWM") - self.before


class KeepMaps:
    """Plain attention that keeps its probabilities."""

    def __init__(self, kept):
        self.kept = kept

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None):
        import torch

        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        projections = (attn.to_q(hidden_states), attn.to_k(context), attn.to_v(context))
        q, k, v = (attn.head_to_batch_dim(x) for x in projections)
        probabilities = attn.get_attention_scores(q, k)
        if probabilities.shape[1] <= 32**2:
            self.kept.append((encoder_hidden_states is not None, probabilities))
        return attn.to_out[0](attn.batch_to_head_dim(torch.bmm(probabilities, v)))


def worker(folder, variant, size, side, repeat):
    import torch
    from diffusers import UNet2DConditionModel

    size, side, repeat = int(size), int(side), int(repeat)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    unet = UNet2DConditionModel.from_pretrained(folder, torch_dtype=torch.float32)
    rows = 2 if variant == "plain" else 1
    generator = torch.Generator().manual_seed(0)
    sample = torch.randn(rows, unet.config.in_channels, size, size, generator=generator)
    context = torch.randn(rows, TOKENS, unet.config.cross_attention_dim, generator=generator)
    kept = []
    if variant != "plain":
        unet.set_attn_processor(KeepMaps(kept))

    def plain():
        with torch.no_grad():
            return unet(sample, 500, context).sample

    def guided():
        kept.clear()
        latents = sample.clone().requires_grad_(True)
        unet(latents, 500, context)
        maps = [maps.reshape(-1, side, side, TOKENS) for cross, maps in kept if cross and maps.shape[1] == side**2]
        mean = torch.cat(maps).sum(0) / sum(map(len, maps))
        one, two = (mean[:, :, token].sum(0) for token in (2, 5))
        wrong = (one / one.sum() * (two / two.sum()).cumsum(0)).sum()
        return torch.autograd.grad(wrong**2, [latents], retain_graph=True)[0]

    step = plain if variant == "plain" else guided
    peak, seconds, cpu = Peak(), [], []
    for _ in range(repeat + 1):
        start, used = time.perf_counter(), time.process_time()
        result = step()
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
        assert result.isfinite().all()
    print(json.dumps({"variant": variant, "seconds": seconds[1:], "cpu": cpu[1:], "peak": peak.bytes()}))


def measure(args, name, folder, size, side, repeat):
    size, side = str(size), str(side)

    def ours(variant):
        command = [str(args.bench), str(folder), "--variant", variant, "--size", size, "--maps", side]
        command += ["--repeat", str(repeat)]
        return run(command, args.threads)[0]

    def theirs(variant):
        return run([sys.executable, __file__, "worker", str(folder), variant, size, side, str(repeat)], args.threads)[0]

    cases = [(ours, "prepose", variant) for variant in ("plain", "reference", "cheapest")]
    cases += [(theirs, "diffusers", variant) for variant in ("plain", "reference")]
    seconds = {"prepose": {}, "diffusers": {}}
    peak = {"prepose": {}, "diffusers": {}}
    for _ in range(args.rounds):
        for program, who, variant in cases:
            report = program(variant)
            # The processor's clock is too coarse for single steps of a small network.
            cpu = report["cpu"]
            fastest = min(report["seconds"]) if args.clock == "wall" else sum(cpu) / len(cpu)
            seconds[who][variant] = round(min(seconds[who].get(variant, fastest), fastest), 4)
            peak[who][variant] = max(peak[who].get(variant, 0), report["peak"])

    def share(who, variant):
        return seconds[who][variant] / seconds[who]["plain"]

    def extra(who):
        return max(peak[who]["reference"] - peak[who]["plain"], 0)

    theirs_share = share("diffusers", "reference")
    ratios = {variant: share("prepose", variant) / theirs_share for variant in ("reference", "cheapest")}
    ratios["memory"] = extra("prepose") / extra("diffusers")
    ratios = {what: round(ratio, 3) for what, ratio in ratios.items()}
    for who, variant in [case[1:] for case in cases]:
        grown = peak[who][variant] / 2**20
        line = f"{name}: {who} {variant}: {seconds[who][variant]:.3f} s, grows by {grown:.0f} MiB"
        print(line + ("" if variant == "plain" else f", {share(who, variant):+.0%} of a step"))
    for what, ratio in ratios.items():
        verdict = "within" if ratio <= LIMITS[what] else "ABOVE"
        print(f"{name}: {what}: {ratio:.2f} of the reference procedure, {verdict} {LIMITS[what]}", flush=True)
    return {"seconds": seconds, "peak": peak, "ratios": ratios}


def main():
    if sys.argv[1:2] == ["worker"]:
        return worker(*sys.argv[2:])

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, required=True, help="the built example guidance_cost of prepose-models")
    parser.add_argument("--toybox", type=Path, default=TOYBOX)
    parser.add_argument("--sd15", type=Path, help="a full-size checkpoint; without it the toybox alone is measured")
    parser.add_argument("--size", type=int, default=512, help="of the full-size pictures")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1, help="full-size steps in each run, after one not counted")
    parser.add_argument("--json", type=Path, help="write the result here")
    args = parser.parse_args()

    import diffusers
    import torch

    result = {"threads": args.threads, "cpu": processor(), "torch": torch.__version__}
    result["diffusers"], result["limits"], result["clock"] = diffusers.__version__, LIMITS, args.clock
    results = {}
    # The reference's 16×16 maps, and those at the same place of the network as they are in SD1.5.
    for side in (16, 8):
        name = f"toybox, {side}×{side} maps"
        results[name] = measure(args, name, args.toybox / "unet", 16, side, 30)
    if args.sd15:
        name = f"SD1.5 at {args.size}², {args.size // 32}×{args.size // 32} maps"
        results[name] = measure(args, name, args.sd15 / "unet", args.size // 8, args.size // 32, args.repeat)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result | results, indent=1, ensure_ascii=False) + "\n")
    return any(ratio > LIMITS[what] for case in results.values() for what, ratio in case["ratios"].items())


if __name__ == "__main__":
    sys.exit(main())
