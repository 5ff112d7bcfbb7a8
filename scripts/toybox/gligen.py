"""The toybox's layers of GLIGEN's, before and after `prepose train gligen`.

    python scripts/toybox/gligen.py begin start.safetensors
    python scripts/toybox/gligen.py take TRAINING DATA

`begin` writes layers to begin with. The authors begin with closed gates before random projections, and take hundreds of thousands of steps;
here the gates are open before projections of zeros, which change as little and learn at once. Among 256 tokens of the picture and 30 of
objects, of which all but one or two are empty, attention would give those that count one part in a hundred, and nothing is learned from so
little; so the first keys and queries have a direction in common that tells an object's token from the others. `take` copies the
layers of the last training to weights/toybox/gligen and writes the record of each, which went on from the one before, onto the card there.
"""

import json
import sys
from pathlib import Path

import trained
import world

TARGET = Path(__file__).resolve().parents[2] / "weights/toybox/gligen"
POINTED = 4.0


def tokens_of_objects(net):
    """What the position network makes of every name in a box somewhere: `[objects, width]`."""
    import torch
    from transformers import CLIPTextModel, CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(TARGET.parent / "tokenizer")
    encoder = CLIPTextModel.from_pretrained(TARGET.parent / "text_encoder").float()
    phrases = [f"a {name}" for name in world.NAMES] * 6
    ids = tokenizer(phrases, padding="max_length", truncation=True, return_tensors="pt").input_ids
    corner, size = 0.6 * torch.rand(len(phrases), 2), 0.2 + 0.2 * torch.rand(len(phrases), 2)
    boxes = torch.cat([corner, corner + size], dim=1)[None]
    found = encoder(ids).pooler_output[None]
    return net(boxes=boxes, positive_embeddings=found, masks=torch.ones(1, len(phrases)))[0]


def point_at_objects(fuser, objects):
    """Makes the first attention of `fuser` go to `objects`, `[objects, width]`: exp(POINTED) times as much as to other tokens."""
    import torch

    # Objects are where the layer's norm leaves them: the direction of their mean is theirs alone.
    tokens = torch.nn.functional.layer_norm(fuser.linear(objects), [fuser.linear.out_features])
    own = tokens.mean(0) / tokens.mean(0).norm()
    width, heads = len(own), fuser.attn.heads
    # Another, at right angles, is in every token: the queries take it.
    every = torch.randn(width)
    every -= every.mean() + own * (own @ every)
    every *= 0.5 * width**0.5 / every.norm()
    fuser.norm1.bias.copy_(every)
    shared = torch.nn.functional.normalize(torch.randn(heads, width // heads), dim=1).reshape(-1, 1)
    strength = POINTED * (width / heads) ** 0.5 / (tokens @ own).mean()
    fuser.attn.to_q.weight += strength**0.5 * shared * every / (every @ every)
    fuser.attn.to_k.weight += strength**0.5 * shared * own


def begin(path):
    """First values, of which the outputs are zero."""
    import torch
    from diffusers import UNet2DConditionModel
    from safetensors.torch import save_file

    torch.manual_seed(0)
    config = json.loads((TARGET.parent / "unet/config.json").read_text()) | {"attention_type": "gated"}
    unet = UNet2DConditionModel.from_config(config)
    with torch.no_grad():
        for layer in unet.position_net.linears:
            if hasattr(layer, "weight"):
                # He's, so that what goes in does not drown in the biases.
                layer.weight.normal_(std=1.2 * (2 / layer.in_features) ** 0.5)
                layer.bias.zero_()
        objects = tokens_of_objects(unet.position_net)
        layers = {name: value for name, value in unet.state_dict().items() if name.startswith("position_net.")}
        for name, fuser in unet.named_modules():
            if name.endswith(".fuser"):
                # Empty tokens are zeros.
                fuser.linear.bias.zero_()
                point_at_objects(fuser, objects)
                fuser.alpha_attn.fill_(1)
                fuser.alpha_dense.fill_(1)
                for last in (fuser.attn.to_out[0], fuser.ff.net[2]):
                    last.weight.zero_()
                    last.bias.zero_()
                layers |= {f"{name}.{part}": value for part, value in fuser.state_dict().items()}
    save_file({name: value.contiguous() for name, value in layers.items()}, path)


def take(training, data):
    begin = f"gligen {data} --gligen start.safetensors"
    trained.take("gligen", "gligen.safetensors", Path(training), begin, f"gligen {data} --gligen {{}}")


def main():
    match sys.argv[1:]:
        case ["begin", path]:
            begin(path)
        case ["take", training, data]:
            take(training, data)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
