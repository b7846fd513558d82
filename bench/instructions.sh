#!/usr/bin/env bash
# usage: instructions.sh BUILD_DIR [OUT.json]   Instructions a call, counted by callgrind: plan of 36 hooks, plan of
# none, and the swap of the desired set with 1 and with 64 bound graphs.
set -euo pipefail
build=${1:?usage: instructions.sh BUILD_DIR [OUT.json]}
out=${2:-/dev/stdout}
program=$build/bench/instructions
[[ -x $program ]] || { echo "error: $program is not built" >&2; exit 1; }
command -v valgrind >/dev/null || { echo "error: valgrind is not installed" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count=200
rows=()
for case in plan:measured_plan empty:measured_empty swap1:measured_swap swap64:measured_swap; do
  name=${case%%:*}
  valgrind --tool=callgrind --collect-atstart=no --toggle-collect="${case#*:}" \
    --callgrind-out-file="$work/$name" "$program" "$name" "$count" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
  total=$(awk '/^(totals|summary):/ {print $2; exit}' "$work/$name")
  [[ ${total:-0} -gt 0 ]] || { echo "error: callgrind counted nothing for $name" >&2; exit 1; }
  rows+=("  \"$name\": {\"calls\": $count, \"instructions\": $total, \"per_call\": $((total / count))}")
done
{ echo "{"; printf '%s' "${rows[0]}"; printf ',\n%s' "${rows[@]:1}"; printf '\n}\n'; } >"$out"
