"""The CUDA text of a kernel, out of CubeCL's log, as C++ that `warp.h` can run.

    kernel.py LOG NAME FOLDER

writes a file for each kernel whose function's name begins so, and prints its function, its `width` and the file.
"""

import re
import sys
from pathlib import Path

ASM = re.compile(r'asm\s*(?:volatile)?\s*\("((?:[^"\\]|\\.)*)"\s*(?::\s*(.*?))?\s*(?::\s*(.*?))?\s*(?::[^;]*)?\);')
OPERAND = re.compile(r'"=?\w+"\s*\(((?:[^()]|\([^()]*\))*)\)')
# What comes with the compiler here, or what only NVIDIA's has.
LEFT_OUT = re.compile(r"#include.*\n|typedef (?:un)?signed [^;]*int\d+_t;\n|__restrict__ ?|__align__\(\d+\) ")


def instruction(match):
    text, outs, ins = match[1], OPERAND.findall(match[2] or ""), OPERAND.findall(match[3] or "")
    results = " ".join(f"{to} = results[{i}];" for i, to in enumerate(outs))
    if text.startswith("mma.sync.aligned.m16n8k16"):
        kind = "__nv_bfloat16" if ".bf16." in text else "__half"
        a, b, c = (", ".join(part) for part in (ins[:4], ins[4:6], ins[6:]))
        return (
            f"{{ uint32_t a[] = {{{a}}}, b[] = {{{b}}}; float c[] = {{{c}}}, results[4]; warp::multiply<{kind}>(results, a, b, c); {results} }}"
        )
    if text.startswith("mma.sync.aligned.m16n8k8.row.col.f32.tf32"):
        a, b, c = (", ".join(part) for part in (ins[:4], ins[4:6], ins[6:]))
        return f"{{ uint32_t a[] = {{{a}}}, b[] = {{{b}}}; float c[] = {{{c}}}, results[4]; warp::multiply_tf32(results, a, b, c); {results} }}"
    if text.startswith("cvt.rna.tf32.f32"):
        return f"{outs[0]} = warp::tf32({ins[0]});"
    if text.startswith("ldmatrix"):
        turned = "true" if ".trans" in text else "false"
        load = f"warp::load_matrices(results, {len(outs)}, warp::shared + {ins[-1]}, {turned});"
        return f"{{ uint32_t results[4]; {load} {results} }}"
    if text.startswith("cp.async.commit_group"):
        return "warp::commit();"
    if waits := re.match(r"cp\.async\.wait_group (\d+)", text):
        return f"warp::wait_group({waits[1]});"
    if text.startswith("cp.async."):
        to, source, count = ins
        return f"warp::copy(warp::shared + {to}, (const void *)({source}), {count});"
    if text.startswith("ex2.approx"):
        return f"{outs[0]} = exp2f({ins[0]});"
    sys.exit(f"an instruction that is not known here: {text}")


def main():
    log, name, folder = sys.argv[1:]
    for compiled in Path(log).read_text(encoding="utf-8").split("[START_KERNEL_COMPILATION]"):
        about, _, text = compiled.partition("```cpp\n")
        text = text.split("```")[0]
        function, width = re.search(rf"\b({name}\w*)\(", text), re.search(r"\bwidth: (\d+)", about)
        if not function or not width:
            continue
        text = re.sub(r"extern __shared__ __align__\(\d+\) char (\w+)\[\];", r"char *const \1 = warp::shared;", text)
        path = Path(folder) / f"{function[1]}.h"
        path.write_text(ASM.sub(instruction, LEFT_OUT.sub("", text)), encoding="utf-8")
        print(function[1], width[1], path)


if __name__ == "__main__":
    main()
