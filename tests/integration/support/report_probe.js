// Runs inside a report page, which it makes show one map, and says where everything lies and what cannot be read.
// The names in capitals are put in by report_picture.py.
(function () {
  var box = function (e) { var r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  var pick = function (id, value) { var e = document.getElementById(id); e.value = value; e.onchange(); };
  pick('request', REQUEST); pick('hook', HOOK);
  MUTATION
  var shown = Array.from(document.querySelectorAll('.figure[data-hook]')).filter(function (f) { return f.offsetParent; });
  var out = {shown: shown.length, width: innerWidth, wide: document.documentElement.scrollWidth,
    resources: performance.getEntriesByType('resource').length, overlaps: [], outside: [], faint: [], spills: []};
  var texts = function (svg) { return Array.from(svg.querySelectorAll('text')).map(function (t) {
    return {text: t.textContent, kind: t.getAttribute('class') || '', box: box(t)}; }); };
  var svg = shown[0].querySelector('svg'), time = document.querySelector('svg.time');
  out.map = texts(svg); out.time = texts(time);
  out.scale = box(svg.querySelector('rect[fill$="-scale)"]'));
  out.bands = Array.from(time.querySelectorAll('rect.bg')).map(box);
  out.bars = Array.from(document.querySelectorAll('table.bars tr')).slice(1).map(function (r) {
    return {hook: r.cells[0].textContent, box: box(r.cells[4])}; });
  var cell = svg.querySelector('rect.v');
  cell.dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: 300, clientY: 300}));
  out.tip = document.getElementById('tip').textContent;
  document.getElementById('tip').style.display = 'none';
  out.names = Array.from(document.querySelectorAll('svg')).map(function (s) { return s.getAttribute('aria-label') || ''; });

  // Legible: no words over words, none outside their picture, none too faint.
  var crosses = function (a, b) {
    return Math.min(a[2], b[2]) - Math.max(a[0], b[0]) > 1 && Math.min(a[3], b[3]) - Math.max(a[1], b[1]) > 2; };
  document.querySelectorAll('svg').forEach(function (s) {
    if (!s.parentNode.offsetParent) { return; }
    var frame = box(s);
    var all = texts(s).filter(function (t) { return t.text && t.kind.indexOf('p') < 0; });
    all.forEach(function (t, i) {
      if (t.box[0] < frame[0] - 1 || t.box[2] > frame[2] + 1 || t.box[1] < frame[1] - 1 || t.box[3] > frame[3] + 1) {
        out.outside.push(t.text); }
      for (var k = 0; k < i; ++k) { if (crosses(t.box, all[k].box)) { out.overlaps.push(t.text + ' / ' + all[k].text); } }
    });
  });
  var rgb = function (c) { var m = c.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m.slice(0, 3); };
  var light = function (c) { return c.map(function (v) { v /= 255;
    return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); }).reduce(function (s, v, i) {
    return s + v * [0.2126, 0.7152, 0.0722][i]; }, 0); };
  var contrast = function (a, b) { a = light(a); b = light(b); return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
  var behind = function (e) { for (; e; e = e.parentElement) {
    var c = rgb(getComputedStyle(e).backgroundColor); if (c) { return c; } } return [255, 255, 255]; };
  document.querySelectorAll('h1,h2,h3,p,td,th,li,summary,footer,select,.card b,.card span,svg text').forEach(function (e) {
    if (!e.getClientRects().length || !e.textContent.trim()) { return; }
    var style = getComputedStyle(e), svg_text = e.namespaceURI.indexOf('svg') > 0;
    if (svg_text && e.getAttribute('class') === 'b') { return; }  // on a coloured band
    var ratio = contrast(rgb(svg_text ? style.fill : style.color), behind(e));
    if (ratio < 4.5) { out.faint.push(ratio.toFixed(2) + ' ' + e.textContent.slice(0, 40)); }
  });
  document.querySelectorAll('h1,h2,h3,p,td,th,li,.card').forEach(function (e) {
    if (e.getClientRects().length && e.scrollWidth > e.clientWidth + 1) { out.spills.push(e.textContent.slice(0, 40)); } });
  var pre = document.createElement('pre');
  pre.id = 'probe'; pre.hidden = true; pre.textContent = JSON.stringify(out);
  document.body.appendChild(pre);
  if (parent !== window) { parent.postMessage(pre.textContent, '*'); }
})();
