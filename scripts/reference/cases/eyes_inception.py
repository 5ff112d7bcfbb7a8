"""`fixtures/eyes/inception/`: pytorch-fid's Inception-v3 with random weights and an eighth of its channels."""

import numpy as np
import torch
import torch.nn.functional as F
from cases.eyes_towers import PICTURES, finish, picture, prepare
from common import case_dir
from safetensors.torch import save_file

# By how much numbers of channels are divided.
THINNER = 8
CLASSES = 12


def thin_network():
    from pytorch_fid import inception as fid
    from torchvision.models import inception as original

    full = original.BasicConv2d

    class Thin(full):
        def __init__(self, in_channels, out_channels, **options):
            inputs = in_channels if in_channels == 3 else in_channels // THINNER
            super().__init__(inputs, out_channels // THINNER, **options)

    original.BasicConv2d = Thin
    try:
        network = original.inception_v3(weights=None, num_classes=CLASSES, aux_logits=False, init_weights=False)
        # As pytorch-fid's `fid_inception_v3` exchanges them.
        network.Mixed_5b = fid.FIDInceptionA(192, pool_features=32)
        network.Mixed_5c = fid.FIDInceptionA(256, pool_features=64)
        network.Mixed_5d = fid.FIDInceptionA(288, pool_features=64)
        network.Mixed_6b = fid.FIDInceptionC(768, channels_7x7=128)
        network.Mixed_6c = fid.FIDInceptionC(768, channels_7x7=160)
        network.Mixed_6d = fid.FIDInceptionC(768, channels_7x7=160)
        network.Mixed_6e = fid.FIDInceptionC(768, channels_7x7=192)
        network.Mixed_7b = fid.FIDInceptionE_1(1280)
        network.Mixed_7c = fid.FIDInceptionE_2(2048)
    finally:
        original.BasicConv2d = full
    network.fc = torch.nn.Linear(2048 // THINNER, CLASSES)
    return network


def randomize_norms(network, seed):
    """Means and variances of batch norms as after a training."""
    rng = torch.Generator("cpu").manual_seed(seed)
    for name, buffer in sorted(network.named_buffers()):
        noise = torch.randn(buffer.shape, generator=rng)
        if name.endswith("running_mean"):
            buffer.copy_((noise * 0.2).half().float())
        elif name.endswith("running_var"):
            buffer.copy_((1.0 + 0.3 * noise.tanh()).half().float())


def resized(pixels):
    """As `InceptionV3.forward` with `resize_input` and `normalize_input`."""
    x = torch.tensor(pixels).permute(2, 0, 1)[None].float() / 255
    return 2 * F.interpolate(x, size=(299, 299), mode="bilinear", align_corners=False) - 1


@torch.no_grad()
def make():
    path = case_dir("eyes/inception")
    network = prepare(thin_network(), 31)
    randomize_norms(network, 32)
    network.eval()
    # Activations keep their size through the many layers.
    for name, parameter in network.named_parameters():
        if name.endswith("conv.weight"):
            parameter.copy_((parameter * 1.5).half().float())
    pictures = torch.cat([resized(picture(*PICTURES[i])) for i in (1, 2)])
    tensors = {}
    blocks = ["Conv2d_4a_3x3", "Mixed_5b", "Mixed_5d", "Mixed_6a", "Mixed_6b", "Mixed_6e", "Mixed_7a", "Mixed_7b", "Mixed_7c"]
    hooks = []
    for name in blocks:

        def keep(module, inputs, output, name=name):
            # Every 7th pixel of every 3rd channel is enough to find a mistake.
            tensors[f"block/{name}"] = output[:, ::3, ::7, ::7]

        hooks.append(getattr(network, name).register_forward_hook(keep))
    # From 0 to 1, which torchvision's own normalisation would change: it is off.
    network.transform_input = False
    seen = {}
    hooks.append(network.avgpool.register_forward_hook(lambda m, i, o: seen.update(features=o.flatten(1))))
    network(pictures)
    for hook in hooks:
        hook.remove()
    tensors["features"] = seen["features"]
    tensors["logits"] = seen["features"] @ network.fc.weight.T
    for i in (1, 2, 3):
        tensors[f"prepared/{i}"] = resized(picture(*PICTURES[i])).flatten()[::307]
    state = {name: value.clone() for name, value in network.state_dict().items()}
    torch.save({name: value.half() if value.is_floating_point() else value for name, value in state.items()}, path / "inception.pth")
    short = {name: value.half() for name, value in state.items() if value.is_floating_point()}
    save_file(short, path / "model.safetensors")
    finish(path, tensors, {"classes": CLASSES, "thinner": THINNER, "blocks": blocks, "pictures": np.array(PICTURES).tolist()})
