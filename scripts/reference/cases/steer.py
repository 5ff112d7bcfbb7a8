"""`fixtures/steer/`: a classifier of relations (Learn-to-Steer) in PyTorch: scores, loss, and the gradient by maps.

The extractor's layers are PyTorch's own `TransformerEncoderLayer`, its pooling `MultiheadAttention`, maps are resized by
`interpolate`; the gradient is autograd's, in f64. Maps of three sizes, in the layout of one layer's probabilities.
"""

import math

import torch
from common import generator, write_case
from torch import nn
from torch.nn import functional as F

SIZE = {"width": 16, "layers": 2, "heads": 2, "hidden": 12, "head_layers": 2}
TIMESTEPS, CLASSES, STEP = [881.0, 481.0, 1.0], 5, 16
# Heads and rows × columns of each layer.
LAYERS = [(2, (16, 16)), (1, (8, 6)), (2, (20, 24))]


def positions(count, width):
    place = torch.arange(count, dtype=torch.float64)[:, None]
    angle = place * torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000.0) / width))
    table = torch.zeros(count, width, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    return table


class Head(nn.Module):
    """A transformer layer on one token: its attention is a linear map."""

    def __init__(self, width, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.linear1, self.linear2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        return x + self.linear2(F.relu(self.linear1(self.norm2(x))))


class Classifier(nn.Module):
    def __init__(self, width, layers, heads, hidden, head_layers):
        super().__init__()
        self.width = width
        self.input = nn.Linear(256, width)
        self.steps = nn.Embedding(len(TIMESTEPS), width)
        layer = lambda: nn.TransformerEncoderLayer(width, heads, hidden, 0.0, "relu", batch_first=True, norm_first=True)
        self.layers = nn.ModuleList(layer() for _ in range(layers))
        self.query = nn.Parameter(torch.zeros(1, 1, width))
        self.pool = nn.MultiheadAttention(width, heads, batch_first=True)
        self.output = nn.Linear(width, 256)
        self.head_input = nn.Linear(512, width)
        self.head_layers = nn.ModuleList(Head(width, hidden) for _ in range(head_layers))
        self.head_steps = nn.Embedding(len(TIMESTEPS), STEP)
        self.fc = nn.ModuleList([nn.Linear(width + STEP, width), nn.Linear(width, width // 2), nn.Linear(width // 2, CLASSES)])
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width // 2)])

    def extract(self, maps, steps):
        x = self.input(maps) + positions(maps.shape[1], self.width)
        for layer in self.layers:
            x = layer(x + self.steps(steps)[:, None])
        return self.output(self.pool(self.query.expand(len(maps), -1, -1), x, x, need_weights=False)[0][:, 0])

    def forward(self, maps, steps):
        both = torch.cat([self.extract(maps[:, 0], steps), self.extract(maps[:, 1], steps)], 1)
        x = self.head_input(both) + positions(1, self.width)
        for layer in self.head_layers:
            x = layer(x)
        x = torch.cat([x, self.head_steps(steps)], 1)
        for fc, norm in zip(self.fc, self.norms):
            x = F.leaky_relu(norm(fc(x)), 0.1)
        return self.fc[2](x)


def name_of(key):
    """Ours for PyTorch's."""
    head = {"head_input": "head.input", "head_layers": "head.layers", "head_steps.weight": "head.steps"}
    for begin, ours in head.items():
        if key.startswith(begin):
            return key.replace(begin, ours, 1)
    if key.startswith("fc"):
        return "head." + key
    if key.startswith("norms"):
        _, number, what = key.split(".")
        return f"head.fc.{number}.norm.{what}"
    for theirs, ours in [("self_attn.in_proj_", "attention.input."), ("self_attn.out_proj.", "attention.output."),
                         ("pool.in_proj_", "pool.input."), ("pool.out_proj.", "pool.output."), ("steps.weight", "steps")]:
        key = key.replace(theirs, ours)
    return "extractor." + key


def normalised(maps, size):
    """`[B, heads, cells, words]` to `[B, words, heads, 256]`."""
    batch, heads, _, words = maps.shape
    images = maps.permute(0, 3, 1, 2).reshape(batch * words, heads, *size)
    if size != (16, 16):
        images = F.interpolate(images, (16, 16), mode="bilinear", align_corners=False, antialias=False)
    images = images.reshape(batch, words, heads, 256)
    return images / ((images.sum(3, keepdim=True) + 1e-8) / 256)


def make():
    rng = generator(2509)
    net = Classifier(**SIZE).double().eval()
    with torch.no_grad():
        for _, parameter in sorted(net.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=rng) * (0.3 if parameter.dim() > 1 else 0.5))
    parameters = {name: p.detach().float().double() for name, p in net.named_parameters()}
    net.load_state_dict(parameters)
    tensors = {f"net/{name_of(name)}": p.reshape(-1) if name == "query" else p for name, p in parameters.items()}
    maps = [torch.rand(2, heads, size[0] * size[1], 3, generator=rng) for heads, size in LAYERS]
    steps, wanted, pairs = torch.tensor([0, 2, 2]), torch.tensor([1, 3, 0]), [(0, 0, 1), (1, 2, 0), (1, 1, 2)]
    leaves = [one.double().requires_grad_() for one in maps]
    every = torch.cat([normalised(leaf, size) for leaf, (_, size) in zip(leaves, LAYERS)], 2)
    scores = net(torch.stack([every[b][[i, j]] for b, i, j in pairs]), steps)
    losses = F.cross_entropy(scores, wanted, reduction="none")
    losses.sum().backward()
    tensors |= {"scores": scores, "losses": losses}
    for number, (one, leaf) in enumerate(zip(maps, leaves)):
        tensors |= {f"maps/{number}": one, f"gradient/{number}": leaf.grad}
    write_case("steer", tensors, {"size": SIZE, "steps": steps.tolist(), "wanted": wanted.tolist(), "pairs": pairs,
                                  "layers": [list(size) for _, size in LAYERS], "classes": CLASSES, "timesteps": TIMESTEPS})
