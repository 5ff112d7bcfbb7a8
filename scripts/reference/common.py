"""What every case needs: where fixtures live, how they are written, how tiny networks get weights."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def silence():
    """Progress bars and advice of the libraries hide what this program has to say."""
    import warnings

    import diffusers
    import transformers

    warnings.filterwarnings("ignore")
    for library in (diffusers, transformers):
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()


def case_dir(name):
    """An empty folder for the case, so that files which are no longer written do not linger."""
    path = FIXTURES / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def write_tensors(path, tensors):
    """Expected values are always f32, contiguous and in sorted order, so that files are reproducible."""
    save_file({name: tensors[name].detach().to(torch.float32).contiguous().clone() for name in sorted(tensors)}, path)


def write_case(name, tensors, info, path=None):
    """`expected.safetensors` and `case.json` of a case, in a fresh folder unless `path` is given."""
    path = path or case_dir(name)
    if tensors:
        write_tensors(path / "expected.safetensors", tensors)
    write_json(path / "case.json", info)
    return path


def generator(seed):
    return torch.Generator("cpu").manual_seed(seed)


def randomize(module, seed, gain=1.0):
    """Random values for every parameter, *also* for norm weights and biases.

    A library's own initialisation leaves norms at one, biases at zero and some layers at zero; an
    implementation that drops one of them, or swaps two, would then pass. Weights keep the usual
    1/sqrt(fan_in) scale so that activations stay of order one through the whole network.
    """
    rng = generator(seed)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            noise = torch.randn(parameter.shape, generator=rng)
            if parameter.ndim >= 2 and "embedding" not in name:
                fan_in = parameter[0].numel()
                parameter.copy_(noise * gain / fan_in**0.5)
            elif parameter.ndim >= 2:
                parameter.copy_(noise * 0.5)
            elif name.endswith("bias"):
                parameter.copy_(noise * 0.1)
            else:
                parameter.copy_(1.0 + noise * 0.2)
    return module.eval()


def round_to_f16(module):
    """Makes the weights exactly representable in f16, so that a file in f16 and the f32 network agree."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.to(torch.float16).to(torch.float32))
    return module
