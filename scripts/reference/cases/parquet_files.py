"""Parquet as pyarrow writes it: compressions, encodings, groups of rows, missing values, kinds of numbers."""

import pyarrow as pa
import pyarrow.parquet as pq
from common import FIXTURES

ROWS = 300


def table(width):
    """Every seventh caption is missing, every fifth address, every third width."""
    numbers = range(ROWS)
    return pa.table({
        "image": pa.array([{"bytes": bytes([i % 256]), "path": f"{i}.png"} for i in numbers]),
        "TEXT": pa.array([None if i % 7 == 6 else f"caption {i} – ü" for i in numbers]),
        "URL": pa.array([None if i % 5 == 4 else f"https://example.org/{i}" for i in numbers]),
        "width": pa.array([None if i % 3 == 2 else i + 1 for i in numbers], width),
        "height": pa.array([2 * i + 1 for i in numbers], width),
        "key": pa.array([f"{i:09d}" for i in numbers]),
    })


def make():
    out = FIXTURES / "corpus" / "parquet"
    out.mkdir(parents=True, exist_ok=True)
    plain = {"use_dictionary": False, "column_encoding": None}
    for name, width, options in [
        ("snappy-dictionary", pa.int32(), {"compression": "snappy", "row_group_size": 100}),
        ("gzip-plain", pa.int64(), {"compression": "gzip", "row_group_size": 1000, **plain}),
        ("gzip-pages-v2", pa.float64(), {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 64}),
        ("none-delta", pa.float32(), {"compression": "none", "use_dictionary": False, "row_group_size": 150,
                                      "column_encoding": {"TEXT": "DELTA_BYTE_ARRAY", "URL": "DELTA_LENGTH_BYTE_ARRAY"}}),
        ("small-pages", pa.int32(), {"compression": "snappy", "data_page_size": 64, "row_group_size": 200}),
    ]:
        pq.write_table(table(width), out / f"{name}.parquet", **options)
    lists = pa.table({"caption": pa.array([["a cat", "a dog"]])})
    pq.write_table(lists, out / "lists.parquet")
    other = pa.table({"caption": pa.array(["a cat and a dog"] * 100)})
    for compression in ["brotli", "zstd"]:
        pq.write_table(other, out / f"{compression}.parquet", compression=compression)
