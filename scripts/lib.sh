# Sourced by run and the scripts beside it: where things lie, and how a preset is configured and built.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${GRAPHTAP_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME is not set; set GRAPHTAP_CACHE}/.cache}/graphtap}
[[ $cache == /* ]] || cache=$PWD/$cache
export GRAPHTAP_CACHE=$cache
export CCACHE_DIR=${CCACHE_DIR:-$cache/ccache}
jobs=${GRAPHTAP_JOBS:-$(nproc)}

# What ./run pack-deps put into the checkout, where this machine lacks it (or GRAPHTAP_DEPS=1 asks for it).
deps=$root/.deps
lacks_packages() {
  local header
  for header in CLI/CLI.hpp fmt/core.h spdlog/spdlog.h nlohmann/json.hpp sqlite3.h xxhash.h gtest/gtest.h; do
    [[ -e /usr/include/$header || -e /usr/local/include/$header ]] || return 0
  done
  return 1
}
use_deps=false
if [[ -f $deps/packages ]] && { [[ ${GRAPHTAP_DEPS:-0} == 1 ]] || lacks_packages; }; then
  use_deps=true
  export CMAKE_PREFIX_PATH=$deps${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  for folder in "$deps"/lib/*/pkgconfig "$deps/share/pkgconfig"; do
    export PKG_CONFIG_PATH=$folder${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  done
  unset folder
  PATH=$PATH:$deps/bin  # the machine's own pkg-config, if it has one, comes first
fi

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# Builds of two checkouts never meet: their folders carry a hash of the checkout's path.
build_dir() { echo "$cache/build/$1-$(printf %s "$root" | sha256sum | cut -c1-12)"; }

# configure PRESET OPTION…: only when the folder is new or the options are others than last time.
configure() {
  local preset=$1 dir; shift
  dir=$(build_dir "$preset")
  mkdir -p "$dir"
  local options
  options="$preset $* $(sha256sum <"$root/CMakePresets.json" | cut -c1-12)"
  if [[ -f $dir/build.ninja && -f $dir/options && $(<"$dir/options") == "$options" ]]; then return 0; fi
  # With other options cmake asks about its compilers anew; what they made stays.
  rm -rf "${dir:?}"/CMakeCache.txt "$dir"/CMakeFiles/[0-9]*
  local try
  for try in 1 2; do
    if (cd "$root" && cmake --preset "$preset" -B "$dir" "$@") >"$dir/configure.log" 2>&1; then
      echo "$options" >"$dir/options"
      return 0
    fi
    # What an older checkout or another compiler left behind is not worth keeping.
    if ((try == 1)) && [[ -f $dir/CMakeCache.txt ]]; then
      rm -rf "${dir:?}/CMakeCache.txt" "$dir/CMakeFiles"
    else
      break
    fi
  done
  say "cmake could not configure $preset:"
  tail -n 25 "$dir/configure.log" >&2
  return 1
}

# Reads ninja's output and says how far it is, at each fifth of the work. (awk would read in blocks.)
show_progress() {
  local line last=0 fifth
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    fifth=$((5 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    ((BASH_REMATCH[2] >= 10 && fifth > last)) || continue
    last=$fifth
    say "  built ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} ($1)"
  done
}

# build PRESET TARGET…: on failure what the compiler said.
build() {
  local preset=$1 dir; shift
  dir=$(build_dir "$preset")
  if NINJA_STATUS='[%f/%t] ' flock "$dir/lock" ninja -C "$dir" -j "$jobs" "$@" 2>&1 |
      tee "$dir/build.log" | show_progress "$preset"; then
    return 0
  fi
  say "the build of $preset failed ($dir/build.log):"
  grep -A3 -E '^FAILED|: (fatal )?error:|undefined reference|^ninja: error|^CMake Error' "$dir/build.log" |
    cut -c1-300 | head -n 30 >&2 || true
  return 1
}

# What demo, graphtap, test and bench share: packages, the engine, and one release build with the adapter.
# Tests and benchmarks are configured wherever their libraries are, so that nothing is built twice.
prepare() { $use_deps || "$root/scripts/install_packages.sh" build "$@"; }  # prepare [GROUP…]: those besides build
prepare_engine() { "$root/scripts/fetch_engine.sh"; }
has_header() { [[ -e /usr/include/$1 || -e /usr/local/include/$1 ]] || { $use_deps && [[ -e $deps/include/$1 ]]; }; }
# The compiler of the CUDA device: PATH's nvcc if it is new enough, else the fetched one; nothing if there is neither.
find_nvcc() {
  local nvcc version folder
  if nvcc=$(command -v nvcc); then
    version=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
    ((${version:-0} < 13)) || { echo "$nvcc"; return; }
  fi
  if folder=$("$root/scripts/fetch_cuda.sh" --dir); then echo "$folder/bin/nvcc"; fi
}
# For those who must compile it (./run test): fetches the compiler if there is none, and fails if that fails.
prepare_cuda() { [[ -n $(find_nvcc) ]] || "$root/scripts/fetch_cuda.sh"; }
configure_release() {
  local tests=OFF bench=OFF nvcc cuda=(-DGRAPHTAP_CUDA=OFF)
  nvcc=$(find_nvcc)
  [[ -z $nvcc ]] || cuda=(-DGRAPHTAP_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc")
  has_header gtest && tests=ON
  [[ -f $root/bench/CMakeLists.txt ]] && has_header benchmark && bench=ON
  configure release -DGRAPHTAP_LLAMA=ON -DGRAPHTAP_TESTS=$tests -DGRAPHTAP_BENCH=$bench "${cuda[@]}"
}

# The path of the built command, for demo.sh and `run graphtap`.
command_path() { find "$(build_dir release)" -maxdepth 3 -type f -name graphtap -perm -u+x | head -n1; }
build_command() {
  prepare
  prepare_engine
  configure_release
  build release graphtap_cli
}
