#!/usr/bin/env bash
# usage: ./run soak   What takes too long for ./run test:
#   GRAPHTAP_SEEDS schedules in each property test (default 100000), plain and, a twentieth of them, under TSan;
#   the kill test ten times; each fuzz target for GRAPHTAP_FUZZ_SECONDS (default 300). About 40 minutes on 2 cores.
# The last line is "N passed, N failed".
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
seeds=${GRAPHTAP_SEEDS:-100000}
out=$root/test-out/soak
passed=0 failed=0
rm -rf "$out"
mkdir -p "$out"

# once NAME COMMAND…: one run counts as one.
once() {
  local name=$1 began=$SECONDS; shift
  if "$@" >"$out/$name.log" 2>&1; then
    ((passed += 1)); say "   ok $name ($((SECONDS - began)) s)"
  else
    ((failed += 1)); say "   FAILED $name ($((SECONDS - began)) s): $out/$name.log"
  fi
}
binaries() { find "$(build_dir "$1")/tests" -type f -name "$2" -perm -u+x ! -path '*/CMakeFiles/*' | sort; }

prepare test
prepare_engine
{ configure_release && build release; } || die "the release build failed"
say "== property tests, $seeds schedules each"
for binary in $(binaries release 'property_*'); do
  once "$(basename "$binary")" env GRAPHTAP_SEEDS="$seeds" "$binary"
done
say "== the kill test, ten times"
for binary in $(binaries release '*kill*'); do
  for round in {1..10}; do
    once "$(basename "$binary")-$round" env GRAPHTAP_SEED="$round" "$binary"
  done
done
say "== property tests under ThreadSanitizer, $((seeds / 20)) schedules each"
{ configure tsan && build tsan; } || die "the tsan build failed"
fixed_layout=()
setarch -R true 2>/dev/null && fixed_layout=(setarch -R)
for binary in $(binaries tsan 'property_*'); do
  once "tsan-$(basename "$binary")" env GRAPHTAP_SEEDS="$((seeds / 20))" TSAN_OPTIONS=halt_on_error=1 \
    "${fixed_layout[@]}" "$binary"
done
if [[ -f $root/tests/fuzz/CMakeLists.txt ]]; then
  say "== fuzzing, ${GRAPHTAP_FUZZ_SECONDS:-300} s a target"
  { configure fuzz && build fuzz; } || die "the fuzz build failed"
  "$root/scripts/fuzz.sh" "${GRAPHTAP_FUZZ_SECONDS:-300}" "$out/fuzz" || true
  read -r ok bad <"$out/fuzz/counts" || { ok=0; bad=1; }
  ((passed += ok, failed += bad)) || true
fi
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
