#!/usr/bin/env python3
"""What GLIGEN's layers and IP-Adapters add to a UNet call of SD1.5 at full size, here and in diffusers, on the same random weights:

    adapters.py --example target/release/examples/adapters --checkpoint SD15 --scratch /scratch --json benches/results/adapters.json
    adapters.py --page docs/guidance/gligen.md docs/guidance/ip-adapter.md --json benches/results/adapters.json

SD15 is a folder as diffusers has it (`prepose bench weights sd15 --out SD15`). A call has both halves of classifier-free guidance at
512². GLIGEN has four objects, an adapter one picture, already encoded. Both engines compute in f32 on as many threads, in processes of
their own that take turns, and each makes the calls in turns; the fastest of each counts. Exit code 1 if results differ by more than 1e-3
of their largest value.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

LIMIT = 1e-3
START, END = "<!-- measured -->", "<!-- /measured -->"
TIMESTEP, OBJECTS = 601, 4
ADAPTERS = ("plain", "plus")
LABELS = {"gligen": "GLIGEN", "plain": "IP-Adapter", "plus": "IP-Adapter plus"}


def networks(checkpoint, folder=None):
    """The checkpoint's UNet, and one with GLIGEN's layers: those of the folder, or random ones. diffusers puts adapters into the first
    alone: it would count the second's layers among those that attend to texts."""
    import diffusers
    from common import generator, randomize
    from safetensors.torch import load_file

    base = diffusers.UNet2DConditionModel.from_pretrained(Path(checkpoint) / "unet").float()
    # Private keys say what was left out of the file, and would bring the default back.
    config = {key: value for key, value in base.config.items() if not key.startswith("_")}
    unet = diffusers.UNet2DConditionModel.from_config(config | {"attention_type": "gated"})
    if folder:
        unet.load_state_dict(load_file(folder / "gligen.safetensors"), strict=False)
    else:
        import torch

        randomize(unet, 85)
        gates = generator(86)
        for name, parameter in sorted(unet.named_parameters()):
            if name.endswith(("alpha_attn", "alpha_dense")):
                parameter.data.copy_(torch.rand([], generator=gates) - 0.5)
    unet.load_state_dict(base.state_dict(), strict=False)
    return [network.eval().requires_grad_(False) for network in (base, unet)]


def adapters(unet):
    """Random adapters of the published sizes, as their authors' dictionaries."""
    from cases import ip_adapter

    ip_adapter.VISION = dict(ip_adapter.VISION) | {"projection_dim": 1024, "hidden_size": 1280}
    ip_adapter.PLUS = {"latents": 16, "width": 768, "depth": 4, "heads": 12}
    return {kind: ip_adapter.adapter(kind, unet, seed) for kind, seed in (("plain", 311), ("plus", 321))}


def encoder(folder):
    """What adapters are not opened without; with one layer, as pictures are encoded already."""
    import transformers

    sizes = {"hidden_size": 1280, "projection_dim": 1024, "num_attention_heads": 16, "patch_size": 14}
    config = transformers.CLIPVisionConfig(**sizes, intermediate_size=64, num_hidden_layers=1)
    transformers.CLIPVisionModelWithProjection(config).save_pretrained(folder)


def prepare(checkpoint, folder):
    """Writes the layers, what goes in and what comes out."""
    import torch
    from common import generator
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    base, gated = networks(checkpoint)
    layers = {key: value for key, value in gated.state_dict().items() if ".fuser." in key or key.startswith("position_net.")}
    save_file(layers, folder / "gligen.safetensors")
    for kind, states in adapters(base).items():
        flat = {f"{part}.{key}": value for part, values in states.items() for key, value in values.items()}
        save_file(flat, folder / f"{kind}.safetensors")
    encoder(folder / "image_encoder")
    rng = generator(2)
    mask = torch.tensor([[float(place < count) for place in range(30)] for count in (OBJECTS, 0)])
    corners = torch.rand([2, 30, 4], generator=rng)
    boxes = torch.cat([corners[..., :2] * 0.5, 0.5 + corners[..., 2:] * 0.5], -1)
    given = {
        "sample": torch.randn([2, 4, 64, 64], generator=rng),
        "context": torch.randn([2, 77, 768], generator=rng),
        "positive_embeddings": torch.randn([2, 30, 768], generator=rng) * mask[..., None],
        "boxes": boxes * mask[..., None],
        "masks": mask,
        "plain": torch.randn([2, 1, 1024], generator=rng),
        "plus": torch.randn([2, 257, 1280], generator=rng),
    }
    save_file(given, folder / "input.safetensors")
    _, results = calls(base, gated, folder, given, 1)
    save_file({name: value.contiguous() for name, value in results.items()}, folder / "expected.safetensors")


def calls(unet, gated, folder, given, repeats):
    """The seconds and the result of each kind of call."""
    import torch
    from diffusers.models.attention_processor import IPAdapterAttnProcessor2_0
    from safetensors.torch import load_file

    def states(kind):
        both = {"image_proj": {}, "ip_adapter": {}}
        for key, value in load_file(folder / f"{kind}.safetensors").items():
            part, _, name = key.partition(".")
            both[part][name] = value
        return both

    plain = dict(unet.attn_processors)
    shown = {}
    for kind in ADAPTERS:
        unet._load_ip_adapter_weights([states(kind)], low_cpu_mem_usage=False)
        # One picture of each sample, and for the adapter that takes states all of them.
        features = given[kind][:, None] if kind == "plus" else given[kind]
        tokens = [tensor.detach() for tensor in unet.encoder_hid_proj([features])]
        # The projection's own attention is among them.
        processors = {name: processor for name, processor in unet.attn_processors.items() if name in plain}
        assert any(isinstance(processor, IPAdapterAttnProcessor2_0) for processor in processors.values())
        shown[kind] = processors, tokens
        unet.encoder_hid_proj, unet.config.encoder_hid_dim_type = None, None
        unet.set_attn_processor(dict(plain))

    def call(what):
        network, context, more = unet, given["context"], None
        unet.set_attn_processor(dict(plain))
        if what == "gligen":
            objects = {key: given[key] for key in ("boxes", "positive_embeddings", "masks")}
            network, more = gated, {"gligen": objects}
        elif what in shown:
            processors, tokens = shown[what]
            unet.set_attn_processor(dict(processors))
            # As the network hands them on after its own projection, which is made once here as in prepose.
            context = (context, tokens)
        start = time.perf_counter()
        with torch.no_grad():
            result = network(given["sample"], TIMESTEP, context, cross_attention_kwargs=more).sample
        return time.perf_counter() - start, result

    seconds, results = {}, {}
    for _ in range(repeats):
        for what in ("nothing", "gligen", *ADAPTERS):
            took, results[what] = call(what)
            seconds.setdefault(what, []).append(took)
    return seconds, results


def alone(checkpoint, folder, args):
    """diffusers' side, as a process of its own."""
    import resource

    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(args.threads)
    seconds, _ = calls(*networks(checkpoint, folder), folder, load_file(folder / "input.safetensors"), args.repeats)
    rows = [{"what": what, "seconds": took} for what, took in seconds.items()]
    print(json.dumps({"rows": rows, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def measure(args):
    folder = Path(args.scratch)
    own = [sys.executable, __file__, "--scratch", args.scratch, "--checkpoint", args.checkpoint]
    own += ["--threads", str(args.threads), "--repeats", str(args.repeats)]
    if not (folder / "expected.safetensors").exists():
        subprocess.run([*own, "--do", "prepare"], check=True)
    environment = os.environ | {"RAYON_NUM_THREADS": str(args.threads)}
    sides = {"diffusers": [*own, "--do", "diffusers"], "prepose": [args.example, args.scratch, args.checkpoint, str(args.repeats)]}
    record = {"threads": args.threads, "rows": {}}
    for _ in range(args.rounds):
        for side, command in sides.items():
            done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
            for said in json.loads(done.stdout.splitlines()[-1])["rows"]:
                row = record["rows"].setdefault(said["what"], {"diffusers": [], "prepose": []})
                row[side] += [round(value, 3) for value in said["seconds"]]
                if "deviation" in said:
                    row["deviation"] = float(f"{said['deviation']:.1e}")
    print(json.dumps(record), flush=True)
    return record


def put_into(page, record):
    """The table of what the page is about, between its markers."""
    rows = record["rows"]
    plain = {side: min(rows["nothing"][side]) for side in ("prepose", "diffusers")}
    lines = ["| | s | diffusers, s | ratio | of a call without | diffusers' | deviation |", "| --- |" + " ---: |" * 6]
    kinds = [kind for kind in LABELS if (kind == "gligen") == (page.stem == "gligen")]
    for kind in ("nothing", *kinds):
        ours, theirs = (min(rows[kind][side]) for side in ("prepose", "diffusers"))
        cells = [LABELS.get(kind, "nothing"), f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}"]
        added = [f"{100 * (time / plain[side] - 1):+.1f} %" for side, time in (("prepose", ours), ("diffusers", theirs))]
        lines.append("| " + " | ".join([*cells, *added, f"{rows[kind]['deviation']:.1e}"]) + " |")
    # A first call may take twice as long.
    calls = [sorted(row[side][1:]) for row in rows.values() for side in ("prepose", "diffusers")]
    near, far = (100 * (max(seconds[i] / seconds[0] for seconds in calls) - 1) for i in (1, -1))
    spread = f"After the first, calls of one kind differ by up to {far:.0f} %, the two fastest by up to {near:.1f} %"
    lines += ["", f"{spread}; what is less says nothing."]
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(START)
    page.write_text(f"{before}{START}\n" + "\n".join(lines) + f"\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--example", help="weights/examples/adapters.rs, built")
    parser.add_argument("--checkpoint", help="a folder of SD1.5")
    parser.add_argument("--scratch", help="a folder for weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="the record")
    parser.add_argument("--page", type=Path, nargs="*", default=[], help="pages with markers for the table")
    parser.add_argument("--do", choices=["prepare", "diffusers"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.do:
        from common import silence

        silence()
        folder = Path(args.scratch)
        prepare(args.checkpoint, folder) if args.do == "prepare" else alone(args.checkpoint, folder, args)
        return
    if args.example:
        record = measure(args)
        if args.json:
            args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    else:
        record = json.loads(args.json.read_text(encoding="utf-8"))
    for page in args.page:
        put_into(page, record)
    if any(row["deviation"] > LIMIT for row in record["rows"].values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
