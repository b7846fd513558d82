#!/usr/bin/env bash
# usage: ./run gpu-test [--out DIR] [--seeds N] [--force] [STAGE…]   stages: build test sanitize bench (default: all)
# On a machine with a GPU: builds the library, the tests in tests/gpu, bench/cuda and examples/cuda_decode for it; runs
# the tests; runs them under compute-sanitizer; runs the benchmarks, whose results go to bench/results/h200.
# The last line is "N passed, N failed". When all four stages have passed on the same sources, in one call or in
# several, STAMP there holds the hash of those sources (./run gpu-stamp); otherwise STAMP.failed says why not.
#   --out DIR   a further place for the results, the stamp, the summary and the logs
#   --seeds N   random schedules a property test runs (default: its own choice, 2000; a few under compute-sanitizer)
#   --force     benchmarks and stamp even though a test failed (the stamp is then STAMP.failed)
# Reports and logs lie in test-out/gpu/. No network is needed; for packages see ./run pack-deps.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

# What runs under compute-sanitizer: TOOL BINARY SEEDS FILTER. Of the lines that fit a binary the last one counts; a
# dash for the seeds leaves it out. Left out of all: what takes all memory, and what breaks the device on purpose.
readonly never='*OutOfMemory*:*StickyError*:*DeathTest*'
readonly sanitizer_table="
memcheck   gpu_*          15  -$never
racecheck  gpu_*           5  -$never
initcheck  gpu_*           5  -$never
synccheck  gpu_*           5  -$never
memcheck   gpu_producer  150  -$never
racecheck  gpu_producer   80  -$never
initcheck  gpu_producer   80  -$never
synccheck  gpu_producer   80  -$never
"
readonly all_stages=(build test sanitize bench)
declare -rA limits=([build]=300 [test]=420 [sanitize]=540 [bench]=420)  # seconds a stage may take
readonly sanitizers_at_once=${GRAPHTAP_SANITIZERS:-8}

results=$root/bench/results/h200 copy_to="" seeds=${GRAPHTAP_SEEDS:-} force=false stages=()
while (($#)); do
  case $1 in
    --out) copy_to=${2:?--out needs a folder}; shift ;;
    --seeds) seeds=${2:?--seeds needs a number}; shift ;;
    --force) force=true ;;
    build|test|sanitize|bench) stages+=("$1") ;;
    *) die "unknown argument: $1 (stages: ${all_stages[*]}; --out DIR --seeds N --force)" ;;
  esac
  shift
done
((${#stages[@]})) || stages=("${all_stages[@]}")
[[ -z $copy_to || $copy_to == /* ]] || copy_to=$PWD/$copy_to

out=$root/test-out/gpu
mkdir -p "$out" "$results"
stamp=$("$root/scripts/gpu_stamp.sh")
dir=$(build_dir gpu)
passed=0 failed=0

# Where CUDA is usually installed, after what PATH says.
for folder in "${CUDA_HOME:-}" /usr/local/cuda /opt/cuda; do
  [[ -z $folder ]] || PATH=$PATH:$folder/bin:$folder/compute-sanitizer
done
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; }

# counted PASSED FAILED: adds to the stage that runs.
counted() { ((stage_passed += $1, stage_failed += $2)) || true; }
# one NAME SECONDS COMMAND…: a program that passes or fails as a whole; its output is kept.
one() {
  local name=$1 limit=$2 began=$SECONDS status=0; shift 2
  timeout -k 10 "$limit" "$@" >"$out/$stage/$name.log" 2>&1 || status=$?
  if ((status == 0)); then
    say "   ok $name ($((SECONDS - began)) s)"
  else
    ((status == 124 || status == 137)) && status="time limit of $limit s"
    say "   FAILED $name ($status; $((SECONDS - began)) s): $out/$stage/$name.log"
    tail -n 12 "$out/$stage/$name.log" | sed 's/^/      /' >&2
    return 1
  fi
}
left() { local rest=$((limits[$stage] - (SECONDS - began))); echo $((rest > 1 ? rest : 1)); }
binaries() { find "$dir/$1" -type f -name "$2" -perm -u+x ! -path '*/CMakeFiles/*' 2>/dev/null | sort; }

# GoogleTest as a package of sources only: built once into the cache.
ensure_gtest() {
  $use_deps && return
  local from=/usr/src/googletest to=$cache/googletest
  if compgen -G '/usr/lib/*/libgtest.a' || compgen -G '/usr/*lib/libgtest.a' || [[ ! -f $from/CMakeLists.txt ]]; then
    return 0  # there, or cmake will say that it is not
  fi >/dev/null
  [[ -d $to ]] || { cmake -S "$from" -B "$cache/scratch/googletest" -DCMAKE_INSTALL_PREFIX="$to" -DBUILD_GMOCK=OFF &&
    cmake --build "$cache/scratch/googletest" -j "$jobs" --target install; } >"$out/build/googletest.log" 2>&1 || return 1
  export CMAKE_PREFIX_PATH=$to${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
}

stage_build() {
  prepare test || return 1
  ensure_gtest || { say "   GoogleTest could not be built: $out/build/googletest.log"; return 1; }
  local nvcc architectures=90 targets=() target
  nvcc=$(command -v nvcc) || { say "   there is no nvcc on PATH"; return 1; }
  has_gpu && architectures=native
  configure gpu -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES="$architectures" || return 1
  # g++ may be newer than the one whose warnings are errors here (GRAPHTAP_WERROR is OFF for its own files).
  export NVCC_APPEND_FLAGS="${NVCC_APPEND_FLAGS:-} -Xcompiler=-Wno-error"
  # A toolkit without cuBLAS beside a Python that has it: for examples/cuda_decode.
  CUBLAS_ROOT=${CUBLAS_ROOT:-$(python3 -c 'import nvidia.cu13 as m; print(list(m.__path__)[0])' 2>/dev/null || true)}
  export CUBLAS_ROOT
  # Only what the later stages run.
  for target in tests/gpu bench/cuda examples/cuda_decode; do
    [[ ! -d $dir/$target ]] || targets+=("$target/all")
  done
  ((${#targets[@]})) || { say "   neither tests/gpu nor bench/cuda is part of the build"; return 1; }
  build gpu "${targets[@]}" || return 1
  counted 1 0
}

stage_test() {
  [[ -n $(binaries tests/gpu 'gpu_*') ]] || { say "   there are no gpu_* tests in $dir"; return 1; }
  (cd "$dir" && ctest --show-only=json-v1 -R '^gpu_') >"$out/test/tests.json"
  local set_seeds=(env -u GRAPHTAP_SEEDS)
  [[ -z $seeds ]] || set_seeds=(env GRAPHTAP_SEEDS="$seeds")
  (cd "$dir" && GTEST_OUTPUT="xml:$out/test/" "${set_seeds[@]}" timeout -k 10 "$(left)" ctest -R '^gpu_' -j1 \
      --output-on-failure --test-output-size-passed 100000 --output-junit "$out/test/junit.xml") 2>&1 |
    tee "$out/test/log" | grep -E '^ *[0-9]+/[0-9]+ Test ' >&2 || true
  [[ -f $out/test/junit.xml ]] || { say "   ctest did not end: $out/test/log"; return 1; }
  local counts good bad skipped
  counts=$(python3 "$root/scripts/count_results.py" "$out/test")
  tail -n +2 <<<"$counts" | sed 's/^/   FAILED /' >&2
  python3 "$root/scripts/count_results.py" "$out/test" gpu_ | sed 's/^/   /' >&2
  read -r good bad skipped <<<"$(head -n1 <<<"$counts")"
  say "   $good passed, $bad failed, $skipped skipped"
  ((good + bad)) || { say "   no test ran: is there a GPU?"; return 1; }
  counted "$good" "$bad"
}

# sanitizer_row TOOL BINARY: "SEEDS FILTER" of the last line of the table that fits.
sanitizer_row() {
  local tool pattern count filter row=""
  while read -r tool pattern count filter; do
    # shellcheck disable=SC2053  # a pattern
    [[ $tool == "$1" && $2 == $pattern ]] && row="$count $filter"
  done <<<"$sanitizer_table"
  echo "$row"
}
sanitize_one() {
  local tool=$1 binary=$2 count=$3 filter=$4 options=()
  local name; name=$tool-$(basename "$binary")
  # Errors that calls return are the tests' business: some provoke them.
  [[ $tool == memcheck ]] && options=(--report-api-errors no)
  one "$name" "$(left)" env GRAPHTAP_SEEDS="$count" GRAPHTAP_SANITIZER="$tool" \
    compute-sanitizer --tool "$tool" --error-exitcode 99 "${options[@]}" "$binary" --gtest_filter="$filter" &&
    echo passed >"$out/sanitize/$name.outcome"
}
stage_sanitize() {
  command -v compute-sanitizer >/dev/null || { say "   there is no compute-sanitizer on PATH"; return 1; }
  local tool binary count filter started=0 good
  for tool in memcheck racecheck initcheck synccheck; do
    for binary in $(binaries tests/gpu 'gpu_*'); do
      read -r count filter <<<"$(sanitizer_row "$tool" "$(basename "$binary")")"
      [[ -n $count && $count != - ]] || continue
      while (($(jobs -pr | wc -l) >= sanitizers_at_once)); do wait -n || true; done
      sanitize_one "$tool" "$binary" "$count" "$filter" &
      ((started += 1))
    done
  done
  wait
  ((started)) || { say "   nothing to run"; return 1; }
  good=$(find "$out/sanitize" -name '*.outcome' | wc -l)
  counted "$good" "$((started - good))"
}

stage_bench() {
  local binary name ran=0 sampler
  # What the card did meanwhile: a clock that was held down explains a slow run.
  nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active \
    --format=csv,nounits -l 2 >"$out/bench/clocks.csv" 2>/dev/null &
  sampler=$!
  for binary in $(binaries bench/cuda 'bench_cuda_*') $(binaries examples/cuda_decode cuda_decode); do
    name=$(basename "$binary")
    # The results name their command: without where the checkout lies, if it is called from there.
    local to=${results#"$PWD/"}
    local arguments=(--out "$to")
    [[ $name == cuda_decode ]] && arguments=(--check --json "$to/cuda_decode.json")
    if one "$name" "$(left)" "$binary" "${arguments[@]}" --stamp "$stamp"; then
      counted 1 0
      sed 's/^/   /' "$out/bench/$name.log" >&2
    else
      counted 0 1
    fi
    ((ran += 1))
  done
  kill "$sampler" 2>/dev/null || true
  ((ran)) || { say "   there are no benchmarks in $dir"; return 1; }
  # Statistics must follow from the samples; missed targets are shown, and are no failure.
  if one check_results 60 python3 "$root/bench/cuda/check_results.py" --stamp "$stamp" "$results"; then
    counted 1 0
  else
    counted 0 1
  fi
  grep -E '^ +(PASS|MISS)' "$out/bench/check_results.log" >&2 || true
}

# Copies the results and the logs to --out.
keep() {
  [[ -n $copy_to ]] || return 0
  mkdir -p "$copy_to"
  find "$results" -maxdepth 1 -type f -exec cp -t "$copy_to" {} +
  tar -C "$out" -czf "$copy_to/logs.tar.gz" .
}

# run_stage STAGE: its counts go to a file with the stamp, so that calls of one stage each add up.
run_stage() {
  stage=$1 began=$SECONDS stage_passed=0 stage_failed=0
  say "== $stage"
  rm -rf "${out:?}/$stage" "$out/$stage.result"
  mkdir -p "$out/$stage"
  if [[ $stage == bench ]] && ! $force && ! passed_here test; then
    say "   not run: the tests have not passed on these sources (--force)"
    counted 0 1
  else
    "stage_$stage" || { say "   FAILED $stage"; counted 0 1; }
  fi
  echo "$stamp $stage_passed $stage_failed $((SECONDS - began))" >"$out/$stage.result"
  keep  # whoever ends this run before its end still has what there was
  ((passed += stage_passed, failed += stage_failed)) || true
}
# passed_here STAGE: it has, on the sources as they are now.
passed_here() {
  local of good bad rest
  [[ -f $out/$1.result ]] && read -r of good bad rest <"$out/$1.result" || return 1
  [[ $of == "$stamp" ]] && ((bad == 0 && good > 0))
}

write_stamp() {
  local stage of good bad seconds why=()
  {
    printf '%-10s %7s %7s %8s\n' stage passed failed seconds
    for stage in "${all_stages[@]}"; do
      if [[ -f $out/$stage.result ]] && read -r of good bad seconds <"$out/$stage.result" && [[ $of == "$stamp" ]]; then
        printf '%-10s %7d %7d %8d\n' "$stage" "$good" "$bad" "$seconds"
      else
        printf '%-10s %7s\n' "$stage" "not run"
      fi
    done
    nvidia-smi --query-gpu=name,uuid,driver_version --format=csv,noheader 2>/dev/null || echo "no GPU"
    echo "stamp $stamp, $(date -u +%FT%TZ)${seeds:+, $seeds schedules a property test}"
  } >"$results/summary.txt"
  for stage in "${all_stages[@]}"; do passed_here "$stage" || why+=("$stage"); done
  rm -f "$results/STAMP" "$results/STAMP.failed"
  [[ $("$root/scripts/gpu_stamp.sh") == "$stamp" ]] || why+=("the sources changed meanwhile")
  if ((${#why[@]} == 0)); then
    echo "$stamp" >"$results/STAMP"
  else
    printf '%s\nnot passed:%s\n' "$stamp" "$(printf ' %s' "${why[@]}")" >"$results/STAMP.failed"
  fi
  cat "$results/summary.txt"
}

# Whatever happens, the last line says how it went.
ended=false
finish() {
  $ended || { ((failed += 1)) || true; say "   FAILED: ended early, in ${stage:-the preparation}"; }
  write_stamp
  keep
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0)) && exit 0
  exit 1
}
stage=""
trap finish EXIT
trap 'exit 130' INT TERM

for stage in "${stages[@]}"; do run_stage "$stage"; done
ended=true
