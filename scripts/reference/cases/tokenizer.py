"""`fixtures/tokenizer/`: token ids of thousands of strings by OpenAI's tokenizer, and where transformers differs."""

import gzip
import html
import json
import random
import unicodedata

import ftfy
import regex
from common import case_dir, write_json
from transformers import CLIPTokenizer
from vocabulary import merges, open_clip_tokenizer_module, vocabulary

OBJECTS = """airplane,apple,backpack,banana,bear,bed,bench,bicycle,bird,boat,book,bottle,bowl,bus,cake,car,cat,chair,
clock,cow,cup,dog,donut,elephant,giraffe,horse,kite,motorcycle,orange,oven,pizza,sheep,suitcase,teddy bear,train,
traffic light,stop sign,fire hydrant,hot dog""".replace("\n", "").split(",")
RELATIONS = ["on the left of", "to the right of", "above", "below", "on top of", "under", "next to", "in front of"]
ADDITIONS = ["", ", digital art", ", 8k, highly detailed", " on a plain background", ", by Greg Rutkowski", " -- 4k!!"]

SPECIAL = [
    "",
    " ",
    "\t\n  \r\n",
    "a",
    "!",
    "...",
    "A  photo\tof\na   CAT",
    "it's they're I'd we'll I've don't O'Brien's 'tis rock'n'roll IT'S",
    "'s 't 're 've 'm 'll 'd",
    "don’t “quote” ‘single’ «guillemets» —dash– …ellipsis",
    "1234567890 3.14159 1,000,000 2nd 50% $5.99 №7 1/2 ½ ² ³ Ⅷ ⅻ ① ٣٤٥ ४५",
    "<|startoftext|>",
    "<|endoftext|>",
    "a cat <|endoftext|> a dog <|STARTOFTEXT|>x",
    "<start_of_text> <end_of_text> <pad> <unk> [CLS]",
    "!!! ??? ,,, ;;; ::: ### *** --- ___ +++ === ~~~ ^^^ &&& ||| \\\\\\ ///",
    "(cat:1.3), [dog], {bird|fish}, ((masterpiece)), <lora:detail:0.8>, --ar 16:9 --v 5",
    "snake_case camelCase kebab-case path/to/file.txt C:\\dir user@example.com https://example.com/?q=a&b=c#d",
    "&amp; &lt;b&gt; &quot;x&quot; &#39;y&#39; &#x41; &eacute; &nbsp; &copy; &notanentity; &amp;amp; &amp;lt; AT&T R&D",
    "café CAFÉ cafe\u0301 naïve Ünïcödé Ångström œuvre Straße STRASSE ﬁne ﬂow ﬃ ŉ",
    "İstanbul ıspanak ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ ẞ K (kelvin) Å (angstrom) Ω ohm",
    "猫と犬 一只猫在狗的左边 고양이와 개 кошка слева от собаки γάτα חתול קטן قطة على يسار الكلب แมวกับหมา बिल्ली और कुत्ता",
    "Ｆｕｌｌ ｗｉｄｔｈ １２３ ｶﾞｷﾞｸﾞ 　ideographic space",
    "😀 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 1️⃣ ☀️ ☀ ♥ ♥️ 🐱🐶 a🐱b",
    "𝓗𝓮𝓵𝓵𝓸 𝕎𝕠𝕣𝕝𝕕 𝟙𝟚𝟛 ℌ 𝔸𝔹ℂ ⓐⓑⓒ 🄰🄱 ʰᵉˡˡᵒ",
    "z̷͈̊ä̶́l̸g̵o t͟e͟x͟t͟ e\u0301\u0302 ﷺ \u202eright to left\u202c",
    "a\u00a0b\u2003c\u200bd\u200de\u2060f\ufeffg\u3000h\u0085i\u2028j\u2029k\u00adl",
    "\x00\x01\x07\x08\x0b\x0c\x1b[31mred\x1b[0m\x1c\x1d\x1e\x1f\x7f\x80\x9f end",
    "cafÃ© naÃ¯ve â€œquotedâ€\x9d itâ€™s Ã¼ber Ð¿Ñ€Ð¸Ð²ÐµÑ‚ ä½ å¥½ ðŸ˜€",
    "doesnâ€™t matter Â£5 Â© 2024 â‚¬3",
    "\ufffd \uffff \ue000 private \U000f0000 \U0010ffff",
    "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "x" * 300,
    "ab" * 150 + " " + "ba" * 150,
    "cat " * 5000,
]


def templated(rng, count):
    for _ in range(count):
        a, b = rng.sample(OBJECTS, 2)
        article = rng.choice(["a", "A", "one", "the", "two", "a small red"])
        relation = rng.choice(RELATIONS)
        yield f"{article} {a} {relation} {article.lower()} {b}{rng.choice(ADDITIONS)}"


def from_vocabulary(rng, count):
    """Words glued from vocabulary entries: merges compete in ways in which ordinary text rarely makes them."""
    entries = [e for e in vocabulary() if not e.startswith("<|")]
    decode = {c: b for b, c in open_clip_tokenizer_module().bytes_to_unicode().items()}
    for _ in range(count):
        words = []
        for _ in range(rng.randint(1, 6)):
            symbols = "".join(rng.choice(entries).removesuffix("</w>") for _ in range(rng.randint(1, 3)))
            words.append(bytes(decode[c] for c in symbols).decode("utf-8", errors="ignore"))
        yield " ".join(words)


def ascii_noise(rng, count):
    alphabet = "abcdefghij XYZ 0123456789 '\"!?.,;:-_()[]{}<>@#$%^&*+=/\\|~` \t\n"
    for _ in range(count):
        yield "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 60)))


def unicode_noise(rng, count):
    """Code points of all planes, mixed with letters; no surrogates, which UTF-8 cannot hold."""
    ranges = [(0x20, 0x7F), (0xA0, 0x250), (0x250, 0x600), (0x600, 0x1000), (0x1E00, 0x2C00), (0x3000, 0xA000)]
    ranges += [(0xA000, 0xD800), (0xF900, 0x10000), (0x1D400, 0x1D800), (0x1F000, 0x1FB00), (0x20000, 0x20100)]
    for _ in range(count):
        low, high = rng.choice(ranges)
        characters = [chr(rng.randrange(low, high)) for _ in range(rng.randint(1, 20))]
        for _ in range(rng.randint(0, 4)):
            characters.insert(rng.randrange(len(characters) + 1), rng.choice([" ", "a", "'s", "7", "!"]))
        text = "".join(characters)
        yield unicodedata.normalize(rng.choice(["NFC", "NFD"]), text)


class OpenAi:
    """OpenAI's SimpleTokenizer: open_clip's copy with the original names of the two special tokens."""

    def __init__(self):
        self.inner = open_clip_tokenizer_module().SimpleTokenizer()
        specials = ["<|startoftext|>", "<|endoftext|>"]
        self.inner.encoder = vocabulary()
        self.inner.cache = {token: token for token in specials}
        pattern = r"""<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""
        self.inner.pat = regex.compile(pattern, regex.IGNORECASE)
        assert len(merges()) == 48894 and len(self.inner.encoder) == 49408

    def encode(self, text, fix=True, fix_encoding=True, unescape=True):
        """`clip.simple_tokenizer`: basic_clean, whitespace_clean, lower, then BPE. No start, end or truncation."""
        if fix:
            text = ftfy.fix_text(text, fix_encoding=fix_encoding)
        if unescape:
            text = html.unescape(html.unescape(text))
        text = regex.sub(r"\s+", " ", text.strip()).strip().lower()
        self.inner.clean_fn = lambda cleaned: cleaned
        return self.inner.encode(text)


def rule(openai, text, ids):
    """The least cleaning that gives OpenAI's ids."""
    if openai.encode(text, fix=False, unescape=False) == ids:
        return "plain"
    if openai.encode(text, fix=False) == ids:
        return "html"
    if openai.encode(text, fix_encoding=False) == ids:
        return "ftfy"
    return "mojibake"


def make():
    rng = random.Random(0)
    openai = OpenAi()
    theirs = CLIPTokenizer(vocab=vocabulary(), merges=[tuple(m.split()) for m in merges()])
    texts = list(SPECIAL)
    for source, count in ((templated, 700), (from_vocabulary, 1500), (ascii_noise, 500), (unicode_noise, 1000)):
        texts += list(source(rng, count))

    lines, counts = [], {}
    for text in dict.fromkeys(texts):
        ids = openai.encode(text)
        line = {"text": text, "ids": ids, "rule": rule(openai, text, ids)}
        transformers_ids = theirs(text).input_ids[1:-1]
        if transformers_ids != ids:
            line["transformers"] = transformers_ids
        for key in (line["rule"], "transformers_differs" if "transformers" in line else "transformers_agrees"):
            counts[key] = counts.get(key, 0) + 1
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")))

    path = case_dir("tokenizer")
    with gzip.GzipFile(path / "cases.jsonl.gz", "wb", mtime=0) as file:
        file.write(("\n".join(lines) + "\n").encode("utf-8"))
    write_json(path / "case.json", {"lines": len(lines), "counts": counts})
    print(f"  {len(lines)} strings: {counts}")
