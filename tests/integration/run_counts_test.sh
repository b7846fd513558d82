#!/usr/bin/env bash
# The last line of ./run test is only worth something if its counts are right: every case, every script, and a
# failure for each binary that died without saying which case it was in.
set -euo pipefail
count=${GRAPHTAP_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)}/scripts/count_results.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/tests.json" <<'JSON'
{"tests": [{"name": "unit_a", "command": ["/b/unit_a"]}, {"name": "unit_crash", "command": ["/b/unit_crash"]},
           {"name": "unit_leak", "command": ["/b/unit_leak"]}, {"name": "script_ok", "command": ["/bin/bash", "x"]},
           {"name": "script_bad", "command": ["/bin/bash", "y"]}, {"name": "gone"}]}
JSON
cat >"$work/junit.xml" <<'XML'
<testsuite>
  <testcase name="unit_a" status="fail"><failure message="Failed"/></testcase>
  <testcase name="unit_crash" status="fail"><failure message="SEGFAULT"/></testcase>
  <testcase name="unit_leak" status="fail"><failure message="Failed"/></testcase>
  <testcase name="script_ok" status="run"><system-out>[ RUN ] x
said something</system-out></testcase>
  <testcase name="script_bad" status="fail"><failure message=""/><system-out>one line
why it failed

</system-out></testcase>
  <testcase name="gone" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>
XML
cat >"$work/unit_a.xml" <<'XML'
<testsuites><testsuite name="A">
  <testcase name="one" classname="A" status="run" result="completed"/>
  <testcase name="two" classname="A" status="run" result="completed"/>
  <testcase name="bad" classname="A" status="run" result="completed"><failure message="a.cpp:1&#10;boom"/></testcase>
  <testcase name="later" classname="A" status="run" result="skipped"><skipped message="no"/></testcase>
  <testcase name="off" classname="A" status="notrun" result="suppressed"/>
</testsuite></testsuites>
XML
# Every case passed and then the binary ended with an error: a leak, found at its end.
cat >"$work/unit_leak.xml" <<'XML'
<testsuites><testsuite name="L"><testcase name="one" classname="L" status="run" result="completed"/></testsuite></testsuites>
XML

expected='4 5 1
script_bad: failed: why it failed
gone: notrun
unit_a: A.bad: a.cpp:1
unit_crash: SEGFAULT
unit_leak: Failed'
got=$(python3 "$count" "$work")
if [[ $(sort <<<"$got") != $(sort <<<"$expected") || $(head -n1 <<<"$got") != "4 5 1" ]]; then
  printf 'expected:\n%s\ngot:\n%s\n' "$expected" "$got"
  exit 1
fi
[[ $(python3 "$count" "$work" script_ok) == "script_ok: said something" ]]
echo "counts: ok"
