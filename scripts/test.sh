#!/usr/bin/env bash
# usage: ./run test [STAGE…]   stages: release python teeth asan fuzz tsan (default: all, in this order)
# Everything that can be checked on this machine. Each stage says what it did and how long it took; the last
# line is "N passed, N failed" over all of them. Reports and logs lie in test-out/.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Random schedules a property test runs under a sanitizer, which is 3 to 10 times slower.
asan_seeds=${GRAPHTAP_SEEDS:-1500}
tsan_seeds=${GRAPHTAP_SEEDS:-300}
fuzz_seconds=${GRAPHTAP_FUZZ_SECONDS:-10}
out=$root/test-out
all_passed=0 all_failed=0
summary=()

# record STAGE PASSED FAILED SKIPPED SECONDS
record() {
  ((all_passed += $2, all_failed += $3)) || true
  local line
  line=$(printf '%-8s %5d passed %4d failed %4d skipped  %4d s' "$1" "$2" "$3" "$4" "$5")
  summary+=("$line")
  say "   $line"
}

# fail_stage STAGE WHAT: a stage that could not even run its tests is one failure.
fail_stage() { say "   FAILED $1: $2"; record "$1" 0 1 0 "$((SECONDS - began))"; }

# Sanitizers need a fixed memory layout where the kernel randomises it more than they can follow.
fixed_layout=()
setarch -R true 2>/dev/null && fixed_layout=(setarch -R)

# run_ctest STAGE PRESET [VARIABLE=VALUE…]: the whole suite of one build.
run_ctest() {
  local stage=$1 dir; dir=$(build_dir "$2"); shift 2
  local results=$out/$stage
  rm -rf "$results"
  mkdir -p "$results"
  (cd "$dir" && ctest --show-only=json-v1) >"$results/tests.json"
  # Names and times as they come; what a failing test printed is in the log.
  (cd "$dir" && env "$@" GTEST_OUTPUT="xml:$results/" \
      "${fixed_layout[@]}" ctest -j2 --output-on-failure \
      --test-output-size-passed 100000 --output-junit "$results/junit.xml") 2>&1 |
    tee "$results/log" | grep -E '^ *[0-9]+/[0-9]+ Test ' >&2 || true
  [[ -f $results/junit.xml ]] || { fail_stage "$stage" "ctest did not run"; return; }
  local counts
  counts=$(python3 "$root/scripts/count_results.py" "$results")
  tail -n +2 <<<"$counts" | sed 's/^/   FAILED /' >&2
  # How often each thing happened in the random schedules.
  python3 "$root/scripts/count_results.py" "$results" property_ | sed 's/^/   /' >&2
  local passed failed skipped
  read -r passed failed skipped <<<"$(head -n1 <<<"$counts")"
  ((passed + failed > 0)) || { fail_stage "$stage" "no test ran"; return; }
  ((failed == 0)) || say "   what they printed: $results/log"
  record "$stage" "$passed" "$failed" "$skipped" "$((SECONDS - began))"
}

stage_release() {
  prepare_engine || { fail_stage release "the engine could not be fetched or built"; return; }
  # The CUDA device is compiled here too; its tests are skipped where there is no GPU.
  prepare_cuda || { fail_stage release "there is no nvcc 13.0, and scripts/fetch_cuda.sh could not fetch it"; return; }
  { configure_release && build release; } || { fail_stage release "it does not build"; return; }
  local nvcc python
  nvcc=$(find_nvcc)
  python=$("$root/scripts/python_env.sh") || { fail_stage release "no Python environment"; return; }
  run_ctest release release CUDAToolkit_ROOT="${nvcc%/bin/nvcc}" GRAPHTAP_PYTHON="$python"
}

# The Python package, built as it lies in the tree, under pytest; its notebook needs the command and the model.
stage_python() {
  local python dir results=$out/python model
  (build_command) >/dev/null 2>&1 || { fail_stage python "the graphtap command does not build"; return; }
  model=$("$root/scripts/fetch_engine.sh" --model-path)
  python=$("$root/scripts/python_env.sh") || { fail_stage python "no Python environment"; return; }
  dir=$(build_dir python)
  { configure python -DPython_EXECUTABLE="$python" && build python graphtap_python graphtap_store_fixture; } ||
    { fail_stage python "it does not build"; return; }
  rm -rf "$results"
  mkdir -p "$results"
  # -p no:cacheprovider: the checkout stays as it is.
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$dir/python GRAPHTAP_FIXTURE=$dir/tests/graphtap_store_fixture \
    GRAPHTAP_COMMAND=$(command_path) GRAPHTAP_MODEL=$model \
    "$python" -m pytest -q -p no:cacheprovider --junit-xml="$results/junit.xml" "$root/tests/python" \
    >"$results/log" 2>&1 || tail -n 40 "$results/log" >&2
  [[ -f $results/junit.xml ]] || { fail_stage python "pytest did not run"; return; }
  local passed failed skipped
  read -r passed failed skipped < <("$python" - "$results/junit.xml" <<'PYTHON'
import sys, xml.etree.ElementTree as ET
suite = ET.parse(sys.argv[1]).getroot().find("testsuite")
total, failed, skipped = (int(suite.get(key)) for key in ("tests", "failures", "skipped"))
failed += int(suite.get("errors"))
print(total - failed - skipped, failed, skipped)
PYTHON
  )
  ((passed + failed > 0)) || { fail_stage python "no test ran"; return; }
  record python "$passed" "$failed" "$skipped" "$((SECONDS - began))"
}

# Each deliberate bug must be caught by the suite that is named for it.
stage_teeth() {
  [[ -f $(build_dir release)/build.ninja ]] || { fail_stage teeth "needs the release build"; return; }
  local passed failed
  "$root/tests/teeth/run_teeth.sh" --build "$(build_dir release)" --jobs "$jobs" \
    --report "$out/teeth.txt" >&2 || true
  read -r passed failed <"$out/teeth.txt" || { fail_stage teeth "no report"; return; }
  record teeth "$passed" "$failed" 0 "$((SECONDS - began))"
}

# The engine is plain C++ that nobody instruments: fine for ASan, useless noise for TSan.
stage_asan() {
  prepare_engine || { fail_stage asan "the engine could not be fetched or built"; return; }
  { configure asan-ubsan -DGRAPHTAP_LLAMA=ON && build asan-ubsan; } ||
    { fail_stage asan "it does not build"; return; }
  run_ctest asan asan-ubsan GRAPHTAP_SEEDS="$asan_seeds" \
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
}

stage_tsan() {
  { configure tsan && build tsan; } || { fail_stage tsan "it does not build"; return; }
  run_ctest tsan tsan GRAPHTAP_SEEDS="$tsan_seeds" TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
}

stage_fuzz() {
  if [[ ! -f $root/tests/fuzz/CMakeLists.txt ]]; then
    say "   skipped: there are no fuzz targets (tests/fuzz)"
    return
  fi
  { configure fuzz && build fuzz; } || { fail_stage fuzz "it does not build"; return; }
  local passed failed
  "$root/scripts/fuzz.sh" "$fuzz_seconds" "$out/fuzz" || true
  read -r passed failed <"$out/fuzz/counts" || { fail_stage fuzz "no target ran"; return; }
  record fuzz "$passed" "$failed" 0 "$((SECONDS - began))"
}

stages=("$@")
((${#stages[@]})) || stages=(release python teeth asan fuzz tsan)
for stage in "${stages[@]}"; do
  declare -F "stage_$stage" >/dev/null || die "unknown stage: $stage (release python teeth asan fuzz tsan)"
done

# Whatever happens, the last line says how it went; ending before the last stage is a failure.
ended=false
finish() {
  $ended || { ((all_failed += 1)); say "   FAILED: ended early, in ${stage:-the preparation}"; }
  say "== summary ($((SECONDS / 60)) min $((SECONDS % 60)) s)"
  local line
  for line in ${summary[@]+"${summary[@]}"}; do say "   $line"; done
  echo "$all_passed passed, $all_failed failed"
  ((all_failed == 0 && all_passed > 0)) && exit 0
  exit 1
}
trap finish EXIT
trap 'exit 130' INT TERM

mkdir -p "$out"
stage=""
prepare test
for stage in "${stages[@]}"; do
  began=$SECONDS
  say "== $stage (at $((SECONDS / 60)) min $((SECONDS % 60)) s)"
  "stage_$stage"
done
ended=true
