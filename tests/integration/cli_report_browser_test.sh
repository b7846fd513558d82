#!/usr/bin/env bash
# The page in a real browser, where there is one: it runs its script without an error, loads nothing, shows one
# figure of those it has, and answers a choice.
set -euo pipefail
graphtap=${GRAPHTAP_BUILD_DIR:?}/src/cli/graphtap
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[[ -n $browser ]] || { echo "skipped: no Chromium here"; exit 0; }
[[ -x $graphtap ]] || { echo "skipped: the command is not built"; exit 0; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

"$graphtap" graph --tier soft --layers 6 --requests 4 --at 20:none --at 30:resid_pre:2-3 \
  --store "$scratch/store" --quiet >/dev/null
"$graphtap" report "$scratch/store" --out "$scratch/page.html" >/dev/null
figures=$(grep -c '<div class="figure pick"' "$scratch/page.html")
cells=$(grep -c '<rect class="v"' "$scratch/page.html")
((figures == 16 && cells > 1000)) || fail "$figures figures, $cells cells"

# What the page's own script made of the page, and what a choice changes.
cat >"$scratch/probe.js" <<'JS'
<script>
window.onerror = function (message) { document.title = 'error: ' + message; };
</script>
JS
cat >"$scratch/after.js" <<'JS'
<script>
var shown = function () {
  return Array.from(document.querySelectorAll('.figure')).filter(function (f) { return f.offsetParent; }); };
var first = shown();
var hook = document.getElementById('hook'), request = document.getElementById('request');
hook.value = 'mlp_out'; hook.onchange();
request.value = '2'; request.onchange();
var second = shown();
var cell = second[0].querySelector('rect.v');
cell.dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: 300, clientY: 300}));
if (document.title.indexOf('error') < 0) {
  document.title = ['shown', first.length, second.length, second[0].dataset.hook, second[0].dataset.request,
    document.getElementById('tip').textContent, performance.getEntriesByType('resource').length].join('|');
}
</script>
JS
sed -e "/<title>graphtap/{
r $scratch/probe.js
}" -e "/<\/body>/{
r $scratch/after.js
}" "$scratch/page.html" >"$scratch/probed.html"

timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" \
  --dump-dom "file://$scratch/probed.html" >"$scratch/dom" 2>"$scratch/log" ||
  fail "the browser: $(tail -n 5 "$scratch/log")"
title=$(grep -m1 -oE '<title>[^<]*' "$scratch/dom")
title=${title#<title>}
[[ $title =~ ^shown\|1\|1\|mlp_out\|2\|token\ [0-9]+,\ .*:\ [0-9.e+]+\|0$ ]] ||
  fail "the page says: $title"
echo "the page works: $title"
