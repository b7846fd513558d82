#pragma once

namespace graphtap::cli {

inline constexpr const char* kPageStyle = R"(
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 1180px; padding: 24px 32px 64px; background: #fbfbf9; color: #1d1d1f;
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 40px 0 8px; border-bottom: 1px solid #d9d9d4; padding-bottom: 4px; }
h3 { font-size: 16px; margin: 20px 0 4px; }
p { max-width: 860px; margin: 6px 0; }
.sub { color: #55555a; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0 4px; }
.card { background: #fff; border: 1px solid #dddcd6; border-radius: 8px; padding: 8px 16px; }
.card b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.card span { color: #55555a; font-size: 13px; }
.bad b { color: #b01818; }
table { border-collapse: collapse; background: #fff; border: 1px solid #dddcd6; font-size: 14px; }
th, td { padding: 4px 12px; text-align: left; vertical-align: top; border-bottom: 1px solid #ecebe6; }
th { background: #f2f1ec; font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
tr.sum td { font-weight: 600; border-top: 2px solid #cfcec8; }
.choice { display: none; gap: 18px; flex-wrap: wrap; margin: 12px 0; align-items: center; }
.choice select { font: inherit; padding: 3px 6px; background: #fff; color: inherit; max-width: 420px; }
.figure { background: #fff; border: 1px solid #dddcd6; border-radius: 8px; padding: 12px 16px; margin: 12px 0;
  overflow-x: auto; }
svg { display: block; font: 11px/1 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
svg text { fill: #1d1d1f; } svg .e { text-anchor: end; } svg .m { text-anchor: middle; }
svg .b { font-size: 11px; } svg .p { font-size: 10.5px; fill: #333; white-space: pre; }
svg rect.v:hover, svg rect.g:hover, svg rect.n:hover { stroke: #000; stroke-width: 1.5; }
.sets { margin: 6px 0 0; padding: 0; list-style: none; font-size: 13.5px; }
.sets i { display: inline-block; width: 14px; height: 12px; border: 1px solid #888; margin-right: 8px;
  vertical-align: -1px; }
.text { background: #f7f6f1; border-left: 3px solid #cfcec8; padding: 6px 12px; margin: 6px 0; font-size: 14px;
  white-space: pre-wrap; overflow-wrap: anywhere; max-width: 1000px; }
.text em { font-style: normal; color: #6a6a6e; }
#tip { position: fixed; pointer-events: none; background: #1d1d1f; color: #fff; font-size: 13px; padding: 4px 9px;
  border-radius: 5px; display: none; z-index: 9; }
footer { margin-top: 48px; color: #6a6a6e; font-size: 13px; }
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
  document.querySelector('.choice').style.display = 'flex';
  request.onchange = hook.onchange = choose;
  choose();
  var tip = document.getElementById('tip');
  document.querySelectorAll('.figure title').forEach(function (t) {
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
