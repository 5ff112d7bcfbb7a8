"""OpenAI's CLIP vocabulary, whole or cut down to its first merges, in the file layout of the hub."""

import gzip
import importlib.metadata
import importlib.util
import json

# 256 bytes, 256 bytes that end a word, the merges, start and end of text.
FULL_MERGES = 49152 - 256 - 2


def open_clip_file(name):
    return importlib.metadata.distribution("open_clip_torch").locate_file(f"open_clip/{name}")


def open_clip_tokenizer_module():
    """open_clip's copy of OpenAI's tokenizer, without importing the package and its heavy dependencies."""
    spec = importlib.util.spec_from_file_location("open_clip_tokenizer", open_clip_file("tokenizer.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def merges(count=FULL_MERGES):
    with gzip.open(open_clip_file("bpe_simple_vocab_16e6.txt.gz"), "rt", encoding="utf-8") as file:
        return file.read().split("\n")[1 : count + 1]


def vocabulary(count=FULL_MERGES):
    """Token → id in the order that OpenAI's tokenizer numbers them."""
    symbols = list(open_clip_tokenizer_module().bytes_to_unicode().values())
    tokens = symbols + [s + "</w>" for s in symbols] + ["".join(m.split()) for m in merges(count)]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    return {token: i for i, token in enumerate(tokens)}


def write_tokenizer(path, count, pad_token="<|endoftext|>"):
    """The four files of a `tokenizer/` folder as the SD1.5 and SDXL repositories have them."""
    path.mkdir(parents=True, exist_ok=True)

    def write(name, value):
        (path / name).write_text(json.dumps(value, ensure_ascii=False) + "\n", encoding="utf-8")

    def special(content):
        return {"content": content, "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}

    write("vocab.json", vocabulary(count))
    (path / "merges.txt").write_text("\n".join(["#version: 0.2"] + merges(count)) + "\n", encoding="utf-8")
    start, end = special("<|startoftext|>"), special("<|endoftext|>")
    specials = {"bos_token": start, "eos_token": end, "unk_token": end, "pad_token": pad_token}
    write("special_tokens_map.json", specials)
    options = {
        "add_prefix_space": False,
        "do_lower_case": True,
        "errors": "replace",
        "model_max_length": 77,
        "pad_token": pad_token,
        "tokenizer_class": "CLIPTokenizer",
    }
    write("tokenizer_config.json", options)
