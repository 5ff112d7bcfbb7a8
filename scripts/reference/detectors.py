"""torchvision's detectors as a `config.json` describes them (models/src/rcnn/config.rs)."""

import torch
from torch import nn
from torchvision.models.detection import FasterRCNN, MaskRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNConvFCHead, FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.rpn import RPNHead
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from torchvision.ops import MultiScaleRoIAlign


class Body(ResNet):
    """torchvision's residual network with any width and number of stages, without a classifier."""

    def __init__(self, block, layers, width, width_per_group, norm):
        nn.Module.__init__(self)
        self._norm_layer = norm
        self.inplanes, self.dilation, self.groups, self.base_width = width, 1, 1, width_per_group
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = norm(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        for i, blocks in enumerate(layers):
            stage = self._make_layer(block, width << i, blocks, stride=1 if i == 0 else 2)
            self.add_module(f"layer{i + 1}", stage)


def body(config):
    block = {"basic": BasicBlock, "bottleneck": Bottleneck}[config["block"]]
    eps = config.get("norm_eps", 1e-5)

    def norm(channels):
        return nn.BatchNorm2d(channels, eps=eps)

    return Body(block, config["layers"], config.get("width", 64), config.get("width_per_group", 64), norm)


def build(config):
    """The detector in evaluation mode, with torchvision's initial weights."""
    backbone, channels = config["backbone"], config.get("fpn_channels", 256)
    network = body(backbone)
    returned = backbone.get("returned_layers", list(range(1, len(backbone["layers"]) + 1)))
    expansion = 4 if backbone["block"] == "bottleneck" else 1
    pyramid = BackboneWithFPN(
        network,
        {f"layer{k}": str(i) for i, k in enumerate(returned)},
        [(backbone.get("width", 64) << (k - 1)) * expansion for k in returned],
        channels,
        norm_layer=nn.BatchNorm2d if config.get("fpn_norm") else None,
    )
    sizes = tuple(map(tuple, config.get("anchor_sizes", [[32], [64], [128], [256], [512]])))
    anchors = AnchorGenerator(sizes, (tuple(config.get("aspect_ratios", [0.5, 1.0, 2.0])),) * len(sizes))
    classes = len(config["classes"])

    def pool(size):
        return MultiScaleRoIAlign(
            [str(i) for i in range(len(returned))],
            size,
            config.get("sampling_ratio", 2),
            canonical_scale=config.get("canonical_scale", 224),
            canonical_level=config.get("canonical_level", 4),
        )

    size = config.get("box_roi_size", 7)
    head = config.get("box_head", {"kind": "mlp", "width": 1024})
    if head["kind"] == "mlp":
        box_head, features = TwoMLPHead(channels * size**2, head["width"]), head["width"]
    else:
        norm = nn.BatchNorm2d if head.get("norm", True) else None
        box_head = FastRCNNConvFCHead((channels, size, size), head["conv"], head["fc"], norm_layer=norm)
        features = head["fc"][-1]
    options = {
        "rpn_anchor_generator": anchors,
        "rpn_head": RPNHead(channels, anchors.num_anchors_per_location()[0], config.get("rpn_conv_depth", 1)),
        "box_roi_pool": pool(size),
        "box_head": box_head,
        "box_predictor": FastRCNNPredictor(features, classes),
        "rpn_pre_nms_top_n_test": config.get("rpn_pre_nms_top_n", 1000),
        "rpn_post_nms_top_n_test": config.get("rpn_post_nms_top_n", 1000),
        "box_detections_per_img": config.get("detections_per_img", 100),
    }
    same = (
        "min_size max_size image_mean image_std rpn_nms_thresh rpn_score_thresh box_score_thresh box_nms_thresh "
        "bbox_reg_weights"
    )
    options |= {name: config[name] for name in same.split() if name in config}
    if config["architecture"] == "faster_rcnn":
        return FasterRCNN(pyramid, **options).eval()
    mask = {"conv": [256] * 4, "norm": False, "predictor": 256, "roi_size": 14} | config.get("mask_head", {})
    norm = nn.BatchNorm2d if mask["norm"] else None
    return MaskRCNN(
        pyramid,
        mask_roi_pool=pool(mask["roi_size"]),
        mask_head=MaskRCNNHeads(channels, mask["conv"], 1, norm_layer=norm),
        mask_predictor=MaskRCNNPredictor(mask["conv"][-1], mask["predictor"], classes),
        **options,
    ).eval()


@torch.no_grad()
def spread(model, pictures, seed, gains):
    """Random weights with which a detector finds something: norms get the statistics of `pictures`, somewhat
    changed, and the predictions spread by `gains` (name of a layer to the standard deviation of its results)."""
    rng = torch.Generator("cpu").manual_seed(seed)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.weight.copy_(1 + 0.2 * torch.randn(norm.weight.shape, generator=rng))
        norm.bias.copy_(0.2 * torch.randn(norm.bias.shape, generator=rng))

    def calibrate(module, inputs):
        x = inputs[0]
        if x.shape[0] == 0:
            return
        dims = [i for i in range(x.ndim) if i != 1]
        module.running_mean.copy_(x.mean(dims))
        module.running_var.copy_(x.var(dims) + 1e-3)

    hooks = [norm.register_forward_pre_hook(calibrate) for norm in norms]
    for name, gain in gains.items():
        layer = model.get_submodule(name)

        def rescale(layer, inputs, output, gain=gain):
            if output.numel() == 0:
                return output
            # Once for every layer: later levels of the pyramid take what the first one set.
            if not hasattr(layer, "spread"):
                layer.spread = True
                std = (output - layer.bias.reshape([1, -1] + [1] * (output.ndim - 2))).std()
                layer.weight.mul_(gain / std)
                layer.bias.copy_(0.3 * gain * torch.randn(layer.bias.shape, generator=rng))
            return layer.forward(inputs[0])

        hooks.append(layer.register_forward_hook(rescale))
    model(pictures)
    for hook in hooks:
        hook.remove()
    for norm in norms:
        norm.running_mean.add_(0.1 * norm.running_var.sqrt() * torch.randn(norm.weight.shape, generator=rng))
        norm.running_var.mul_(torch.exp(0.2 * torch.randn(norm.weight.shape, generator=rng)))
    return model
