#!/usr/bin/env bash
# Fetches the CUDA compiler and static runtime into a cache outside the checkout, for machines without them (a GPU is
# not needed): five pinned wheels of NVIDIA's, unpacked into one folder as a toolkit lies. 100 MiB, once.
# A second run finds the stamp and ends at once. Nothing is installed outside the cache.
set -euo pipefail

# package version sha256
readonly wheels='
nvidia-cuda-nvcc    13.0.88 56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03
nvidia-cuda-runtime 13.0.96 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-nvvm         13.0.88 c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0
nvidia-cuda-crt     13.0.88 2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4
nvidia-cuda-cccl    13.0.85 e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649
'
readonly platform=manylinux2014_x86_64.manylinux_2_17_x86_64
readonly recipe=1  # raise it when what is done with the wheels changes

usage() {
  cat <<TEXT
usage: scripts/fetch_cuda.sh [--dir | --help]

  (nothing)   fetch what is missing; ends in under a second when nothing is
  --dir       print where the toolkit lies (bin/nvcc, include/, lib64/) if it is there, else fail

  GRAPHTAP_CACHE  the cache folder (default: \${XDG_CACHE_HOME:-~/.cache}/graphtap)

Without a network, put the wheels into the cache's downloads/ folder first.
Exit codes: 0 done, 1 failed, 2 wrong usage.
TEXT
}
say() { printf 'cuda: %s\n' "$*" >&2; }
die() { printf 'cuda: error: %s\n' "$*" >&2; exit 1; }

cache=${GRAPHTAP_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME is not set; set GRAPHTAP_CACHE}/.cache}/graphtap}
[[ $cache == /* ]] || cache=$PWD/$cache
toolkit=$cache/cuda-13.0
stamp="recipe $recipe$wheels"
ready() { [[ -f $toolkit/stamp && $(<"$toolkit/stamp") == "${stamp%$'\n'}" ]]; }

case ${1:-} in
  '') ;;
  --dir) ready || exit 1; echo "$toolkit"; exit 0 ;;
  -h|--help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
ready && exit 0
[[ $(uname -m) == x86_64 ]] || die "the pinned wheels are for x86-64; install CUDA 13.0 so that nvcc is on PATH"

mkdir -p "$cache"/{downloads,scratch} || die "cannot write to the cache $cache"
exec 9>"$cache/lock"
flock -n 9 || { say "waiting for another run that is filling $cache"; flock 9; }
ready && exit 0
work=$(mktemp -d "$cache/scratch/cuda.XXXXXX")
trap 'rm -rf "$work"' EXIT
# shellcheck source=scripts/fetch_lib.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/fetch_lib.sh"

files=()
while read -r package version sha; do
  [[ -n $package ]] || continue
  tag=$platform
  [[ $package == nvidia-nvvm ]] && tag=manylinux2010_x86_64.manylinux_2_12_x86_64
  file=${package//-/_}-$version-py3-none-$tag.whl
  fetch "$file" "$sha" "$package==$version" --only-binary :all:
  files+=("$cache/downloads/$file")
done <<<"$wheels"

python3 - "$work/unpacked" "${files[@]}" <<'TEXT'
import sys, zipfile
for wheel in sys.argv[2:]:
    zipfile.ZipFile(wheel).extractall(sys.argv[1])
TEXT
new=$work/unpacked/nvidia/cu13
chmod +x "$new"/bin/* "$new"/nvvm/bin/*
ln -s lib "$new/lib64"
ln -s libcudart.so.13 "$new/lib/libcudart.so"  # a wheel holds no links; cmake looks for it
mkdir -p "$new/licenses"
cp "$work"/unpacked/*.dist-info/licenses/* "$new/licenses/" 2>/dev/null || true
# What is kept must compile and link here, with nothing else on PATH to help it.
cat >"$work/try.cu" <<'TEXT'
#include <cuda_bf16.h>
__global__ void kernel(__nv_bfloat16* one) { *one = 1.0f; }
int main() { kernel<<<1, 1>>>(nullptr); }
TEXT
"$new/bin/nvcc" -std=c++20 -arch=sm_90 -cudart static -o "$work/try" "$work/try.cu" >"$work/try.log" 2>&1 ||
  die "the fetched compiler does not work here:"$'\n'"$(tail -n 15 "$work/try.log")"
rm -rf "$toolkit"
mv "$new" "$toolkit"
printf '%s\n' "${stamp%$'\n'}" >"$toolkit/stamp"
say "ready: $toolkit"
