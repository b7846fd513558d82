#!/usr/bin/env bash
# usage: ./run bench [ARGS…]   Runs every benchmark; ARGS go to each. Raw results: test-out/bench/*.json
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ -f $root/bench/CMakeLists.txt ]] || die "there are no benchmarks (bench/CMakeLists.txt)"
out=$root/test-out/bench
mkdir -p "$out"
prepare bench
prepare_engine
{ configure_release && build release; } || die "the release build failed"
mapfile -t binaries < <(find "$(build_dir release)/bench" -type f -name 'bench_*' -perm -u+x \
  ! -path '*/CMakeFiles/*' | sort)
((${#binaries[@]})) || die "no benchmark was built"
status=0
for binary in "${binaries[@]}"; do
  name=$(basename "$binary")
  say "== $name"
  "$binary" --benchmark_out="$out/$name.json" --benchmark_out_format=json "$@" || { status=1; say "FAILED $name"; }
done
say "raw results: $out"
exit $status
