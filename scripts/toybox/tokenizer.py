"""CLIP's own byte-pair encoding, cut down to the words of the captions.

All 256 bytes stay, inside a word and at its end, so any text still tokenizes; of the 48,894 merges
only those stay that a caption word uses. A kept word gets the same pieces as with CLIP's full list:
merges are applied by rank, and dropping merges that a word never uses doesn't change its path.
"""

import json
from pathlib import Path

import world
import itertools

BOS, EOS = "<|startoftext|>", "<|endoftext|>"
MAX_LENGTH = 77
# The merges that CLIP uses, by rank; see the NOTICE beside the file.
CLIP_MERGES = Path(__file__).parents[2] / "weights" / "vocab" / "clip-merges.txt"


def caption_words():
    """Every word that a caption may hold, and the plurals of the objects."""
    words = "a an photo of and two things to the left right above below . ,".split()
    for name in [*world.NAMES, *world.HYPERNYMS]:
        words += name.split() + (name + "s").split()
    words += "next beside on under top side by with picture image one thing".split()
    return sorted(set(words))


def byte_symbols():
    """The printable character that stands for each byte, in the order of CLIP's vocabulary."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]


def pieces(word, ranks, used=None):
    """The byte-pair encoding of one (ASCII) word; adds the merges that it needed to `used`."""
    parts = [*word[:-1], word[-1] + "</w>"]
    while len(parts) > 1:
        pair = min(itertools.pairwise(parts), key=lambda p: ranks.get(p, len(ranks)))
        if pair not in ranks:
            break
        if used is not None:
            used.add(pair)
        merged, i = [], 0
        while i < len(parts):
            if tuple(parts[i:i + 2]) == pair:
                merged.append("".join(pair))
                i += 2
            else:
                merged.append(parts[i])
                i += 1
        parts = merged
    return parts


def write_tokenizer(folder):
    """Writes the files of a transformers `CLIPTokenizer`."""
    lines = CLIP_MERGES.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 48894
    ranks = {tuple(line.split()): i for i, line in enumerate(lines)}
    used = set()
    for word in caption_words():
        pieces(word, ranks, used)
    merges = sorted(used, key=ranks.get)
    symbols = byte_symbols()
    tokens = [*symbols, *(s + "</w>" for s in symbols), *("".join(m) for m in merges), BOS, EOS]
    assert len(tokens) == len(set(tokens))

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def write_json(name, value):
        text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
        (folder / name).write_text(text, encoding="utf-8")

    write_json("vocab.json", {token: i for i, token in enumerate(tokens)})
    (folder / "merges.txt").write_text(
        "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges), encoding="utf-8")
    special = lambda text: dict(content=text, lstrip=False, normalized=True, rstrip=False,
                                single_word=False)
    write_json("special_tokens_map.json", dict(
        bos_token=special(BOS), eos_token=special(EOS), pad_token=EOS, unk_token=special(EOS)))
    write_json("tokenizer_config.json", dict(
        add_prefix_space=False, bos_token=special(BOS) | {"__type": "AddedToken"},
        do_lower_case=True, eos_token=special(EOS) | {"__type": "AddedToken"}, errors="replace",
        model_max_length=MAX_LENGTH, pad_token=EOS, tokenizer_class="CLIPTokenizer",
        unk_token=special(EOS) | {"__type": "AddedToken"}))
    return len(tokens)


def load_tokenizer(folder):
    from transformers import CLIPTokenizer

    return CLIPTokenizer.from_pretrained(folder)
