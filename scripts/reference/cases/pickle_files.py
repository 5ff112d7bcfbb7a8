"""`fixtures/pickle/`: what torch.save can put into a file, and what must never be run."""

import os
import pickle
import zipfile
from collections import OrderedDict

import torch
from common import case_dir, generator, write_tensors


def values():
    """One tensor for every storage type and every way a tensor can lie in its storage."""
    rng = generator(3)
    base = torch.randn(6, 8, generator=rng)
    shared = torch.randn(24, generator=rng)
    integers = torch.arange(-6, 6).reshape(3, 4)
    return OrderedDict(
        f32=base,
        f64=base.double(),
        f16=base.half(),
        bf16=base.bfloat16(),
        i64=integers,
        i32=integers.int(),
        i16=integers.short(),
        i8=integers.to(torch.int8),
        u8=(integers + 6).to(torch.uint8),
        bool=integers > 0,
        transposed=base.t(),  # strides (1, 8)
        every_second=base[:, ::2],  # strides (8, 2)
        window=base[2:4, 3:7],  # starts in mid-storage
        shared_a=shared[:12].reshape(3, 4),  # two views of one storage
        shared_b=shared[12:],
        expanded=shared[:3, None].expand(3, 4),  # stride 0
        scalar=torch.tensor(2.5),
        empty=torch.zeros(0, 4),
        channels_last=torch.randn(1, 2, 3, 4, generator=rng).to(memory_format=torch.channels_last),
        parameter=torch.nn.Parameter(torch.randn(4, generator=rng)),
    )


class Evil:
    """Unpickling this calls `os.system`."""

    def __reduce__(self):
        return os.system, ("touch PREPOSE_EXECUTED_A_PICKLE",)


class Sneaky:
    """The same through a name that torch's own files use for harmless things."""

    def __reduce__(self):
        return eval, ("__import__('os').system('touch PREPOSE_EXECUTED_A_PICKLE')",)


def make():
    path = case_dir("pickle")
    tensors = values()
    torch.save(tensors, path / "zip.pt")
    torch.save(tensors, path / "zip-protocol4.pt", pickle_protocol=4)
    torch.save(tensors, path / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save({"state_dict": dict(tensors), "args": {"lr": 1e-4, "names": ["a", "b"], "ok": True, "none": None,
               "big": 2**40, "tuple": (1, -2.5, "ü"), "set": {1}}}, path / "nested.pt")
    write_tensors(path / "expected.safetensors", {name: value.detach() for name, value in tensors.items()})

    for name, object_ in (("evil", Evil()), ("sneaky", Sneaky())):
        torch.save({"weight": torch.ones(2), "payload": object_}, path / f"{name}.pt")
    torch.save({"weight": torch.ones(2), "payload": Evil()}, path / "evil-legacy.pt",
               _use_new_zipfile_serialization=False)
    (path / "evil-plain.pkl").write_bytes(pickle.dumps(Evil(), protocol=2))
    (path / "text-protocol0.pkl").write_bytes(pickle.dumps({"a": [1, 2.5, "x"]}, protocol=0))
    with zipfile.ZipFile(path / "not-torch.zip", "w") as archive:  # a zip that no torch wrote
        archive.writestr(zipfile.ZipInfo("readme.txt"), "hello")
