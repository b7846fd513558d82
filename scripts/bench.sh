#!/usr/bin/env bash
# usage: ./run bench [ARGS…]   Runs every CPU benchmark; ARGS go to each. Raw results: bench/results/cpu/
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prepare bench
prepare_engine
{ configure_release && build release; } || die "the release build failed"
exec "$root/bench/run_bench.sh" "$(build_dir release)" "$@"
