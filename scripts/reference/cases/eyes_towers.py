"""`fixtures/eyes/{clip,clip-vision,dinov2,depth,sam}/`: tiny random networks of the ViT family in the published layouts."""

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from common import FIXTURES, case_dir, generator, randomize, round_to_f16, write_json
from safetensors.torch import load_file, save_file

# What the tests make in Rust by the same formula: width, height.
PICTURES = [(64, 64), (53, 37), (30, 91), (17, 5)]
RESIZES = [(0, 31, 31), (1, 60, 40), (1, 20, 53), (2, 12, 12), (3, 40, 9)]


def picture(width, height):
    """An RGB picture with edges and smooth parts, uint8 `[height, width, 3]`."""
    y, x, c = np.mgrid[:height, :width, :3]
    return ((x * x // 3 + y * 11 + c * 70 + (x // 7 + y // 5) % 2 * 90) % 256).astype(np.uint8)


def save(model, path):
    """The network as its hub has it, in f16, with weights that f16 holds exactly; the keys in the file."""
    model.half().save_pretrained(path)
    model.float()
    for extra in path.glob("generation_config.json"):
        extra.unlink()
    return load_file(path / "model.safetensors")


def finish(path, tensors, info):
    # Inputs are exact in f16.
    given = ("pictures", "tokens", "bytes")
    kind = {name: torch.float16 if name.split("/")[-1] in given else torch.float32 for name in tensors}
    tensors = {name: value.detach().to(kind[name]).contiguous() for name, value in sorted(tensors.items())}
    save_file(tensors, path / "expected.safetensors")
    write_json(path / "case.json", info)
    print(f"  {path.name}: {sum(f.stat().st_size for f in path.iterdir()) / 1024:.0f} KiB")


def prepare(model, seed):
    return round_to_f16(randomize(model, seed))


def random_pictures(shape, seed):
    """Noise on a coarse grid, of order one."""
    noise = torch.randn([*shape[:2], shape[2] // 4 + 1, shape[3] // 4 + 1], generator=generator(seed))
    return F.interpolate(noise, shape[2:], mode="bilinear").half().float()


def fused(state, prefixes, names, into, kinds=("weight", "bias")):
    """Query, key and value as one tensor."""
    for prefix in prefixes:
        for kind in kinds:
            parts = [state.pop(f"{prefix}{name}.{kind}") for name in names]
            state[f"{prefix}{into}.{kind}" if "in_proj" not in into else f"{prefix}{into}_{kind}"] = torch.cat(parts)


def renamed(state, table):
    out = {}
    for name, value in state.items():
        for old, new in table:
            name = name.replace(old, new)
        out[name] = value
    return out


def clip_processor():
    return transformers.models.clip.image_processing_pil_clip.CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )


def sam_processor(side):
    return transformers.models.sam.image_processing_pil_sam.SamImageProcessorPil(
        size={"longest_edge": side}, pad_size={"height": side, "width": side}
    )


def depth_processor():
    return transformers.models.dpt.image_processing_pil_dpt.DPTImageProcessorPil(
        size={"height": 518, "width": 518}, keep_aspect_ratio=True, ensure_multiple_of=14,
        image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225],
    )  # fmt: skip


def make_resize(path):
    """Pillow's resampling, and the preprocessing of each network."""
    tensors = {}
    for index, width, height in RESIZES:
        image = transformers.image_utils.PIL.Image.fromarray(picture(*PICTURES[index]))
        for name, filter in (("bilinear", 2), ("bicubic", 3)):
            out = np.array(image.resize((width, height), filter))
            tensors[f"resize/{name}/{index}/{width}x{height}/bytes"] = torch.tensor(out)
    clip, sam = clip_processor(), sam_processor(48)
    for index, size in enumerate(PICTURES):
        tensors[f"clip/{index}"] = clip(picture(*size), return_tensors="pt").pixel_values
        if index == 2:
            tensors[f"sam/{index}"] = sam(picture(*size), return_tensors="pt").pixel_values
    dpt = transformers.models.dpt.image_processing_pil_dpt
    target = dpt.get_resize_output_image_size
    sizes = [(512, 512), (480, 640), (300, 600), (600, 300), (1024, 1024), (37, 53), (1000, 90), (518, 518), (500, 517)]
    sizes += [(720, 1280), (2000, 100), (511, 519), (7, 3)]
    depth = {}
    for height, width in sizes:
        out = target(np.zeros((3, height, width)), (518, 518), keep_aspect_ratio=True, multiple=14)
        depth[f"{height}x{width}"] = [int(out.height), int(out.width)]
    pixels = depth_processor()(picture(53, 37), return_tensors="pt").pixel_values
    tensors["depth/1/every_211th"] = pixels.flatten()[::211]
    shape = list(pixels.shape)
    finish(path, tensors, {"pictures": PICTURES, "depth_sizes": depth, "depth_shape": shape})


def clip_hidden(out, prefix, tensors):
    for i, hidden in enumerate(out.hidden_states):
        tensors[f"{prefix}/hidden{i}"] = hidden


def make_clip(path):
    tokenizer = transformers.CLIPTokenizer.from_pretrained(FIXTURES / "sd1-tiny/tokenizer")
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    text = {"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 2, "max_position_embeddings": 20, "eos_token_id": eos, "bos_token_id": bos}
    vision = {"hidden_size": 40, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    vision |= {"image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    model = prepare(transformers.CLIPModel(config), 1)
    state = save(model, path)
    pictures = random_pictures((2, 3, 32, 32), 2)
    tokens = torch.tensor([[bos, 3, 55, eos, eos, eos], [bos, 8, 41, 7, 60, eos]])
    out = model(tokens, pictures, output_hidden_states=True)
    tensors = {"pictures": pictures, "tokens": tokens, "text": out.text_embeds, "picture": out.image_embeds}
    tensors |= {"logits": out.logits_per_image, "pooled": model.vision_model(pictures).pooler_output}
    clip_hidden(model.vision_model(pictures, output_hidden_states=True), "vision", tensors)
    # From bytes and words to cosines, the last text cut.
    texts = ["a cat to the left of a dog", "", "two red birds and a bench, " * 9]
    options = {"padding": "max_length", "max_length": 20, "truncation": True, "return_tensors": "pt"}
    ids = tokenizer(texts, **options).input_ids
    pixels = torch.cat([clip_processor()(picture(*PICTURES[i]), return_tensors="pt").pixel_values for i in (1, 2, 3)])
    out = model(ids, pixels)
    tensors["cosines"] = (out.image_embeds * out.text_embeds).sum(-1)
    # OpenCLIP's and OpenAI's own names, as `open_clip_pytorch_model.bin` has them.
    original = renamed(
        {k: v for k, v in state.items() if "position_ids" not in k},
        [("vision_model.encoder.layers.", "visual.transformer.resblocks."), ("text_model.encoder.layers.", "transformer.resblocks.")]
        + [("layer_norm1", "ln_1"), ("layer_norm2", "ln_2"), ("mlp.fc1", "mlp.c_fc"), ("mlp.fc2", "mlp.c_proj")]
        + [("vision_model.pre_layrnorm", "visual.ln_pre"), ("vision_model.post_layernorm", "visual.ln_post")]
        + [("vision_model.embeddings.patch_embedding", "visual.conv1"), ("text_model.final_layer_norm", "ln_final")]
        + [("vision_model.embeddings.class_embedding", "visual.class_embedding")]
        + [("vision_model.embeddings.position_embedding.weight", "visual.positional_embedding")]
        + [("text_model.embeddings.position_embedding.weight", "positional_embedding")]
        + [("text_model.embeddings.token_embedding", "token_embedding"), ("self_attn.", "attn.")],
    )
    blocks = {name.split("q_proj")[0] for name in original if "q_proj" in name}
    fused(original, sorted(blocks), ("q_proj", "k_proj", "v_proj"), "in_proj")
    original["visual.proj"] = original.pop("visual_projection.weight").T.contiguous()
    original["text_projection"] = original.pop("text_projection.weight").T.contiguous()
    torch.save({name: value.clone() for name, value in original.items()}, path / "open_clip_pytorch_model.bin")
    finish(path, tensors, {"eos": [3, 5], "texts": texts})


def make_clip_vision(path):
    config = transformers.CLIPVisionConfig(
        hidden_size=30, intermediate_size=44, num_hidden_layers=2, num_attention_heads=3, image_size=28, patch_size=14,
        projection_dim=20, hidden_act="gelu",
    )  # fmt: skip
    model = prepare(transformers.CLIPVisionModelWithProjection(config), 3)
    save(model, path)
    pictures = random_pictures((2, 3, 28, 28), 4)
    out = model(pictures, output_hidden_states=True)
    tensors = {"pictures": pictures, "embedding": out.image_embeds}
    clip_hidden(out, "vision", tensors)
    finish(path, tensors, {})


DINOV2 = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "image_size": 56, "patch_size": 14, "mlp_ratio": 2}


def original_dinov2(state, prefix=""):
    """The authors' names."""
    table = [("embeddings.patch_embeddings.projection", "patch_embed.proj"), ("embeddings.position_embeddings", "pos_embed")]
    table += [("embeddings.", ""), ("encoder.layer.", "blocks."), ("attention.output.dense", "attn.proj")]
    table += [("attention.attention.", "attn."), ("layer_scale1.lambda1", "ls1.gamma"), ("layer_scale2.lambda1", "ls2.gamma")]
    table += [("layernorm.", "norm.")]
    out = {f"{prefix}{name}": value for name, value in renamed(state, table).items()}
    blocks = {name.split("query")[0] for name in out if "query" in name}
    fused(out, sorted(blocks), ("query", "key", "value"), "qkv")
    return out


def make_dinov2(path):
    model = prepare(transformers.Dinov2Model(transformers.Dinov2Config(**DINOV2)), 5)
    state = save(model, path)
    tensors = {}
    for name, shape in (("square", (1, 3, 56, 56)), ("wide", (1, 3, 72, 89))):
        pictures = random_pictures(shape, 6)
        out = model(pictures, output_hidden_states=True)
        tensors |= {f"{name}/pictures": pictures, f"{name}/features": out.pooler_output}
        for i, hidden in enumerate(out.hidden_states[1:]):
            tensors[f"{name}/hidden{i + 1}"] = hidden
    # The authors' interpolation, with their offset.
    table = model.embeddings.position_embeddings[:, 1:].reshape(1, 4, 4, 16).permute(0, 3, 1, 2)
    model.embeddings.interpolate_pos_encoding = lambda embeddings, height, width: torch.cat(
        [
            model.embeddings.position_embeddings[:, :1],
            F.interpolate(
                table, scale_factor=((height // 14 + 0.1) / 4, (width // 14 + 0.1) / 4), mode="bicubic"
            ).permute(0, 2, 3, 1).reshape(1, -1, 16),
        ],
        1,
    )  # fmt: skip
    tensors["wide/features_offset"] = model(tensors["wide/pictures"]).pooler_output
    torch.save(original_dinov2(state), path / "dinov2_original.pth")
    finish(path, tensors, {})


def make_depth(path):
    backbone = transformers.Dinov2Config(**DINOV2, out_indices=[1, 2, 3, 4], reshape_hidden_states=False)
    config = transformers.DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=16, neck_hidden_sizes=[6, 8, 12, 16], fusion_hidden_size=12, head_hidden_size=6
    )
    model = prepare(transformers.DepthAnythingForDepthEstimation(config), 7)
    # So that depths are above zero in most places.
    model.head.conv3.bias.data.fill_(1.0)
    state = save(model, path)
    tensors = {}
    for name, shape in (("square", (1, 3, 56, 56)), ("wide", (2, 3, 70, 84))):
        pictures = random_pictures(shape, 8)
        depth = model(pictures).predicted_depth
        assert (depth > 0).float().mean() > 0.5
        tensors |= {f"{name}/pictures": pictures, f"{name}/depth": depth}
        if name == "wide":
            for i, tap in enumerate(model.backbone(pictures).feature_maps):
                tensors[f"wide/tap{i}"] = tap
            tensors["wide/restored"] = F.interpolate(depth[:, None], (61, 47), mode="bicubic", align_corners=False)[:, 0]
    # From bytes to depths.
    processor = depth_processor()
    out = model(**processor(picture(*PICTURES[1]), return_tensors="pt"))
    tensors["picture/1"] = processor.post_process_depth_estimation(out, [(37, 53)])[0]["predicted_depth"]
    metric = transformers.DepthAnythingForDepthEstimation(config).eval()
    metric.load_state_dict(model.state_dict())
    metric.head.activation2, metric.head.max_depth = torch.nn.Sigmoid(), 20
    tensors["square/metric"] = metric(tensors["square/pictures"]).predicted_depth
    backbone = {k.removeprefix("backbone."): v for k, v in state.items() if k.startswith("backbone.")}
    original = original_dinov2(backbone, "pretrained.")
    table = [("neck.reassemble_stage.layers.", "depth_head.X."), ("neck.convs.", "depth_head.scratch.layer_rn.")]
    table += [("neck.fusion_stage.layers.", "depth_head.scratch.refinenet"), ("residual_layer1", "resConfUnit1")]
    table += [("residual_layer2", "resConfUnit2"), ("convolution1", "conv1"), ("convolution2", "conv2")]
    table += [("head.conv1", "depth_head.scratch.output_conv1"), ("head.conv2", "depth_head.scratch.output_conv2.0")]
    table += [("head.conv3", "depth_head.scratch.output_conv2.2")]
    for name, value in state.items():
        if name.startswith("backbone."):
            continue
        for old, new in table:
            name = name.replace(old, new)
        parts = name.split(".")
        if parts[1] == "X":
            kind = {"projection": "projects", "resize": "resize_layers"}[parts[3]]
            name = ".".join(["depth_head", kind, parts[2], *parts[4:]])
        elif parts[2] == "layer_rn":
            name = ".".join(["depth_head.scratch", f"layer{int(parts[3]) + 1}_rn", *parts[4:]])
        elif parts[2] == "refinenet0" or parts[2].startswith("refinenet"):
            i = int(parts[2].removeprefix("refinenet"))
            rest = parts[3:] if parts[3] != "projection" else ["out_conv", *parts[4:]]
            name = ".".join(["depth_head.scratch", f"refinenet{4 - i}", *rest])
        original[name] = value
    torch.save({name: value.clone() for name, value in original.items()}, path / "depth_original.pth")
    finish(path, tensors, {})


def make_sam(path):
    vision = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "global_attn_indexes": [1], "image_size": 64}
    vision |= {"patch_size": 8, "window_size": 3, "output_channels": 16, "num_pos_feats": 8, "mlp_dim": 40}
    prompt = {"hidden_size": 16, "image_size": 64, "patch_size": 8, "mask_input_channels": 8}
    decoder = {"hidden_size": 16, "mlp_dim": 24, "num_attention_heads": 2, "iou_head_hidden_dim": 12}
    config = transformers.SamConfig(vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder)
    model = prepare(transformers.SamModel(config), 9)
    state = save(model, path)
    pictures = random_pictures((2, 3, 64, 64), 10)
    seen = []
    hooks = [layer.register_forward_hook(lambda m, i, o: seen.append(o)) for layer in model.vision_encoder.layers]
    embedding = model.get_image_embeddings(pictures)
    for hook in hooks:
        hook.remove()
    tensors = {"pictures": pictures, "embedding": embedding.flatten(2).transpose(1, 2)}
    for i, hidden in enumerate(seen):
        tensors[f"layer{i}"] = hidden.flatten(1, 2)
    boxes = [[5.0, 10.0, 45.0, 55.0], [0.0, 0.0, 63.5, 32.25], [25.0, 25.0, 27.0, 29.0]]
    points, labels = [[15.0, 20.0], [49.0, 3.5]], [1, 0]
    prompts = {
        "boxes": {"input_boxes": torch.tensor([boxes])},
        "points": {"input_points": torch.tensor([[points]]), "input_labels": torch.tensor([[labels]])},
        "both": {
            "input_points": torch.tensor([[points]]),
            "input_labels": torch.tensor([[labels]]),
            "input_boxes": torch.tensor([[boxes[0]]]),
        },
    }
    for name, given in prompts.items():
        for multimask in (False, True):
            out = model(image_embeddings=embedding[1:], **given, multimask_output=multimask)
            kind = "several" if multimask else "one"
            tensors |= {f"{name}/{kind}/masks": out.pred_masks[0], f"{name}/{kind}/quality": out.iou_scores[0]}
    # As the processor restores masks: to the size that was looked at, the padding cut off, to the size before.
    masks = tensors["boxes/several/masks"][:1]
    large = F.interpolate(masks, (64, 64), mode="bilinear", align_corners=False)[..., :51, :64]
    tensors["restored"] = F.interpolate(large, (39, 50), mode="bilinear", align_corners=False)
    # From bytes and boxes to masks.
    processor, own = sam_processor(64), [[3.0, 4.0, 30.0, 33.0], [10.0, 0.0, 52.0, 20.0]]
    inputs = processor(picture(*PICTURES[1]), return_tensors="pt")
    sizes, reshaped = inputs.pop("original_sizes"), inputs.pop("reshaped_input_sizes")
    scale = torch.tensor([reshaped[0][1] / 53, reshaped[0][0] / 37] * 2)
    out = model(**inputs, input_boxes=(torch.tensor([own]) * scale).float(), multimask_output=True)
    masks = processor.post_process_masks(out.pred_masks, sizes, reshaped, binarize=False)[0]
    tensors |= {"picture/1/masks": masks, "picture/1/quality": out.iou_scores[0]}
    table = [("vision_encoder.", "image_encoder."), ("patch_embed.projection", "patch_embed.proj")]
    table += [("image_encoder.layers.", "image_encoder.blocks."), ("neck.conv1", "neck.0"), ("neck.layer_norm1", "neck.1")]
    table += [("neck.conv2", "neck.2"), ("neck.layer_norm2", "neck.3"), ("mask_embed.conv1", "mask_downscaling.0")]
    table += [("mask_embed.layer_norm1", "mask_downscaling.1"), ("mask_embed.conv2", "mask_downscaling.3")]
    table += [("mask_embed.layer_norm2", "mask_downscaling.4"), ("mask_embed.conv3", "mask_downscaling.6")]
    table += [("prompt_encoder.point_embed.", "prompt_encoder.point_embeddings."), ("upscale_conv1", "output_upscaling.0")]
    table += [("upscale_layer_norm", "output_upscaling.1"), ("upscale_conv2", "output_upscaling.3")]
    table += [("layer_norm_final_attn", "norm_final_attn"), ("layer_norm", "norm")]
    table += [("shared_image_embedding.positional_embedding", "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix")]
    original = {}
    for name, value in renamed({k: v for k, v in state.items() if "shared_embedding" not in k}, table).items():
        if "hypernetworks" in name or "iou_prediction" in name:
            name = name.replace(".layers.0", ".layers.1").replace("proj_in", "layers.0").replace("proj_out", "layers.2")
        original[name] = value
    torch.save({name: value.clone() for name, value in original.items()}, path / "sam_original.pth")
    finish(path, tensors, {"boxes": boxes, "points": points, "labels": labels, "own": own})


@torch.no_grad()
def make():
    for name, make_one in (
        ("towers", make_resize),
        ("clip", make_clip),
        ("clip-vision", make_clip_vision),
        ("dinov2", make_dinov2),
        ("depth", make_depth),
        ("sam", make_sam),
    ):
        make_one(case_dir(f"eyes/{name}"))
