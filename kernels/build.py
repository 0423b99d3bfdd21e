#!/usr/bin/env python3
"""Compiles kernels/*.cu to the PTX files beside them, kernels/ptx/<name>.<target>.ptx.

    build.py                      write what has changed: first the headers that are generated, then the PTX
    build.py --check              compile and compare with what is there; exit 1 if anything differs, 3 if the compiler
                                  cannot be downloaded
    build.py --toolchain FOLDER   where the compiler is kept (default: target/nvrtc)

The compiler is NVRTC from the PyPI wheel named below; it is downloaded with pip if FOLDER lacks it, and needs
neither a GPU nor a CUDA toolkit. One version gives the same bytes everywhere: sources are passed by their base
names and with relative include folders, so that no path enters the PTX.

A kernel file is compiled for sm75, or for the targets of its line `// targets: sm75, sm80`.

measure/set_measures.cuh is generated: the numbers of the set measures and the call of each, from the table in
crates/measures/src/set_measure.rs.
"""

import argparse
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

WHEEL = "nvidia-cuda-nvrtc-cu12==12.4.127"
VERSION = (12, 4)
OPTIONS = ["--std=c++17", "--fmad=false", "-I", "."]
TARGETS = {"sm75": "compute_75", "sm80": "compute_80", "sm90": "compute_90"}
KERNELS = pathlib.Path(__file__).resolve().parent
SET_MEASURES = KERNELS.parent / "crates" / "measures" / "src" / "set_measure.rs"


class BuildError(Exception):
    """What the user can act on; printed without a traceback."""

    status = 1


class NoCompiler(BuildError):
    """The compiler cannot be had here."""

    status = 3


def install(toolchain: pathlib.Path) -> None:
    """Downloads the wheel and unpacks it into `toolchain`."""
    print(f"downloading {WHEEL} into {toolchain}", file=sys.stderr)
    toolchain.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    result = subprocess.run([*command, "--dest", str(toolchain), WHEEL], capture_output=True, text=True)
    if result.returncode:
        raise NoCompiler(f"cannot download {WHEEL} with pip:\n{result.stderr.strip()}")
    for wheel in toolchain.glob("nvidia_cuda_nvrtc_cu12-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(toolchain)
        wheel.unlink()


def load_compiler(toolchain: pathlib.Path) -> ctypes.CDLL:
    """NVRTC from `toolchain`, of exactly the pinned version."""
    folder = toolchain / "nvidia" / "cuda_nvrtc" / "lib"
    name, builtins = "libnvrtc.so.12", "libnvrtc-builtins.so.12.4"
    if not (folder / name).exists():
        install(toolchain)
    try:
        # NVRTC opens its builtins by their bare name: loaded before, they are found.
        ctypes.CDLL(str(folder / builtins), ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(folder / name))
    except OSError as error:
        raise BuildError(f"cannot load the compiler: {error}; remove {toolchain} to download it again") from error
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != VERSION:
        raise BuildError(f"{toolchain} holds NVRTC {major.value}.{minor.value}, not {WHEEL}: remove it")
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def text_of(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """The program's "PTX" or "ProgramLog", without the final NUL."""
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.value


def compile_ptx(library: ctypes.CDLL, source: pathlib.Path, target: str) -> bytes:
    """The PTX of one file for one target. The working folder must be the kernels' own."""
    program = ctypes.c_void_p()
    code = library.nvrtcCreateProgram(
        ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None
    )
    if code:
        raise BuildError(f"{source.name}: {library.nvrtcGetErrorString(code).decode()}")
    options = [option.encode() for option in [f"--gpu-architecture={TARGETS[target]}", *OPTIONS]]
    try:
        code = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = text_of(library, program, "ProgramLog").decode(errors="replace").strip()
        if code:
            raise BuildError(f"{source.name} for {target} does not compile:\n{log}")
        if log:
            print(log, file=sys.stderr)
        return text_of(library, program, "PTX")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def targets_of(source: pathlib.Path) -> list[str]:
    """The targets that the file names, or sm75."""
    line = re.search(r"^// targets:(.*)$", source.read_text(encoding="utf-8"), re.MULTILINE)
    targets = line.group(1).replace(",", " ").split() if line else ["sm75"]
    for target in targets:
        if target not in TARGETS:
            raise BuildError(f"{source.name}: unknown target {target}; known are {', '.join(TARGETS)}")
    return targets


def set_measures() -> str:
    """The header that numbers the set measures, in the order of their table."""
    table = SET_MEASURES.read_text(encoding="utf-8").split("set_measures! {")[1].split("\n}")[0]
    measures = re.findall(r"^    ([A-Z_]+) = (\w+)\(([\w, ]+)\);$", table, re.MULTILINE)
    if len(measures) != table.count(";"):
        raise BuildError(f"{SET_MEASURES}: a line of the table cannot be read")
    return "\n".join([
        f"// The set measures by number. Generated by build.py from {SET_MEASURES.relative_to(KERNELS.parent)}.",
        "#pragma once",
        "",
        *sorted(f'#include "{function}.cuh"' for _, function, _ in measures),
        "",
        "enum SetMeasure {",
        *(f"    {name} = {number}," for number, (name, _, _) in enumerate(measures)),
        "};",
        "",
        "__device__ __forceinline__ double set_score(u32 measure, const Overlap& overlap, const double* weights) {",
        "    switch (measure) {",
        *(f"        case {name}: return {function}({arguments});" for name, function, arguments in measures),
        "        default: return 0.0;",
        "    }",
        "}",
        "",
    ])


def generate(check: bool) -> bool:
    """Writes the generated headers; whether they were as they are now."""
    path, text = KERNELS / "measure" / "set_measures.cuh", set_measures()
    same = path.exists() and path.read_text(encoding="utf-8") == text
    if not same and not check:
        path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {'unchanged' if same else 'differs' if check else 'written'}")
    return same


def build(library: ctypes.CDLL, check: bool) -> bool:
    """Compiles every file; whether all of it was as it is now."""
    output, fresh, expected = KERNELS / "ptx", True, set()
    output.mkdir(exist_ok=True)
    for source in sorted(KERNELS.glob("*.cu")):
        for target in targets_of(source):
            start = time.monotonic()
            ptx = compile_ptx(library, source, target)
            path = output / f"{source.stem}.{target}.ptx"
            expected.add(path)
            same = path.exists() and path.read_bytes() == ptx
            if not same and not check:
                path.write_bytes(ptx)
            fresh &= same
            state = "unchanged" if same else "differs" if check else "written"
            print(f"{path.name}: {len(ptx)} bytes, {time.monotonic() - start:.2f} s, {state}")
    for path in sorted(set(output.glob("*.ptx")) - expected):
        print(f"{path.name}: has no source{'' if check else ', removed'}")
        fresh = False
        if not check:
            path.unlink()
    return fresh


def main() -> int:
    parser = argparse.ArgumentParser(description="Compiles the CUDA kernels to PTX with the pinned NVRTC.")
    parser.add_argument("--check", action="store_true", help="compare with the PTX that is there, write nothing")
    parser.add_argument("--toolchain", type=pathlib.Path, default=KERNELS.parent / "target" / "nvrtc")
    arguments = parser.parse_args()
    toolchain = arguments.toolchain.resolve()
    os.chdir(KERNELS)
    try:
        fresh = generate(arguments.check)
        fresh &= build(load_compiler(toolchain), arguments.check)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    if arguments.check and not fresh:
        print("error: headers or PTX are not what the sources give: run kernels/build.py and commit", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
