#!/usr/bin/env python3
"""Compiles kernels/*.cu to PTX and to machine code: ptx/<name>.<target>.ptx and cubin/<name>.<target>.cubin.z.

    build.py                      write what has changed: first the headers that are generated, then the sources in the
                                  style of .clang-format, then the PTX and the machine code
    build.py --check              compare all of it with what is there; exit 1 if anything differs, 3 if the compiler or
                                  clang-format cannot be downloaded
    build.py --all                compile all files, also those that digests.txt calls unchanged
    build.py --toolchain FOLDER   where both are kept (default: target/nvrtc)

The compiler is NVRTC from the PyPI wheel named below; it is downloaded with pip if FOLDER lacks it, and needs
neither a GPU nor a CUDA toolkit. One version gives the same bytes everywhere: sources are passed by their base
names and with relative include folders, so that no path enters the output. One version of clang-format, from PyPI too,
gives the same style everywhere.

Compiling everything takes minutes, so digests.txt has two SHA-256 numbers for each file that is written: one of all that
it is made of, and one of the code that it holds. A file is compiled where either differs, with --check too.

A kernel file is compiled to PTX for sm75, or for the targets of its line `// targets: sm75, sm80`. It is compiled to
machine code for each of MACHINES. Machine code is written compressed, by zlib. It is compared uncompressed, because
another version of zlib may compress to other bytes.

Generated are

    measure/set_measures.cuh                 the numbers of the set measures and the call of each, from the table in
                                             crates/measures/src/set_measure.rs
    measure/edit_measures.cuh                the numbers of the edit measures, from the table in
                                             crates/measures/src/edit_measure.rs
    layout/<file>.cuh                        checks of the structures that a file shares with the host
    crates/cuda/src/kernels/generated        the same structures for the host, and a function for each kernel
"""

import argparse
import ctypes
import hashlib
import inspect
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bindings import Forms, SourceError, bindings

COMPILER = "nvidia-cuda-nvrtc-cu12==12.4.127"
FORMATTER = "clang-format==18.1.8"
VERSION = (12, 4)
OPTIONS = ["--std=c++17", "--fmad=false", "-I", "."]
# PTX for a target also serves all later devices.
TARGETS = {"sm75": "compute_75", "sm80": "compute_80", "sm90": "compute_90"}
# Machine code for a target also serves later devices of the same major version: that of sm86 serves sm87 and sm89.
MACHINES = {"sm75": "sm_75", "sm80": "sm_80", "sm86": "sm_86", "sm90": "sm_90"}
SOURCES = ["*.cu", "*.cuh", "*.cpp", "*.h"]
KERNELS = pathlib.Path(__file__).resolve().parent
ROOT = KERNELS.parent
OUTPUTS = [KERNELS / "ptx", KERNELS / "cubin"]
DIGESTS = KERNELS / "digests.txt"
# A file that is compiled, where its output goes, and for which architecture.
Job = tuple[pathlib.Path, pathlib.Path, str]
HOST = ROOT / "crates" / "cuda" / "src" / "kernels" / "generated"
SET_MEASURES = ROOT / "crates" / "measures" / "src" / "set_measure.rs"
EDIT_MEASURES = ROOT / "crates" / "measures" / "src" / "edit_measure.rs"


class BuildError(Exception):
    """What the user can act on; printed without a traceback."""

    status = 1


class NoTool(BuildError):
    """The compiler or clang-format cannot be had here."""

    status = 3


def install(wheel: str, toolchain: pathlib.Path) -> None:
    """Downloads a wheel and unpacks it into `toolchain`."""
    print(f"downloading {wheel} into {toolchain}", file=sys.stderr)
    toolchain.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    result = subprocess.run([*command, "--dest", str(toolchain), wheel], capture_output=True, text=True)
    if result.returncode:
        raise NoTool(f"cannot download {wheel} with pip:\n{result.stderr.strip()}")
    for downloaded in toolchain.glob("*.whl"):
        with zipfile.ZipFile(downloaded) as archive:
            archive.extractall(toolchain)
        downloaded.unlink()


def load_compiler(toolchain: pathlib.Path) -> ctypes.CDLL:
    """NVRTC from `toolchain`, of exactly the pinned version."""
    folder = toolchain / "nvidia" / "cuda_nvrtc" / "lib"
    name, builtins = "libnvrtc.so.12", "libnvrtc-builtins.so.12.4"
    if not (folder / name).exists():
        install(COMPILER, toolchain)
    try:
        # NVRTC opens its builtins by their bare name: loaded before, they are found.
        ctypes.CDLL(str(folder / builtins), ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(folder / name))
    except OSError as error:
        raise BuildError(f"cannot load the compiler: {error}; remove {toolchain} to download it again") from error
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != VERSION:
        raise BuildError(f"{toolchain} holds NVRTC {major.value}.{minor.value}, not {COMPILER}: remove it")
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def output_of(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """The program's "PTX", "CUBIN" or "ProgramLog"."""
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


def compiled(library: ctypes.CDLL, source: pathlib.Path, architecture: str) -> bytes:
    """The PTX of one file for a virtual architecture (compute_XX), or its machine code for a real one (sm_XX). The
    working folder must be the kernels' own."""
    program = ctypes.c_void_p()
    code = library.nvrtcCreateProgram(
        ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None
    )
    if code:
        raise BuildError(f"{source.name}: {library.nvrtcGetErrorString(code).decode()}")
    options = [option.encode() for option in [f"--gpu-architecture={architecture}", *OPTIONS]]
    try:
        code = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = output_of(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
        if code:
            raise BuildError(f"{source.name} for {architecture} does not compile:\n{log}")
        if log:
            print(log, file=sys.stderr)
        if architecture.startswith("sm_"):
            return output_of(library, program, "CUBIN")
        return output_of(library, program, "PTX").rstrip(b"\0")
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


def measures_of(path: pathlib.Path, macro: str, call: str) -> list[tuple]:
    """The lines of a table of measures: the name of each, and what the pattern `call` captures of its definition."""
    table = path.read_text(encoding="utf-8").split(f"{macro}! {{")[1].split("\n}")[0]
    measures = re.findall(rf"^    ([A-Z_]+) = {call};$", table, re.MULTILINE)
    # a comment has no semicolon at its end
    if len(measures) != len(re.findall(r";$", table, re.MULTILINE)):
        raise BuildError(f"{path}: a line of the table cannot be read")
    return measures


def numbers(name: str, measures: list[tuple]) -> list[str]:
    """The lines of an enumeration of measures, in the order of their table."""
    return [f"enum {name} {{", *(f"    {measure[0]} = {number}," for number, measure in enumerate(measures)), "};"]


def edit_measures() -> str:
    """The header that numbers the edit measures, in the order of their table."""
    measures = measures_of(EDIT_MEASURES, "edit_measures", r"(\w+)\(.*\)")
    return "\n".join([
        f"// The edit measures by number. Generated by build.py from {EDIT_MEASURES.relative_to(ROOT)}.",
        "#pragma once",
        "",
        *numbers("EditMeasure", measures),
        "",
    ])


def set_measures() -> str:
    """The header that numbers the set measures, in the order of their table."""
    measures = measures_of(SET_MEASURES, "set_measures", r"(\w+)\(([\w, ]+)\)")
    return "\n".join([
        f"// The set measures by number. Generated by build.py from {SET_MEASURES.relative_to(ROOT)}.",
        "#pragma once",
        "",
        *sorted(f'#include "{function}.cuh"' for _, function, _ in measures),
        "",
        *numbers("SetMeasure", measures),
        "",
        "__device__ __forceinline__ double set_score(u32 measure, const Overlap& overlap, const double* weights) {",
        "    switch (measure) {",
        *(f"        case {name}: return {function}({arguments});" for name, function, arguments in measures),
        "        default: return 0.0;",
        "    }",
        "}",
        "",
    ])


def rustfmt(text: str) -> str:
    """The text in the style of rustfmt.toml."""
    command = ["rustfmt", "--edition", "2024", "--config-path", str(ROOT)]
    try:
        result = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8")
    except OSError as error:
        raise NoTool(f"cannot run rustfmt: {error}") from error
    if result.returncode:
        raise BuildError(f"rustfmt fails:\n{result.stderr.strip()}")
    return result.stdout


def generated() -> dict[pathlib.Path, str]:
    """All that is generated before anything is compiled, by its path."""
    sources = {source: Forms(targets_of(source), list(MACHINES)) for source in sorted(KERNELS.glob("*.cu"))}
    try:
        host, layouts = bindings(KERNELS, sources, rustfmt)
    except SourceError as error:
        raise BuildError(str(error)) from error
    texts = {
        KERNELS / "measure" / "set_measures.cuh": set_measures(),
        KERNELS / "measure" / "edit_measures.cuh": edit_measures(),
    }
    texts |= {KERNELS / "layout" / name: text for name, text in layouts.items()}
    return texts | {HOST / name: text for name, text in host.items()}


def generate(check: bool) -> bool:
    """Writes what is generated; whether it was as it is now."""
    fresh, texts = True, generated()
    there = [*(KERNELS / "layout").glob("*.cuh"), *HOST.glob("*.rs")]
    for path in sorted(set(there) - texts.keys()):
        print(f"{path.relative_to(ROOT)}: has no source{'' if check else ', removed'}")
        fresh = False
        if not check:
            path.unlink()
    for path, text in texts.items():
        same = path.exists() and path.read_text(encoding="utf-8") == text
        if not same and not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        fresh &= same
        print(f"{path.relative_to(ROOT)}: {'unchanged' if same else 'differs' if check else 'written'}")
    return fresh


def format_sources(toolchain: pathlib.Path, check: bool) -> bool:
    """Has all sources written in the style of .clang-format; whether they were."""
    package = FORMATTER.replace("-", "_").replace("==", "-") + ".dist-info"
    if not (toolchain / package).exists():
        install(FORMATTER, toolchain)
    formatter = toolchain / "clang_format" / "data" / "bin" / "clang-format"
    formatter.chmod(0o755)
    fresh = True
    for source in sorted(path for pattern in SOURCES for path in KERNELS.rglob(pattern)):
        text = source.read_bytes()
        formatted = subprocess.run([formatter, "--style=file", source], capture_output=True, check=True).stdout
        if formatted == text:
            continue
        print(f"{source.relative_to(KERNELS)}: not in the style of .clang-format{'' if check else ', written'}")
        fresh = False
        if not check:
            source.write_bytes(formatted)
    return fresh


def decompressed(path: pathlib.Path) -> bytes | None:
    """What a file of machine code holds, if it can be read."""
    try:
        return zlib.decompress(path.read_bytes())
    except (OSError, zlib.error):
        return None


def jobs() -> list[Job]:
    """Everything that is compiled."""
    found = []
    for source in sorted(KERNELS.glob("*.cu")):
        ptx = [(KERNELS / "ptx" / f"{source.stem}.{target}.ptx", TARGETS[target]) for target in targets_of(source)]
        cubins = [(KERNELS / "cubin" / f"{source.stem}.{name}.cubin.z", MACHINES[name]) for name in MACHINES]
        found += [(source, path, architecture) for path, architecture in [*ptx, *cubins]]
    return found


def included(source: pathlib.Path, found: dict[str, bytes]) -> None:
    """Adds a file and all that it includes to `found`, by their paths below the kernels."""
    name = source.relative_to(KERNELS).as_posix()
    if name in found:
        return
    found[name] = source.read_bytes()
    lines = re.findall(r"^\s*#\s*include\b.*$", found[name].decode(), re.MULTILINE)
    for line in lines:
        header = re.fullmatch(r'\s*#\s*include\s*[<"]([^">]+)[">].*', line)
        if not header:
            raise BuildError(f"{name}: cannot tell what this includes: {line.strip()}")
        for path in (source.parent / header[1], KERNELS / header[1]):
            if path.is_file():
                included(path.resolve(), found)
                break
        # of one that is not there the compiler speaks


def digest_of_inputs(source: pathlib.Path, architecture: str) -> str:
    """The digest of all that decides what the compiler gives."""
    files: dict[str, bytes] = {}
    included(source, files)
    how = [COMPILER, architecture, *OPTIONS, inspect.getsource(compiled), inspect.getsource(output_of)]
    digest = hashlib.sha256("\0".join(how).encode())
    for name in sorted(files):
        digest.update(f"\0{name}\0{len(files[name])}\0".encode() + files[name])
    return digest.hexdigest()


def digests() -> dict[str, tuple[str, str]]:
    """The digests of the inputs and of the bytes of each compiled file, by its name."""
    if not DIGESTS.exists():
        return {}
    lines = map(str.split, DIGESTS.read_text(encoding="utf-8").splitlines())
    # where two versions were merged, other lines may lie between: what they were about is compiled
    return {line[2]: (line[0], line[1]) for line in lines if len(line) == 3}


def code_of(path: pathlib.Path) -> bytes | None:
    """The compiled code that a file holds, if it is there and can be read."""
    if path.suffix == ".ptx":
        return path.read_bytes() if path.exists() else None
    return decompressed(path)


def build(load: Callable[[], ctypes.CDLL], check: bool, everything: bool) -> bool:
    """Compiles every file, or those that have changed; whether all of it was as it was now."""

    def compile_one(library: ctypes.CDLL, job: Job, there: bytes | None) -> tuple[bool, str]:
        source, path, architecture = job
        start = time.monotonic()
        code = compiled(library, source, architecture)
        same = there == code
        if not same and not check:
            path.write_bytes(code if path.suffix == ".ptx" else zlib.compress(code, 9))
        state = "unchanged" if same else "differs" if check else "written"
        print(f"{path.name}: {len(code)} bytes, {time.monotonic() - start:.2f} s, {state}")
        return same, hashlib.sha256(code).hexdigest()

    wanted = jobs()
    for folder in OUTPUTS:
        folder.mkdir(exist_ok=True)
    known = {} if everything else digests()
    changed, now = {}, {}
    for source, path, architecture in wanted:
        inputs, there = digest_of_inputs(source, architecture), code_of(path)
        digest = hashlib.sha256(there).hexdigest() if there is not None else ""
        now[path.name] = (inputs, digest)
        if known.get(path.name) != (inputs, digest):
            changed[path.name] = (source, path, architecture), there
    print(f"{len(wanted) - len(changed)} of {len(wanted)} compiled files are unchanged by their digests")
    fresh = True
    if changed:
        library = load()
        # the compiler's calls run side by side
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda change: compile_one(library, *change), changed.values())
            for name, (same, digest) in zip(changed, results):
                (source, _, architecture), _ = changed[name]
                if digest_of_inputs(source, architecture) != now[name][0]:
                    raise BuildError(f"{source.name}: changed while it was compiled, run build.py again")
                fresh &= same
                now[name] = (now[name][0], digest)
    written = {path for folder in OUTPUTS for path in folder.iterdir()}
    for path in sorted(written - {path for _, path, _ in wanted}):
        print(f"{path.name}: has no source{'' if check else ', removed'}")
        fresh = False
        if not check:
            path.unlink()
    text = "".join(f"{inputs} {code} {name}\n" for name, (inputs, code) in now.items())
    if not DIGESTS.exists() or DIGESTS.read_text(encoding="utf-8") != text:
        print(f"{DIGESTS.name}: {'differs' if check else 'written'}")
        fresh = False
        if not check:
            DIGESTS.write_text(text, encoding="utf-8")
    return fresh


def main() -> int:
    parser = argparse.ArgumentParser(description="Compiles the CUDA kernels with the pinned NVRTC.")
    parser.add_argument("--check", action="store_true", help="compare with what is there, write nothing")
    parser.add_argument("--all", action="store_true", help="compile all files, not only those that have changed")
    parser.add_argument("--toolchain", type=pathlib.Path, default=ROOT / "target" / "nvrtc")
    arguments = parser.parse_args()
    toolchain = arguments.toolchain.resolve()
    os.chdir(KERNELS)
    try:
        fresh = generate(arguments.check)
        try:
            fresh &= format_sources(toolchain, arguments.check)
            fresh &= build(lambda: load_compiler(toolchain), arguments.check, arguments.all)
        except NoTool as error:
            print(f"error: {error}", file=sys.stderr)
            # what needs no tool is told all the same
            if fresh or not arguments.check:
                return error.status
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    if arguments.check and not fresh:
        print("error: not all files are what the sources give: run kernels/build.py and commit", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
