#!/usr/bin/env bash
# usage: ./run gpu-stamp   Prints one sha256 over the sources that the results from a GPU depend on: names and contents,
# as they lie in the working tree. Needs no .git, since the machine with the GPU may have a plain copy of the tree.
#   --list   the files themselves, each with its hash
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

readonly sources=(
  CMakeLists.txt cmake include
  src/base src/hooks src/plan src/device src/gate src/sinks src/drain src/monitor
  bench/cuda examples/cuda_decode tests/gpu tests/support tests/property
  tests/unit/device tests/unit/gate tests/unit/monitor  # those written for any device
  scripts/gpu_test.sh
)
list() {
  local source
  for source in "${sources[@]}"; do
    # What an editor, Python or a build in the tree leaves behind is no source.
    [[ ! -e $source ]] || find "$source" \( -name __pycache__ -o -name 'build*' -o -name results \) -prune -o \
      -type f ! -name '.*' ! -name '*~' ! -name '*.pyc' ! -name '*.orig' ! -name '*.rej' -print
  done | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum
}

case ${1:-} in
  '') list | sha256sum | cut -d' ' -f1 ;;
  --list) list ;;
  *) echo "unknown option: $1 (--list)" >&2; exit 2 ;;
esac
