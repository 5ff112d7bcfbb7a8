"""`fixtures/eyes/image-reward/`: a tiny random ImageReward in its authors' layout, and what their own code says of pictures.

Their package (image-reward 1.5) was written for old versions of transformers and timm; what has moved since is put where it looks for
it. Its networks are used as they are: the picture encoder, the text encoder that looks at it, and the last layers."""

import functools
import sys
import types

import numpy as np
import torch
from common import case_dir, randomize, round_to_f16, write_json
from PIL import Image
from safetensors.torch import save_file
from transformers import BertConfig, BertTokenizer

from .eyes_grounding import vocabulary
from .eyes_towers import picture

SIDE, CHANNELS, TEXT = 32, 128, 128
PROMPTS = ["a dog to the left of a cat", "dog", " ".join(["a cup above a bus and"] * 9)]
# Width, height: square, wide and tall, with an odd rest beside the middle square.
PICTURES = [(32, 32), (71, 40), (37, 90)]


def module(name, **members):
    """A module that holds these, in place of one that is gone."""
    found = sys.modules[name] if name in sys.modules else types.ModuleType(name)
    for member, value in members.items():
        if not hasattr(found, member):
            setattr(found, member, value)
    sys.modules[name] = found


@functools.cache
def original():
    """The package's modules on today's libraries."""
    import timm.layers
    import transformers.modeling_utils
    import transformers.pytorch_utils
    import transformers.utils

    def unused(*_):
        raise NotImplementedError

    module("fairscale")
    module("fairscale.nn")
    module("fairscale.nn.checkpoint")
    module("fairscale.nn.checkpoint.checkpoint_activations", checkpoint_wrapper=unused)
    module("timm.models.registry", register_model=unused)
    module("timm.models.layers", trunc_normal_=timm.layers.trunc_normal_, DropPath=timm.layers.DropPath)
    module("timm.models.helpers", named_apply=unused, adapt_input_conv=unused)
    module("timm.models.hub", download_cached_file=unused)
    module("timm.models.vision_transformer", _cfg=unused)
    module("transformers.file_utils", ModelOutput=transformers.utils.ModelOutput)
    module(
        "transformers.modeling_utils",
        apply_chunking_to_forward=transformers.pytorch_utils.apply_chunking_to_forward,
        find_pruneable_heads_and_indices=unused,
        prune_linear_layer=unused,
    )
    # The package's own first lines import its clients of the network, which are not wanted here.
    import importlib.util

    root = importlib.util.find_spec("ImageReward").submodule_search_locations[0]
    for name in ("ImageReward", "ImageReward.models", "ImageReward.models.BLIP"):
        package = types.ModuleType(name)
        package.__path__ = [root + name.removeprefix("ImageReward").replace(".", "/")]
        sys.modules[name] = package
    from ImageReward.ImageReward import MLP, ImageReward, _transform
    from ImageReward.models.BLIP.med import BertModel
    from ImageReward.models.BLIP.vit import VisionTransformer

    # Every model of transformers had these when the package was written.
    BertModel.all_tied_weights_keys = {}
    BertModel.init_weights = lambda self: None
    BertModel.get_head_mask = lambda self, mask, layers: [None] * layers
    BertModel.invert_attention_mask = lambda self, mask: (1.0 - mask[:, None, None, :].to(self.dtype)) * torch.finfo(self.dtype).min
    return ImageReward, MLP, BertModel, VisionTransformer, _transform


def build(text, **sizes):
    """Their network with a text encoder of that configuration and a picture encoder of these sizes, and how it prepares pictures."""
    network_class, mlp, bert, vision, transform = original()
    config = BertConfig(add_cross_attention=True, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **text)
    config.encoder_width = sizes["embed_dim"]
    config.is_decoder = False
    network = network_class.__new__(network_class)
    torch.nn.Module.__init__(network)
    network.device = "cpu"
    network.blip = torch.nn.Module()
    network.blip.visual_encoder = vision(**sizes)
    network.blip.text_encoder = bert(config=config, add_pooling_layer=False)
    network.blip.vision_proj = torch.nn.Linear(sizes["embed_dim"], 8)
    network.blip.text_proj = torch.nn.Linear(config.hidden_size, 8)
    network.mlp = mlp(config.hidden_size)
    network.mean, network.std = 0.16717362830052426, 1.0333394966054072
    return network.eval(), transform(sizes["img_size"])


def make():
    path = case_dir("eyes/image-reward")
    words = vocabulary()
    (path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer(vocab=str(path / "vocab.txt"), do_lower_case=True)
    # As their code adds two tokens that no prompt has.
    text = {
        "vocab_size": len(words) + 2,
        "hidden_size": TEXT,
        "num_hidden_layers": 2,
        "num_attention_heads": TEXT // 64,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    network, preprocess = build(text, img_size=SIDE, patch_size=8, embed_dim=CHANNELS, depth=2, num_heads=CHANNELS // 64, mlp_ratio=0.5)
    network = round_to_f16(randomize(network, 71)).eval()
    network.preprocess, network.blip.tokenizer = preprocess, tokenizer
    state = {name: value.half() if value.is_floating_point() else value for name, value in network.state_dict().items()}
    torch.save(state, path / "ImageReward.pt")

    tensors, tokens = {}, []
    pictures = [Image.fromarray(picture(*size)) for size in PICTURES]
    with torch.no_grad():
        prepared = torch.stack([network.preprocess(one) for one in pictures])
        tensors["prepared"] = prepared
        tensors["states"] = network.blip.visual_encoder(prepared)
        rewards = [[network.score(prompt, one) for prompt in PROMPTS] for one in pictures]
    for prompt in PROMPTS:
        given = tokenizer(prompt, padding="max_length", truncation=True, max_length=35)
        tokens.append([token for token, seen in zip(given["input_ids"], given["attention_mask"]) if seen])
    tensors["rewards"] = torch.tensor(rewards, dtype=torch.float64).float()
    assert np.ptp(np.array(rewards)) > 0.01, rewards
    save_file({name: value.float().contiguous() for name, value in tensors.items()}, path / "expected.safetensors")
    write_json(path / "case.json", {"prompts": PROMPTS, "tokens": tokens, "pictures": PICTURES})
    print(f"  image-reward: {sum(f.stat().st_size for f in path.iterdir()) / 1024:.0f} KiB, rewards {rewards}")
