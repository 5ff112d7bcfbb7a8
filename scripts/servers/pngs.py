"""PNGs of 8-bit RGB, as prepose writes them, read with the standard library alone."""

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks(png):
    """Kind and data of each chunk; an error for what is cut short or damaged."""
    if png[:8] != SIGNATURE:
        raise ValueError("no PNG")
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        (sum_,) = struct.unpack(">I", png[at + 8 + length : at + 12 + length])
        if zlib.crc32(kind + data) != sum_:
            raise ValueError(f"a damaged chunk {kind!r}")
        yield kind, data
        at += length + 12
    if kind != b"IEND":
        raise ValueError("the end is missing")


def pixels(png):
    """Width, height and the bytes of all pixels."""
    parts = list(chunks(png))
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", parts[0][1])
    if (depth, colour, interlaced) != (8, 2, 0):
        raise ValueError("not 8-bit RGB")
    data = zlib.decompress(b"".join(data for kind, data in parts if kind == b"IDAT"))
    stride = 3 * width
    if len(data) != height * (stride + 1):
        raise ValueError("pixels are missing")
    rows, above = [], bytearray(stride)
    for number in range(height):
        start = number * (stride + 1)
        above = unfiltered(data[start], bytearray(data[start + 1 : start + 1 + stride]), above)
        rows.append(above)
    return width, height, b"".join(rows)


def unfiltered(kind, row, above):
    """A row of three bytes a pixel without its filter."""
    for at in range(len(row)):
        left = row[at - 3] if at >= 3 else 0
        corner = above[at - 3] if at >= 3 else 0
        if kind == 1:
            row[at] = (row[at] + left) & 255
        elif kind == 2:
            row[at] = (row[at] + above[at]) & 255
        elif kind == 3:
            row[at] = (row[at] + (left + above[at]) // 2) & 255
        elif kind == 4:
            guess = left + above[at] - corner
            near = min((abs(guess - left), 0, left), (abs(guess - above[at]), 1, above[at]), (abs(guess - corner), 2, corner))
            row[at] = (row[at] + near[2]) & 255
    return row


def is_whole(png):
    """Whether nothing is missing or damaged."""
    try:
        pixels(png)
    except (ValueError, struct.error, zlib.error):
        return False
    return True


def largest_difference(one, other):
    """Of two pictures' pixels; 255 for other sizes."""
    (*size, a), (*other_size, b) = pixels(one), pixels(other)
    if size != other_size:
        return 255
    return 0 if a == b else max(abs(x - y) for x, y in zip(a, b, strict=True))
