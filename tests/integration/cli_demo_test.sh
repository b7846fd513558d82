#!/usr/bin/env bash
# scripts/demo.sh: leaves a whole store and a page, is made anew each time, and never deletes what is not its own.
set -euo pipefail
source_dir=${GRAPHTAP_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)}
export GRAPHTAP=${GRAPHTAP_BUILD_DIR:?}/src/cli/graphtap
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
[[ -x $GRAPHTAP ]] || { echo "skipped: the command is not built"; exit 0; }

mkdir "$scratch/foreign"
echo "all my work" >"$scratch/foreign/thesis.txt"
if GRAPHTAP_DEMO_OUT=$scratch/foreign bash "$source_dir/scripts/demo.sh" >"$scratch/log" 2>&1; then
  fail "the demo took over a directory that is not its own"
fi
grep -q 'was not made by this demo' "$scratch/log" || fail "it does not say why: $(cat "$scratch/log")"
[[ $(<"$scratch/foreign/thesis.txt") == "all my work" ]] || fail "it touched a foreign file"

"$GRAPHTAP" run --list-hooks --json >"$scratch/log" 2>&1 || {
  echo "skipped: no engine or no model ($(tail -n1 "$scratch/log"))"; exit 0; }

export GRAPHTAP_DEMO_OUT=$scratch/out
for round in first second; do
  bash "$source_dir/scripts/demo.sh" >"$scratch/log" 2>&1 || fail "the $round demo: $(tail -n 20 "$scratch/log")"
  [[ $("$GRAPHTAP" ls "$scratch/out/store" --json | grep -c '"number"') == 1 ]] || fail "one run a store"
  "$GRAPHTAP" verify "$scratch/out/store" --deep --complete >/dev/null || fail "the store is not whole"
  [[ -s $scratch/out/report.html ]] || fail "there is no page"
done
# The table, the page's path, both halves of the story; and what the schedule left in the store.
for words in 'missing' "report  $scratch/out/report.html" 'tier specialised' ' 0 wrong' 'intact, complete'; do
  grep -qF -- "$words" "$scratch/log" || fail "the output lacks \"$words\""
done
table=$("$GRAPHTAP" ls "$scratch/out/store")
grep -qE 'resid_pre +0-19 ' <<<"$table" && grep -qE 'resid_pre +20-29 ' <<<"$table" ||
  fail "layers 20-29 should have more tokens than 0-19: $table"
echo "the demo leaves what it says"
