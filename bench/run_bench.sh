#!/usr/bin/env bash
# usage: run_bench.sh BUILD_DIR [ARGS…]   Runs every bench_* of the build; ARGS go to each. Every repetition, every
# latency and the instruction counts are kept, with the machine's load at the time (in each file's context).
#   GRAPHTAP_BENCH_OUT      where to (default bench/results/cpu)
#   GRAPHTAP_BENCH_REPEAT   repetitions of each benchmark (default 5)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
build=${1:?usage: run_bench.sh BUILD_DIR [ARGS…]}
shift
out=${GRAPHTAP_BENCH_OUT:-$here/results/cpu}
mkdir -p "$out"
export GRAPHTAP_BENCH_SAMPLES=$out/capture_to_readable.ns
status=0
for binary in "$build"/bench/bench_*; do
  [[ -x $binary && -f $binary ]] || continue
  name=$(basename "$binary")
  repeat=${GRAPHTAP_BENCH_REPEAT:-5}
  [[ $name == bench_latency || $name == bench_store ]] && repeat=1  # these repeat by themselves
  echo "== $name" >&2
  "$binary" --benchmark_repetitions="$repeat" --benchmark_out="$out/$name.json" \
    --benchmark_out_format=json "$@" || status=1
  # Whose machine it was and where the build lay is nobody's business.
  sed -i -e '/"host_name":/d' -e "s|\"executable\": \".*/|\"executable\": \"|" "$out/$name.json"
done
if command -v valgrind >/dev/null; then
  echo "== instructions" >&2
  "$here/instructions.sh" "$build" "$out/instructions.json" || status=1
else
  echo "valgrind is not installed: no instruction counts" >&2
fi
exit $status
