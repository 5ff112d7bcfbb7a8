"""`fixtures/eyes/owl-vit/`: a tiny random OWL-ViT of transformers, from its blocks to labelled boxes."""

import shutil

import torch
import transformers
from cases.eyes_grounding import pictures, pil
from cases.eyes_towers import finish, prepare, random_pictures
from common import FIXTURES, case_dir, write_tensors, write_json

QUERIES = ["a cat", "two dogs and a teddy", "fire"]
# As VISOR asks.
PHRASES = ["cat", "red bench"]


def make_model(tokenizer):
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    # What is pooled is the token with the highest number.
    assert eos == len(tokenizer) - 1
    text = {"vocab_size": len(tokenizer), "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 4, "max_position_embeddings": 32, "bos_token_id": bos, "eos_token_id": eos}
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    vision |= {"image_size": 64, "patch_size": 16}
    config = transformers.OwlViTConfig(text_config=text, vision_config=vision, projection_dim=24)
    return prepare(transformers.OwlViTForObjectDetection(config), 41)


def tokens(tokenizer, texts, length):
    ids = []
    for text in texts:
        own = tokenizer(text).input_ids
        # transformers' processor pads with 0.
        ids.append(own + [0] * (length - len(own)))
    return torch.tensor(ids)


@torch.no_grad()
def make():
    path = case_dir("eyes/owl-vit")
    folder = path / "model"
    tokenizer = transformers.CLIPTokenizer.from_pretrained(FIXTURES / "sd1-tiny/tokenizer")
    model = make_model(tokenizer)
    model.half().save_pretrained(folder)
    # Read again: the bias of the boxes is in no file, and in 16 bits it would be another one.
    model = transformers.OwlViTForObjectDetection.from_pretrained(folder, dtype=torch.float32).eval()
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(FIXTURES / "sd1-tiny/tokenizer" / name, folder / name)
    shape = model.config.vision_config.image_size
    pixels = random_pictures((2, 3, shape, shape), 42)
    ids = tokens(tokenizer, QUERIES, 32)
    mask = (ids != 0).long()
    # The same questions of both pictures.
    out = model(
        input_ids=ids.repeat(2, 1), pixel_values=pixels, attention_mask=mask.repeat(2, 1), output_hidden_states=True, return_dict=True
    )
    tensors = {"pictures": pixels, "tokens": ids, "logits": out.logits, "boxes": out.pred_boxes}
    tensors["text"] = out.text_embeds.reshape(2, len(QUERIES), -1)[0]
    for i, hidden in enumerate(model.owlvit.vision_model(pixels, output_hidden_states=True).hidden_states):
        tensors[f"vision/hidden{i}"] = hidden
    ends = [int(row.argmax()) for row in ids]
    finish(path, tensors, {"ends": ends, "queries": QUERIES})

    owl = transformers.models.owlvit
    processor = owl.image_processing_pil_owlvit.OwlViTImageProcessorPil(size={"height": shape, "width": shape})
    texts = [f"a photo of a {phrase}" for phrase in PHRASES]
    ids = tokens(tokenizer, texts, 32)
    runs, found = [], {}
    for i, image in enumerate(pictures(3)):
        inputs = processor(pil(image), return_tensors="pt")
        out = model(input_ids=ids, attention_mask=(ids != 0).long(), **inputs)
        scores = out.logits.max(-1).values.sigmoid().flatten().sort(descending=True).values
        # So that some patches are above it, and none is near it.
        place = len(scores) // 2
        threshold = float((scores[place] + scores[place - 1]) / 2)
        results = processor.post_process_object_detection(out, threshold=threshold, target_sizes=[tuple(image.shape[1:])])[0]
        found[f"run{i}/scores"] = results["scores"]
        found[f"run{i}/boxes"] = results["boxes"]
        found[f"run{i}/pixels"] = inputs.pixel_values.flatten()[::53]
        runs.append({"threshold": threshold, "labels": [PHRASES[label] for label in results["labels"]]})
    write_tensors(path / "found.safetensors", found)
    case = {"ends": ends, "queries": QUERIES, "phrases": PHRASES, "runs": runs}
    write_json(path / "case.json", case)
