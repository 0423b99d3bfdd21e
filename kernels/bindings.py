"""What the host needs to know of the kernels, from their sources: crates/cuda/src/kernels/generated.rs and
kernels/layout/<file>.cuh.

Read are the structures, the whole-number constants, the enumerations, and the `extern "C" __global__` functions of each
kernels/*.cu with the headers that it includes. A kernel may be declared by a macro of its file, which is expanded:

    #define FILTER(name, W) extern "C" __global__ void __launch_bounds__(128) name(Sets probe, u64* count) { ... }
    FILTER(set_filter_256, 1)

A pointer that may be null is marked NULLABLE. A constant or an enumeration that the host reads ends in
`// for the host`. The comment above a kernel, a structure or a field becomes its documentation. A kernel between `#if`
and `#endif` is one that only devices with tensor cores have.
"""

import dataclasses
import pathlib
import re
import textwrap

NUMBERS = {
    "u8": ("u8", 1),
    "u16": ("u16", 2),
    "u32": ("u32", 4),
    "u64": ("u64", 8),
    "i32": ("i32", 4),
    "i64": ("i64", 8),
    "float": ("f32", 4),
    "double": ("f64", 8),
    "signed char": ("i8", 1),
}
# What only pointers refer to.
OTHERS = {"void": "c_void", "uint2": "[u32; 2]"}
WIDTH = 120

# Values and documentation by name.
Constants = dict[str, tuple[int, str]]


class SourceError(Exception):
    """Something in a source that this cannot read."""


@dataclasses.dataclass
class Type:
    """The type of a field or a parameter."""

    base: str
    pointer: bool = False
    const: bool = False
    nullable: bool = False
    length: int | None = None
    # What it refers to, once it is known.
    struct: "Struct | None" = None


@dataclasses.dataclass
class Variable:
    """A field or a parameter."""

    name: str
    type: Type
    doc: str = ""
    offset: int = 0


@dataclasses.dataclass
class Struct:
    """A structure, in the module of the file that defines it."""

    name: str
    module: str
    doc: str
    fields: list[Variable]
    size: int = 0
    alignment: int = 1


@dataclasses.dataclass
class Kernel:
    """A kernel of a file."""

    name: str
    doc: str
    parameters: list[Variable]
    threads: int
    tensor_cores: bool
    shared: bool


@dataclasses.dataclass
class File:
    """A kernel file: its kernels, and the structures that they know."""

    module: str
    targets: list[str]
    kernels: list[Kernel]
    structs: list[Struct]


def comment_of(lines: list[str]) -> str:
    """The text of comment lines."""
    return " ".join(line.strip().removeprefix("//").strip() for line in lines)


def number(expression: str, constants: dict[str, int]) -> int | None:
    """The value of a whole-number expression, if it is one."""
    expression = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)(?:u|ull|U|ULL)?\b", r"\1", expression)
    names = set(re.findall(r"\b[A-Za-z_]\w*", re.sub(r"\b0x[0-9a-fA-F]+", "", expression)))
    if not re.fullmatch(r"[\w\s()+*/<>\-]+", expression) or not names <= constants.keys():
        return None
    value = eval(expression.replace("/", "//"), {"__builtins__": {}}, dict(constants))
    return value if isinstance(value, int) else None


def split(arguments: str) -> list[str]:
    """The arguments of a list without nested commas."""
    return [argument.strip() for argument in arguments.split(",") if argument.strip()]


def variable(declaration: str, constants: dict[str, int]) -> Variable:
    """A field or a parameter: `const u32* NULLABLE groups`, `double jaro[LONGEST + 1]`."""
    text = re.sub(r"\b(__restrict__|struct)\b", "", declaration)
    found = re.fullmatch(r"(const )?(signed char|\w+)(\*)?( NULLABLE)? (\w+)(?:\[([^\]]+)\])?", " ".join(text.split()))
    if not found:
        raise SourceError(f"cannot read the declaration `{declaration}`")
    const, base, pointer, nullable, name, length = found.groups()
    return Variable(
        name, Type(base, bool(pointer), bool(const), bool(nullable), number(length, constants) if length else None)
    )


class Reader:
    """Reads a kernel file with all that it includes."""

    def __init__(self) -> None:
        self.constants: dict[str, int] = {}
        # by module, in their order
        self.exported: dict[str, Constants] = {}
        self.structs: dict[str, tuple[str, str, str]] = {}
        self.seen: set[pathlib.Path] = set()

    def read(self, path: pathlib.Path, root: pathlib.Path) -> str:
        """Takes in the declarations of a file and returns its text."""
        if path in self.seen:
            return ""
        self.seen.add(path)
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r'^#include "([^"]+)"$', text, re.MULTILINE):
            for folder in (path.parent, root):
                if (folder / name).exists() and (folder / name).parent.name != "layout":
                    self.read((folder / name).resolve(), root)
                    break
        module = path.stem
        self.read_constants(text, module)
        pattern = r"^((?://[^\n]*\n)*)struct (\w+) \{\n(.*?)^\};"
        for doc, name, body in re.findall(pattern, text, re.MULTILINE | re.DOTALL):
            self.structs[name] = (module, comment_of(doc.splitlines()), body)
        return text

    def read_constants(self, text: str, module: str) -> None:
        """Takes in the constants and the enumerations of a file."""
        exported = self.exported.setdefault(module, {})
        depth, doc = 0, []
        for line in text.splitlines():
            if line.startswith("//"):
                doc.append(line)
                continue
            depth += line.startswith("#if") - line.startswith("#endif")
            found = re.match(r"(?:#define (\w+) |constexpr u32 (\w+) = )(.+?);?(\s+// for the host)?$", line)
            if found and depth == 0:
                name, value = found[1] or found[2], number(found[3], self.constants)
                if value is not None:
                    self.constants[name] = value
                if found[4]:
                    exported[name] = (value, comment_of(doc))
            doc = []
        pattern = r"^enum (\w+) \{([^}]*)\};\s+// for the host$"
        for name, body in re.findall(pattern, text, re.MULTILINE):
            for value, member in enumerate(split(body)):
                member, _, explicit = (part.strip() for part in member.partition("="))
                if explicit and explicit != str(value):
                    raise SourceError(f"enum {name}: {member} is not {value}")
                self.constants[member] = value
                exported[member] = (value, f"`{name}`.")

    def struct(self, name: str, found: dict[str, Struct]) -> Struct:
        """A structure and all that it refers to, added to `found` behind these."""
        if name in found:
            return found[name]
        if name not in self.structs:
            raise SourceError(f"unknown type {name}")
        module, doc, body = self.structs[name]
        struct, comments = Struct(name, module, doc, []), []
        for line in body.splitlines():
            line = line.strip()
            if line.startswith("//"):
                comments.append(line)
                continue
            if not line.endswith(";"):
                raise SourceError(f"struct {name}: cannot read `{line}`")
            field = variable(line[:-1], self.constants)
            field.doc, comments = comment_of(comments), []
            size, alignment = self.layout(field.type, found)
            field.offset = -(-struct.size // alignment) * alignment
            struct.size = field.offset + size
            struct.alignment = max(struct.alignment, alignment)
            struct.fields.append(field)
        struct.size = -(-struct.size // struct.alignment) * struct.alignment
        found[name] = struct
        return struct

    def layout(self, of: Type, found: dict[str, Struct]) -> tuple[int, int]:
        """Size and alignment; what a pointer refers to is read, too."""
        if of.base not in NUMBERS and of.base not in OTHERS:
            of.struct = self.struct(of.base, found)
            size, alignment = of.struct.size, of.struct.alignment
        elif not of.pointer and of.base in OTHERS:
            raise SourceError(f"{of.base} is no field or parameter")
        else:
            size = alignment = NUMBERS.get(of.base, (None, 0))[1]
        if of.pointer:
            size = alignment = 8
        return size * (of.length or 1), alignment


def expand(text: str) -> str:
    """The text with macros that declare kernels in the place of their calls, and their comments with them."""
    text = text.replace("\\\n", " ")
    pattern = r'^((?://[^\n]*\n)*)#define (\w+)\(([^)]*)\) +(extern "C" __global__[^\n]*)\n'
    macros = {name: (doc, split(names), body) for doc, name, names, body in re.findall(pattern, text, re.MULTILINE)}
    text = re.sub(pattern, "", text, flags=re.MULTILINE)

    def call(found: re.Match[str]) -> str:
        doc, names, body = macros[found[1]]
        for name, argument in zip(names, split(found[2]), strict=True):
            body = re.sub(rf"\b{name}\b", argument, body)
        return f"\n{doc}{body}\n"

    for name in macros:
        text = re.sub(rf"^({name})\(([^)]*)\)$", call, text, flags=re.MULTILINE)
    return text


def kernels_of(text: str, reader: Reader, found: dict[str, Struct]) -> list[Kernel]:
    """The kernels of a file's text."""
    text = expand(text)
    pattern = r'^((?://[^\n]*\n)*)extern "C" __global__ void __launch_bounds__\((\w+)\)\s+(\w+)\(([^)]*)\) (\{[^\n]*)'
    arrays = re.findall(r"^extern __shared__ \w+ (\w+)\[\];", text, re.MULTILINE)
    kernels = []
    for declaration in re.finditer(pattern, text, re.MULTILINE):
        doc, threads, name, parameters, first = declaration.groups()
        body = first if first.endswith("}") else text[declaration.end() : text.index("\n}\n", declaration.end())]
        before = text[: declaration.start()]
        opened = [line for line in before.splitlines() if line.startswith("#if")]
        tensor_cores = len(opened) > len(re.findall(r"^#endif", before, re.MULTILINE))
        if tensor_cores and "TENSOR_CORES" not in opened[-1]:
            raise SourceError(f"{name} depends on something other than tensor cores")
        variables = [variable(parameter, reader.constants) for parameter in split(parameters)]
        for parameter in variables:
            reader.layout(parameter.type, found)
        shared = any(re.search(rf"\b{array}\b", body) for array in arrays)
        count = number(threads, reader.constants)
        if count is None:
            raise SourceError(f"{name}: cannot read the number of its threads")
        kernels.append(Kernel(name, comment_of(doc.splitlines()), variables, count, tensor_cores, shared))
    if len(kernels) != len(re.findall(r'^extern "C" __global__', text, re.MULTILINE)):
        raise SourceError("cannot read all of its kernels")
    return kernels


def documentation(text: str, indent: int) -> list[str]:
    """Lines of a doc comment."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\[\]<>*])", r"\\\1", part) for part in parts[::2]]
    lines = textwrap.wrap("`".join(parts), WIDTH - indent - 4, break_long_words=False, break_on_hyphens=False)
    return [" " * indent + "/// " + line for line in lines]


def rust_type(of: Type, module: str) -> str:
    """The type of a field or a parameter in a module."""
    if of.struct:
        base = of.base if of.struct.module == module else f"super::{of.struct.module}::{of.base}"
    else:
        base = NUMBERS[of.base][0] if of.base in NUMBERS else OTHERS[of.base]
    if of.pointer:
        base = f"Address{'' if of.const else 'Mut'}<{base}>"
        return f"Option<{base}>" if of.nullable else base
    return f"[{base}; {of.length}]" if of.length else base


def is_plain(struct: Struct) -> bool:
    """Whether all zeros are a value."""
    types = [field.type for field in struct.fields]
    return all(of.nullable if of.pointer else not of.struct or is_plain(of.struct) for of in types)


def rust_struct(struct: Struct) -> list[str]:
    """A structure, and what the compiler checks of it."""
    plain, module = is_plain(struct), struct.module
    lines = documentation(struct.doc or f"`{struct.name}` of the kernels.", 4)
    lines += [f"    #[derive(Debug, Clone, Copy, PartialEq{', Default' if plain else ''})]", "    #[repr(C)]"]
    lines += [f"    pub struct {struct.name} {{"]
    for field in struct.fields:
        lines += documentation(field.doc, 8)
        lines += [f"        pub {field.name}: {rust_type(field.type, module)},"]
    lines += ["    }", "", "    const _: () = {"]
    lines += [f"        assert!(size_of::<{struct.name}>() == {struct.size});"]
    lines += [f"        assert!(offset_of!({struct.name}, {field.name}) == {field.offset});" for field in struct.fields]
    lines += ["    };", "", "    // SAFETY: the layout is that of the kernels, as checked above and in kernels/layout."]
    lines += [f"    unsafe impl DeviceRepr for {struct.name} {{}}"]
    if plain:
        lines += ["    // SAFETY: zeros are numbers, and null where an address may be missing."]
        lines += [f"    unsafe impl ValidAsZeroBits for {struct.name} {{}}"]
    return [*lines, ""]


def rust_launch(kernel: Kernel, module: str) -> list[str]:
    """The function that launches a kernel."""
    parameters = [f"{p.name}: {rust_type(p.type, module)}" for p in kernel.parameters]
    if kernel.shared:
        parameters.insert(0, "shared_bytes: u32")
    lines = documentation(kernel.doc or f"Launches `{kernel.name}`.", 8)
    lines += [f"        pub unsafe fn {kernel.name}(&self, stream: &CudaStream, grid: Grid,"]
    lines += [f"            {', '.join(parameters)}) -> Launched {{"]
    if kernel.tensor_cores:
        lines += [f"            let Some(kernel) = &self.{kernel.name} else {{ return Err(no_kernel()) }};"]
    for p in kernel.parameters:
        if p.type.nullable:
            kind = "Address" if p.type.const else "AddressMut"
            lines += [f"            let {p.name} = {kind}::or_null({p.name});"]
    function = "kernel" if kernel.tensor_cores else f"&self.{kernel.name}"
    lines += [f"            let mut launch = stream.launch_builder({function});"]
    arguments = textwrap.wrap(" ".join(f".arg(&{p.name})" for p in kernel.parameters), WIDTH - 20)
    lines += [f"            launch{''.join(line.split())};" for line in arguments]
    shared = "shared_bytes" if kernel.shared else "0"
    lines += ["            // SAFETY: the arguments are those of the kernel; what they refer to is up to the caller."]
    lines += [f"            unsafe {{ launch.launch(grid.of({kernel.threads}, {shared})) }}?;"]
    lines += ["            Ok(())", "        }"]
    return ["", *lines]


def rust_kernels(file: File) -> list[str]:
    """The kernels of a file."""
    ptx = [f'include_str!("../../../../kernels/ptx/{file.module}.{target}.ptx")' for target in file.targets]
    lines = [f"    /// The kernels of `{file.module}.cu` that the driver has read.", "    pub struct Kernels {"]
    for kernel in file.kernels:
        kind = "Option<CudaFunction>" if kernel.tensor_cores else "CudaFunction"
        lines += [f"        {kernel.name}: {kind},"]
    both = len(ptx) == 2
    lines += ["    }", "", "    impl Kernels {", "        /// Has the driver read the file."]
    parameter = "tensor_cores: bool" if both else "_tensor_cores: bool"
    lines += [f"        pub fn load(context: &Arc<CudaContext>, {parameter}) -> Result<Self, DriverError> {{"]
    choice = f"if tensor_cores {{ {ptx[1]} }} else {{ {ptx[0]} }}" if both else ptx[0]
    lines += [f"            let ptx = {choice};", "            let module = context.load_module(Ptx::from_src(ptx))?;"]
    lines += ["            Ok(Self {"]
    for kernel in file.kernels:
        load = f'module.load_function("{kernel.name}")'
        load = f"tensor_cores.then(|| {load}).transpose()?" if kernel.tensor_cores else f"{load}?"
        lines += [f"                {kernel.name}: {load},"]
    lines += ["            })", "        }"]
    for kernel in file.kernels:
        lines += rust_launch(kernel, file.module)
    return [*lines, "    }"]


def rust(files: list[File], structs: dict[str, dict[str, Struct]], exported: dict[str, Constants]) -> str:
    """The module of crates/cuda, before rustfmt."""
    lines = [
        "//! Structures, constants and kernels of `kernels/`. Generated by kernels/build.py: do not change it here.",
        "//!",
        "//! A launch is unsafe: the memory behind all addresses must be as large as the kernel takes it to be, and it",
        "//! must live until the stream has run the kernel.",
        "",
        "#![allow(clippy::too_many_arguments)]",
        "",
    ]
    modules = sorted({file.module for file in files} | structs.keys())
    for module in modules:
        file = next((file for file in files if file.module == module), None)
        body: list[str] = []
        for struct in structs.get(module, {}).values():
            body += rust_struct(struct)
        if file:
            body += rust_kernels(file)
        text = "\n".join(body)
        cudarc = ["CudaContext", "CudaFunction", "CudaStream", "DeviceRepr", "DriverError", "ValidAsZeroBits"]
        cudarc = [name for name in cudarc if re.search(rf"\b{name}\b", text)]
        cudarc += ["PushKernelArg"] if "launch.arg" in text else []
        host = [name for name in ["Grid", "Launched", "no_kernel"] if re.search(rf"\b{name}\b", text)]
        addresses = [name for name in ["Address", "AddressMut"] if re.search(rf"\b{name}\b", text)]
        uses = ["use std::ffi::c_void;"] if "c_void" in text else []
        uses += ["use std::mem::offset_of;"] if "offset_of!" in text else []
        uses += ["use std::sync::Arc;"] if "Arc<" in text else []
        uses += ["", f"use cudarc::driver::{{{', '.join(sorted(cudarc))}}};"]
        uses += ["use cudarc::nvrtc::Ptx;"] if "Ptx::" in text else []
        uses += ["", *(f"use {path}::{{{', '.join(names)}}};" for path, names in
                 [("crate::kernels::grid", host), ("crate::address", addresses)] if names)]
        declared = f"`{module}.cu` and `{module}.cuh` declare" if file else f"`{module}.cuh` declares"
        lines += [f"/// What {declared}."]
        lines += [f"pub mod {module} {{"]
        lines += [f"    {use}" if use else "" for use in uses]
        lines += ["", *body, "}", ""]
    lines += ["/// Constants of the files that are marked as being for the host.", "pub mod constants {"]
    for module, constants in sorted(exported.items()):
        if not constants:
            continue
        lines += [f"    pub mod {module} {{"]
        for name, (value, doc) in constants.items():
            lines += documentation(doc, 8)
            lines += [f"        pub const {name}: u32 = {hex(value) if value > 1 << 16 else value};"]
        lines += ["    }"]
    return "\n".join([*lines, "}", ""])


def header(file: File) -> str:
    """The checks of a file's structures in C++."""
    lines = [
        f"// The layout of what {file.module}.cu shares with the host. Generated by build.py.",
        "// Assumes the structures.",
        "#pragma once",
    ]
    for struct in file.structs:
        lines += ["", f"static_assert(sizeof({struct.name}) == {struct.size});"]
        for field in struct.fields:
            lines += [f"static_assert(OFFSET_OF({struct.name}, {field.name}) == {field.offset});"]
    return "\n".join([*lines, ""])


def bindings(root: pathlib.Path, targets: dict[pathlib.Path, list[str]]) -> tuple[str, dict[str, str]]:
    """The module of crates/cuda, before rustfmt, and the headers of kernels/layout by their names."""
    files, headers = [], {}
    structs: dict[str, dict[str, Struct]] = {}
    exported: dict[str, Constants] = {}
    for source, compiled in targets.items():
        reader, found = Reader(), {}
        try:
            text = reader.read(source, root)
            kernels = kernels_of(text, reader, found)
            if f'\n#include "layout/{source.stem}.cuh"\n' not in text:
                raise SourceError(f'includes no "layout/{source.stem}.cuh"')
        except SourceError as error:
            raise SourceError(f"{source.name}: {error}") from error
        file = File(source.stem, compiled, kernels, list(found.values()))
        files.append(file)
        headers[f"{source.stem}.cuh"] = header(file)
        for struct in file.structs:
            known = structs.setdefault(struct.module, {}).setdefault(struct.name, struct)
            if known != struct:
                raise SourceError(f"{struct.name} is not the same in all that include {struct.module}.cuh")
        for module, constants in reader.exported.items():
            exported.setdefault(module, {}).update(constants)
    return rust(files, structs, exported), headers
