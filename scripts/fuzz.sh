#!/usr/bin/env bash
# usage: scripts/fuzz.sh SECONDS FOLDER   (after the preset fuzz is built)
# Runs each libFuzzer target for so long, two at a time, from the corpus in tests/fuzz.
# What was found goes to FOLDER; FOLDER/counts says "passed failed".
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
seconds=$1 out=$2
rm -rf "$out"
mkdir -p "$out"
fixed_layout=()
setarch -R true 2>/dev/null && fixed_layout=(setarch -R)

fuzz_one() {
  local target=$1 name; name=$(basename "$1")
  local work=$out/$name seeds=$root/tests/fuzz/corpus/$name arguments=()
  mkdir -p "$work/found"
  [[ -f $root/tests/fuzz/$name.dict ]] && arguments+=(-dict="$root/tests/fuzz/$name.dict")
  arguments+=("$work/found")  # new inputs go to the first folder; the seeds are only read
  [[ -d $seeds ]] && arguments+=("$seeds")
  if "${fixed_layout[@]}" "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
      -print_final_stats=1 -artifact_prefix="$work/" "${arguments[@]}" >"$work/log" 2>&1; then
    say "   ok $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log") inputs"
    echo pass >"$work/result"
  else
    say "   FAILED $name: $(grep -m1 -E 'ERROR|SUMMARY|runtime error' "$work/log" || tail -n1 "$work/log")"
    say "   input and log: $work"
    echo fail >"$work/result"
  fi
}

mapfile -t targets < <(find "$(build_dir fuzz)/tests/fuzz" -maxdepth 1 -type f -name '*_fuzz' -perm -u+x | sort)
((${#targets[@]})) || { say "   no fuzz target was built"; exit 1; }
for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= 2)); do wait -n || true; done
  fuzz_one "$target" &
done
wait
passed=$(cat "$out"/*/result | grep -c pass || true)
failed=$((${#targets[@]} - passed))
echo "$passed $failed" >"$out/counts"
((failed == 0))
