#!/usr/bin/env bash
# Data flows down the list of folders and never back up: who includes what, checked from the sources.
# The list is the one in CMakeLists.txt (graphtap_component NAME DEPS …).
set -euo pipefail
source_dir=${GRAPHTAP_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)}

# includes DIR… : "file:line:header" of every #include below the folders that exist.
includes() {
  local dirs=() dir
  for dir in "$@"; do [[ -d $dir ]] && dirs+=("$dir"); done
  ((${#dirs[@]})) || return 0
  grep -rnHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' "${dirs[@]}" \
    --include='*.hpp' --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' \
    --include='*.in' | sed -E 's/^([^:]+:[0-9]+):[^<"]*[<"]([^>"]+)[>"].*/\1:\2/' || true
}

# violations ROOT: one line for each include that breaks a rule.
violations() (
  cd "$1"
  declare -A allowed=()
  local order=() name deps dep known where header folder
  while read -r name deps; do
    for dep in $deps; do
      known=" ${order[*]-} "
      [[ $known == *" $dep "* ]] || echo "CMakeLists.txt: $name may not depend on $dep, which comes later"
    done
    allowed[$name]=" $name $deps "
    order+=("$name")
  done < <(tr '\n' ' ' <CMakeLists.txt | grep -oE 'graphtap_component\([^)]*\)' |
    sed -E 's/graphtap_component\( *//; s/\)//; s/ LIBS .*//; s/ DEPS / /; s/ +/ /g')
  ((${#order[@]} >= 2)) || { echo "CMakeLists.txt names no components"; return; }

  while IFS=: read -r where line header; do
    folder=${where#src/}; folder=${folder%%/*}
    local target=${header%%/*}
    if [[ -v "allowed[$target]" && $header == */* && -v "allowed[$folder]" &&
          ${allowed[$folder]} != *" $target "* ]]; then
      echo "$where:$line: $folder/ may not include $header"
    fi
    if [[ $header == cli/* && $folder != cli ]]; then
      echo "$where:$line: only the command may include $header"
    fi
    if [[ $folder != cli && $header =~ ^(llama|ggml|gguf|torch/|ATen/|c10/|llama_cpp/) ]]; then
      echo "$where:$line: the core knows no engine: $header"
    fi
  done < <(includes src)

  while IFS=: read -r where line header; do
    if [[ $header =~ ^(cuda|cudart|cuda_runtime|driver_types|cooperative_groups|device_launch|nvtx|cub/|thrust/) &&
          $where != src/device/cuda/* ]]; then
      echo "$where:$line: only src/device/cuda may include $header"
    fi
  done < <(includes include src adapters)

  # What is installed must be complete: public headers know public headers and the standard library.
  while IFS=: read -r where line header; do
    if [[ $header == */* && $header != graphtap/* || $header == *.hpp && $header != graphtap/* ]]; then
      echo "$where:$line: a public header may not include $header"
    fi
  done < <(includes include/graphtap)
)

# The check itself must be able to fail: each planted include has to be reported, and nothing else.
self_check() {
  local work failed=0
  work=$(mktemp -d)
  trap 'rm -rf "$work"' RETURN
  plant() {  # FILE INCLUDE EXPECTED
    rm -rf "$work/tree"
    mkdir -p "$work/tree/$(dirname "$1")" "$work/tree/src/base"
    printf 'graphtap_component(base LIBS fmt::fmt)\ngraphtap_component(hooks DEPS base\n  LIBS x)\n%s\n' \
      'graphtap_component(plan DEPS base hooks)' >"$work/tree/CMakeLists.txt"
    printf '#include <vector>\n#include "base/x.hpp"\n' >"$work/tree/src/base/ok.cpp"
    printf '#pragma once\n  #  include %s\n' "$2" >"$work/tree/$1"
    local got
    got=$(violations "$work/tree")
    if [[ -z $3 && -n $got || -n $3 && $got != *"$3"* ]]; then
      echo "self check: $1 with $2: expected \"$3\", got \"$got\""
      failed=1
    fi
  }
  plant src/plan/a.cpp '"hooks/h.hpp"' ''
  plant src/hooks/a.cpp '"plan/p.hpp"' 'hooks/ may not include plan/p.hpp'
  plant src/base/a.hpp '"hooks/h.hpp"' 'base/ may not include hooks/h.hpp'
  plant src/plan/a.cpp '<cuda_runtime.h>' 'only src/device/cuda may include cuda_runtime.h'
  plant src/device/cuda/a.cu '<cuda_runtime.h>' ''
  plant adapters/x/a.cpp '<cuda.h>' 'only src/device/cuda may include cuda.h'
  plant src/plan/a.cpp '"llama.h"' 'the core knows no engine'
  plant src/plan/a.cpp '"cli/command.hpp"' 'only the command'
  plant include/graphtap/a.hpp '"plan/wire.hpp"' 'a public header may not include'
  plant include/graphtap/a.hpp '<nlohmann/json.hpp>' 'a public header may not include'
  plant include/graphtap/a.hpp '"graphtap/b.hpp"' ''
  return $failed
}

self_check
found=$(violations "$source_dir")
if [[ -n $found ]]; then
  echo "$found"
  exit 1
fi
echo "boundaries: $(cd "$source_dir" && includes include src adapters | wc -l) includes, all where they may be"
