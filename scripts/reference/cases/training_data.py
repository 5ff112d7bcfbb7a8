"""`fixtures/training-data/`: kohya's buckets, and small data sets by the libraries that people write them with.

kohya's code is a program, not a library: `make_bucket_resolutions` and `select_bucket` of its `library/model_util.py` and
`library/train_util.py` (Apache-2.0) are written out here.
"""

import io
import json
import math
import random
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import case_dir, write_json
from PIL import Image


def bucket_sizes(resolution, shortest, longest, step):
    area = resolution[0] * resolution[1]
    sizes = set()
    width = int(math.sqrt(area) // step) * step
    sizes.add((width, width))
    width = shortest
    while width <= longest:
        height = min(longest, int((area // width) // step) * step)
        if height >= shortest:
            sizes |= {(width, height), (height, width)}
        width += step
    return sorted(sizes)


def select(size, sizes, area, step, no_upscale):
    """The resized picture and the bucket."""
    w, h = size
    aspect = w / h
    if not no_upscale:
        if size in sizes:
            bucket = size
        else:
            errors = np.array([a / b for a, b in sizes]) - aspect
            bucket = sizes[np.abs(errors).argmin()]
        scale = bucket[1] / h if aspect > bucket[0] / bucket[1] else bucket[0] / w
        return (int(w * scale + 0.5), int(h * scale + 0.5)), bucket

    def rounded(x):
        x = int(x + 0.5)
        return x - x % step

    if w * h > area:
        wide = math.sqrt(area * aspect)
        tall = area / wide
        by_width = rounded(wide)
        of_width = rounded(by_width / aspect)
        by_height = rounded(tall)
        of_height = rounded(by_height * aspect)
        if abs(by_width / of_width - aspect) < abs(of_height / by_height - aspect):
            resized = (by_width, int(by_width / aspect + 0.5))
        else:
            resized = (int(by_height * aspect + 0.5), by_height)
    else:
        resized = size
    return resized, (resized[0] - resized[0] % step, resized[1] - resized[1] % step)


def buckets():
    rng = random.Random(3)
    cases = []
    for resolution, shortest, longest, step in [(512, 256, 1024, 64), (1024, 512, 2048, 64), (1024, 256, 1024, 32)]:
        sizes = bucket_sizes((resolution, resolution), shortest, longest, step)
        fits = []
        for _ in range(40):
            size = (rng.randint(200, 3000), rng.randint(200, 3000))
            for no_upscale in (False, True):
                resized, bucket = select(size, sizes, resolution**2, step, no_upscale)
                fits.append({"size": size, "no_upscale": no_upscale, "resized": resized, "bucket": bucket})
        cases.append({"resolution": resolution, "shortest": shortest, "longest": longest, "step": step,
                      "sizes": sizes, "fits": fits})
    return cases


def picture(colour, size=(12, 8), kind="PNG", **options):
    image = Image.new("RGB", size, colour)
    image.putpixel((0, 0), (1, 2, 3))
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def parquet(path):
    """As `datasets` writes pictures, with a missing caption; two row groups."""
    rows = [{"image": {"bytes": picture((40 * i, 10, 20)), "path": f"{i}.png"}, "text": None if i == 2 else f"picture {i}"}
            for i in range(5)]
    kind = pa.schema([("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("text", pa.string())])
    pq.write_table(pa.Table.from_pylist(rows, schema=kind), path, compression="snappy", row_group_size=3)


def webdataset(path):
    def add(archive, name, data):
        about = tarfile.TarInfo(name)
        about.size = len(data)
        archive.addfile(about, io.BytesIO(data))

    with tarfile.open(path, "w") as archive:
        add(archive, "shard/0001.png", picture((1, 1, 1)))
        add(archive, "shard/0001.txt", b"a red one\n")
        add(archive, "shard/0002.jpg", picture((2, 2, 2), kind="JPEG"))
        add(archive, "shard/0002.json", json.dumps({"caption": "a green one", "status": "success"}).encode())
        add(archive, "shard/0003.json", json.dumps({"caption": "lost", "status": "failed_to_download"}).encode())
        add(archive, "shard/0004.seg.png", picture((3, 3, 3)))
        add(archive, "shard/0004.webp", picture((4, 4, 4), kind="WEBP"))
        add(archive, "shard/0004.txt", b"a blue one")
        # A name that is longer than the header's field.
        add(archive, "shard/" + "long-" * 30 + ".png", picture((5, 5, 5)))
        add(archive, "shard/" + "long-" * 30 + ".txt", b"a long one")


def turned(path):
    exif = Image.Exif()
    exif[274] = 6  # to be turned by a quarter to the right
    path.write_bytes(picture((200, 100, 50), size=(24, 16), kind="JPEG", exif=exif))


def make():
    path = case_dir("training-data")
    write_json(path / "buckets.json", buckets())
    parquet(path / "pictures.parquet")
    webdataset(path / "shard.tar")
    turned(path / "turned.jpg")
