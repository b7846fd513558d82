#pragma once

namespace graphtap::cli {

inline constexpr const char* kPageStyle = R"(
:root { color-scheme: light dark; --page: #fbfbf9; --ink: #1d1d1f; --soft: #55555a; --card: #fff; --line: #dddcd6;
  --head: #f2f1ec; --quote: #f7f6f1; --off: #f0f0ee; --bad: #b01818; --on: #2464a6; --part: #8fb8dc; --mark: #55555a; }
@media (prefers-color-scheme: dark) { :root { --page: #17181a; --ink: #ececee; --soft: #adadb4; --card: #202124;
  --line: #3c3d42; --head: #2a2b2f; --quote: #26272b; --off: #55565c; --bad: #ff8a80; --on: #6aaef0; --part: #38618c;
  --mark: #b8b8be; } .time .bg { fill: #303136; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 24px 32px 64px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 40px 0 8px; border-bottom: 1px solid var(--line); padding-bottom: 4px; }
h3 { font-size: 16px; margin: 20px 0 4px; }
p { max-width: 860px; margin: 6px 0; }
.sub { color: var(--soft); }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0 4px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 8px 16px; }
.card b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: 13px; }
.bad b, td.bad { color: var(--bad); }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; background: var(--card); border: 1px solid var(--line); font-size: 14px;
  overflow-wrap: normal; }
th, td { padding: 4px 12px; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { background: var(--head); font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.id { min-width: 90px; overflow-wrap: anywhere; }
tr.sum td { font-weight: 600; border-top: 2px solid var(--line); }
tr.now td { background: var(--head); }
table.bars { width: 100%; } table.bars td { vertical-align: middle; }
td.track { width: 55%; min-width: 120px; }
.track i { display: block; height: 14px; min-width: 1px; background: var(--on); }
details { margin: 8px 0; } summary { cursor: pointer; color: var(--soft); }
.choice { display: none; gap: 18px; flex-wrap: wrap; margin: 12px 0; align-items: center; }
.choice select { font: inherit; padding: 3px 6px; background: var(--card); color: inherit; max-width: min(420px, 80vw); }
.figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px;
  margin: 12px 0; overflow-x: auto; }
svg { display: block; font: 11px/1 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
svg text { fill: var(--ink); } svg .e { text-anchor: end; } svg .m { text-anchor: middle; }
svg .b { font-size: 11px; fill: #1d1d1f; } svg .p { font-size: 10.5px; white-space: pre; }
svg .q { font-size: 10.5px; fill: var(--soft); } svg .bg { fill: var(--off); }
svg .on, svg .bar { fill: var(--on); } svg .part { fill: var(--part); }
svg .base { stroke: var(--mark); fill: none; } svg .l { stroke: var(--ink); }
svg .mark { stroke: var(--mark); stroke-dasharray: 2 3; fill: none; } svg .w { pointer-events: none; }
svg rect.v:hover, svg rect.g:hover, svg rect.n:hover, svg rect.h:hover { stroke: var(--ink); stroke-width: 1.5; }
.sets { margin: 6px 0 0; padding: 0; list-style: none; font-size: 13.5px; }
.sets i { display: inline-block; width: 14px; height: 12px; border: 1px solid #888; margin-right: 8px;
  vertical-align: -1px; }
.text { background: var(--quote); border-left: 3px solid var(--line); padding: 6px 12px; margin: 6px 0; font-size: 14px;
  white-space: pre-wrap; overflow-wrap: anywhere; max-width: 1000px; }
.text em { font-style: normal; color: var(--soft); }
#tip { position: fixed; pointer-events: none; background: #101012; color: #fff; border: 1px solid #77777c; font-size: 13px; padding: 4px 9px;
  border-radius: 5px; display: none; z-index: 9; }
footer { margin-top: 48px; color: var(--soft); font-size: 13px; }
@media (max-width: 640px) { body { padding: 16px 12px 40px; } th, td { padding: 4px 7px; } .figure { padding: 8px; } }
@media print { .choice { display: none !important; } .figure { break-inside: avoid; } }
)";

// Choosing a figure, and showing a cell's title at once instead of after the browser's delay.
inline constexpr const char* kPageScript = R"(
(function () {
  var request = document.getElementById('request'), hook = document.getElementById('hook');
  var figures = document.querySelectorAll('.pick');
  function choose() {
    figures.forEach(function (f) {
      f.hidden = f.dataset.request !== request.value || (f.dataset.hook && f.dataset.hook !== hook.value);
    });
  }
  if (request) {
    document.querySelector('.choice').style.display = 'flex';
    request.onchange = hook.onchange = choose;
    choose();
  }
  var tip = document.getElementById('tip');
  document.querySelectorAll('.figure rect > title').forEach(function (t) {
    t.parentNode.setAttribute('data-tip', t.textContent);
    t.parentNode.setAttribute('aria-label', t.textContent);
    t.remove();
  });
  document.addEventListener('mousemove', function (event) {
    var words = event.target.getAttribute && event.target.getAttribute('data-tip');
    tip.style.display = words ? 'block' : 'none';
    if (!words) { return; }
    tip.textContent = words;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + 'px';
    tip.style.top = (event.clientY + 18) + 'px';
  });
})();
)";

}  // namespace graphtap::cli
