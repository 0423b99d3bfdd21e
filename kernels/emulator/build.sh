#!/bin/sh
# Builds the emulated CUDA driver with all kernels of this tree into one shared library.
#
#   build.sh OUT.so [extra compiler flags]      e.g.  build.sh out.so -g -fsanitize=address,undefined
#
# CXX names the compiler (default c++: GCC or Clang). The kernels of a file are found in its preprocessed text, so that
# a macro may declare them; they must be `extern "C" __global__` functions, and `extern __shared__` arrays must be in the
# global namespace.
# The library's SONAME is libcuda.so: a process that has loaded it by any path finds it by that name.
set -eu

[ $# -ge 1 ] || { echo "usage: $0 OUT.so [extra compiler flags]" >&2; exit 2; }
out=$1
shift
emulator=$(cd "$(dirname "$0")" && pwd)
kernels=$(dirname "$emulator")
compiler=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flags="-std=c++17 -O2 -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing -fsigned-char -pthread
       -Wno-unknown-pragmas -I$emulator -I$kernels"

# One file's text with the qualifiers left in place, on one line.
declarations() {
  # shellcheck disable=SC2086
  $compiler $flags -E -P -x c++ "$1" | tr '\n' ' '
}

# The names that follow `extern "C" __global__ ... void`.
kernel_names() {
  grep -oE 'extern[[:space:]]*"C"[[:space:]]*__global__[[:space:]]*(__launch_bounds__[[:space:]]*\([^)]*\))?[[:space:]]*void[[:space:]]*(__launch_bounds__[[:space:]]*\([^)]*\))?[[:space:]]*[A-Za-z_0-9]+' |
    sed -E 's/.*[^A-Za-z_0-9]([A-Za-z_0-9]+)$/\1/' | sort -u
}

# The names that precede `[]` after `extern __shared__`.
dynamic_shared_names() {
  grep -oE 'extern[[:space:]]+__shared__[^;]*\[[[:space:]]*\]' |
    sed -E 's/.*[^A-Za-z_0-9]([A-Za-z_0-9]+)[[:space:]]*\[[[:space:]]*\]$/\1/' | sort -u
}

lists=
sources=
: >"$work/shared_names"
for file in "$kernels"/*.cu; do
  module=$(basename "$file" .cu)
  declarations "$file" >"$work/text"
  kernel_names <"$work/text" >"$work/names" || true
  [ -s "$work/names" ] || { echo "$file: no kernel found" >&2; exit 1; }
  dynamic_shared_names <"$work/text" >>"$work/shared_names" || true
  {
    echo '#include "device.h"'
    echo '#include "driver.h"'
    echo "#include \"$file\""
    echo "extern const emulated::Kernel kernels_of_$module[] = {"
    sed -E 's/(.*)/  {"\1", emulated::thread_of<\1>},/' "$work/names"
    echo '  {nullptr, nullptr}};'
  } >"$work/kernels_$module.cpp"
  lists="$lists $module"
  sources="$sources $work/kernels_$module.cpp"
done

{
  echo '#include "driver.h"'
  sort -u "$work/shared_names" | sed -E 's/(.*)/alignas(128) thread_local unsigned char \1[232448];/'
  for module in $lists; do echo "extern const emulated::Kernel kernels_of_$module[];"; done
  echo 'const emulated::Kernel* const* emulated::kernel_lists() {'
  echo '  static const Kernel* const lists[] = {'
  for module in $lists; do echo "    kernels_of_$module,"; done
  echo '    nullptr};'
  echo '  return lists;'
  echo '}'
  echo 'emulated::DynamicShared emulated::dynamic_shared(unsigned number) {'
  echo '  switch (number) {'
  sort -u "$work/shared_names" | awk '{ printf "    case %d: return {%s, sizeof %s};\n", NR - 1, $1, $1 }'
  echo '    default: return {nullptr, 0};'
  echo '  }'
  echo '}'
} >"$work/lists.cpp"

# Every source in a process of its own; then one library.
objects=
running=
for source in $sources "$work/lists.cpp" "$emulator/threads.cpp" "$emulator/driver.cpp"; do
  object=$work/$(basename "$source" .cpp).o
  # shellcheck disable=SC2086
  $compiler $flags "$@" -c "$source" -o "$object" &
  running="$running $!"
  objects="$objects $object"
done
for process in $running; do wait "$process"; done
# shellcheck disable=SC2086
$compiler -shared -pthread "$@" -Wl,-soname,libcuda.so -Wl,-z,nodelete -o "$out" $objects
