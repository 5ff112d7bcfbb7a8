#!/usr/bin/env python3
"""A vision-language model of random weights (0.7 MB), served by llama.cpp's own server, for trying `prepose judge` offline.

    python scripts/judge/tiny_vlm.py FOLDER PORT KEY [GRAMMAR]

The grammar, in GBNF, binds every answer. Answers mean nothing, but depend on the picture, and are the same each time; protocol,
decoding of pictures and limits are the real ones. Needs numpy, gguf and xllamacpp (`pip install --group scripts/pyproject.toml:llm`).
"""

import signal
import sys
from pathlib import Path

import gguf
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "llm"))
import tiny_model

EYE_WIDTH, EYE_HIDDEN, EYE_HEADS, IMAGE, PATCH = 32, 64, 2, 56, 14


def eye(path, normal):
    """A vision tower and a projector in the shape of LLaVA 1.5."""
    writer = gguf.GGUFWriter(str(path), "clip")
    writer.add_name("tiny-random-mmproj")
    writer.add_type("mmproj")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", False)
    sizes = {
        "image_size": IMAGE,
        "patch_size": PATCH,
        "embedding_length": EYE_WIDTH,
        "feed_forward_length": EYE_HIDDEN,
        "block_count": 1,
        "projection_dim": tiny_model.WIDTH,
        "attention.head_count": EYE_HEADS,
    }
    for name, size in sizes.items():
        writer.add_uint32(f"clip.vision.{name}", size)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    writer.add_array("clip.vision.image_mean", [0.48145466, 0.4578275, 0.40821073])
    writer.add_array("clip.vision.image_std", [0.26862954, 0.26130258, 0.27577711])
    writer.add_tensor("v.class_embd", normal(EYE_WIDTH))
    writer.add_tensor("v.patch_embd.weight", normal(EYE_WIDTH, 3, PATCH, PATCH))
    writer.add_tensor("v.position_embd.weight", normal((IMAGE // PATCH) ** 2 + 1, EYE_WIDTH))
    for norm in ("v.pre_ln", "v.blk.0.ln1", "v.blk.0.ln2"):
        writer.add_tensor(f"{norm}.weight", np.ones(EYE_WIDTH, np.float32))
        writer.add_tensor(f"{norm}.bias", np.zeros(EYE_WIDTH, np.float32))
    layers = [(f"v.blk.0.attn_{part}", EYE_WIDTH, EYE_WIDTH) for part in ("q", "k", "v", "out")]
    layers += [("v.blk.0.ffn_up", EYE_HIDDEN, EYE_WIDTH), ("v.blk.0.ffn_down", EYE_WIDTH, EYE_HIDDEN)]
    layers += [("mm.0", tiny_model.WIDTH, EYE_WIDTH), ("mm.2", tiny_model.WIDTH, tiny_model.WIDTH)]
    for name, outputs, inputs in layers:
        writer.add_tensor(f"{name}.weight", normal(outputs, inputs, scale=0.3))
        writer.add_tensor(f"{name}.bias", np.zeros(outputs, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve(folder, port, key, grammar=None):
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(folder / "lm.gguf")
    settings.mmproj.path = str(folder / "mmproj.gguf")
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.offline = True
    settings.n_ctx = tiny_model.CONTEXT
    settings.n_parallel = 2
    settings.warmup = False
    settings.cpuparams.n_threads = 1
    settings.cpuparams_batch.n_threads = 1
    settings.mmproj_use_gpu = False
    settings.use_jinja = True
    settings.api_keys = [key]
    if grammar:
        kind = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
        settings.sampling.grammar = xllamacpp.CommonGrammar(kind, grammar)
    server = xllamacpp.Server(settings)
    print("listening", server.listening_address, flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


def main():
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)

    def normal(*shape, scale=0.08):
        return (random.standard_normal(shape) * scale).astype(np.float32)

    tiny_model.write(folder / "lm.gguf")
    eye(folder / "mmproj.gguf", normal)
    serve(folder, port, *sys.argv[3:])


if __name__ == "__main__":
    main()
