#!/usr/bin/env bash
# usage: scripts/demo.sh   (./run demo)
# Several prompts at once through a small real model, hooks switched while it generates; the same schedule on
# captured graphs; the store verified; the result as a page. Leaves demo-out/store and demo-out/report.html.
#   GRAPHTAP           the built command (default: built here)
#   GRAPHTAP_DEMO_OUT  where to (default: demo-out in the checkout; made anew each time)
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

out=${GRAPHTAP_DEMO_OUT:-$root/demo-out}
marker=$out/.graphtap-demo
if [[ -e $out && ! -f $marker ]]; then
  if [[ ! -d $out || -n $(ls -A "$out") ]]; then
    die "$out was not made by this demo; move it away, or set GRAPHTAP_DEMO_OUT"
  fi
fi

graphtap=${GRAPHTAP:-}
if [[ -z $graphtap ]]; then
  build_command
  graphtap=$(command_path)
fi
[[ -x $graphtap ]] || die "GRAPHTAP is $graphtap, which is no program"

rm -rf "$out"
mkdir -p "$out"
touch "$marker"

# From all layers to none to a few and back. A step is one call of the engine.
everything="residual,attn_out,mlp_out,token_ids"
schedule=(--hooks "$everything" --at 20:none --at 34:resid_pre:20-29 --at 48:"$everything")
cat >"$out/prompts.txt" <<'TEXT'
What is the capital of France, and which river runs through it?
Write one sentence about the sea.
Count from one to twenty.
Why is the sky blue? Explain it to a child.
Name three animals that live in Africa, and say what each of them eats.
Translate to French: The house is on the hill.
TEXT

heading() { printf '\n== %s\n' "$*"; }
shown() {
  local word line='$ graphtap'
  for word in "$@"; do
    [[ $word == *[!A-Za-z0-9_./:,=+-]* ]] && word="'$word'"
    line+=" $word"
  done
  printf '%s\n' "$line"
  "$graphtap" "$@"
}

heading "Six prompts, four at once, hooks switched while the model generates"
shown run --prompt-file "$out/prompts.txt" --chat --max-tokens 40 --sequences 4 "${schedule[@]}" \
  --store "$out/store" --name demo

heading "The same schedule on captured graphs, where a switch changes what a replay costs"
shown graph --requests 10 "${schedule[@]}"

heading "Is what was stored whole?"
shown verify "$out/store" --deep --complete

heading "The picture"
shown report "$out/store" --out "$out/report.html"
printf '\nstore   %s\nreport  %s   (open it in a browser)\n' "$out/store" "$out/report.html"
