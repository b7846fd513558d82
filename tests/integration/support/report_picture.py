#!/usr/bin/python3
"""Looks at a report page in a real browser, as a reader does, and compares the pixels with what was written.

    report_picture.py PAGE EXPECTED

EXPECTED comes from who wrote the store, not from the report. Places are found by the labels a reader goes by: a
cell lies where its layer's label and its token's number say; its colour must be the one that the legend has at its
norm. Then the page is spoilt in ways that matter, one at a time, and every one has to be noticed.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from PIL import Image

WATCH = "<script>window.onerror = function (m) { document.documentElement.setAttribute('data-error', m); };</script>"

# A browser's window has a least width, a frame has none.
FRAME = '''<!DOCTYPE html><body style="margin:0"><pre id="probe"></pre><script>
window.onmessage = function (m) { document.getElementById('probe').textContent = m.data; };
</script><iframe src="%s" style="border:0;width:%dpx;height:3500px"></iframe></body>'''

# What must be noticed: a name, what spoils the page, and a word of the complaint.
SPOILT = [
    ("two layers swapped", """
      document.querySelectorAll('.figure[data-request="2"][data-hook="resid_pre"] rect.v').forEach(function (r) {
        var layer = (r.getAttribute('data-tip').match(/layer (\\d+)/) || [])[1], height = +r.getAttribute('height');
        if (layer === '2') { r.setAttribute('y', +r.getAttribute('y') - height); }
        if (layer === '3') { r.setAttribute('y', +r.getAttribute('y') + height); }
      });""", "colour"),
    ("a gap drawn as data", """
      document.querySelectorAll('.figure rect.g').forEach(function (r) { r.setAttribute('fill', '#2d94ac'); });""", "hatched"),
    ("nothing captured drawn as data", """
      document.querySelectorAll('.figure[data-hook] rect.bg:first-of-type').forEach(function (r) { r.style.fill = '#2d94ac'; });""", "empty"),
    ("tokens shifted by one", """
      document.querySelectorAll('.figure rect.v').forEach(function (r) {
        r.setAttribute('x', +r.getAttribute('x') + (+r.getAttribute('width'))); });""", "colour"),
    ("switching drawn at the wrong time", """
      document.querySelectorAll('svg.time path.on').forEach(function (p) { p.setAttribute('transform', 'translate(120 0)'); });""",
     "switching"),
    ("losses drawn at the wrong time", """
      document.querySelectorAll('svg.time rect.lost').forEach(function (r) { r.setAttribute('x', +r.getAttribute('x') + 90); });""",
     "loss"),
    ("bars all alike", "document.querySelectorAll('.track i').forEach(function (i) { i.style.width = '100%'; });", "bar"),
    ("marks left out", "document.querySelectorAll('rect.again, rect.rejected').forEach(function (r) { r.remove(); });", "mark"),
    ("words over words", """
      var t = document.querySelectorAll('svg.time text.e'); t[1].setAttribute('y', t[2].getAttribute('y'));""", "over words"),
    ("faint words", "document.body.style.setProperty('--soft', '#808088');", "faint"),
    ("wider than the screen", """
      document.querySelector('h1').insertAdjacentHTML('afterend', '<div style="width:1500px">x</div>');""", "wider"),
]


class Browser:
    def __init__(self, page, expected, folder):
        self.page, self.expected, self.folder = page, expected, folder

    def look(self, name, width, dark, mutation="", pixels=True):
        """What the page says of its layout, and its picture."""
        base = os.path.join(self.folder, re.sub(r"\W", "_", name) + f"-{width}-{dark}")
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "report_probe.js"), encoding="utf-8") as file:
            probe = "<script>\n" + file.read() + "</script>\n"
        script = probe.replace("REQUEST", json.dumps(self.expected["request"])).replace(
            "HOOK", json.dumps(self.expected["hook"])).replace("MUTATION", mutation)
        with open(base + ".html", "w", encoding="utf-8") as file:
            # The page's own policy forbids nothing that is inline.
            file.write(self.page.replace("<title>", WATCH + "<title>", 1).replace("</body>", script + "</body>", 1))
        shown = base + ".html"
        if width < 600:
            shown = base + "-frame.html"
            with open(shown, "w", encoding="utf-8") as file:
                file.write(FRAME % (os.path.basename(base) + ".html", width))
        common = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                  f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={max(width, 600)},3600",
                  "--virtual-time-budget=3000"]

        def run(kind, *more):
            done = subprocess.run(common + [f"--user-data-dir={base}-{kind}", *more, "file://" + shown],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
            if done.returncode != 0:
                raise SystemExit(f"FAILED: the browser: {done.stderr.decode()[-600:]}")
            return done.stdout.decode("utf-8")

        dom = run("dom", "--dump-dom")
        error = re.search(r'<html[^>]*data-error="([^"]*)"', dom)
        found = re.search(r'<pre id="probe"[^>]*>(.*?)</pre>', dom, re.S)
        if error or not found:
            raise SystemExit(f"FAILED: the page's script: {error.group(1) if error else 'no answer'}")
        text = found.group(1)
        for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
            text = text.replace(entity, character)
        image = None
        if pixels:
            run("png", f"--screenshot={base}.png")
            image = Image.open(base + ".png").convert("RGB")
        return json.loads(text), image


def apart(a, b):
    return sum(abs(x - y) for x, y in zip(a, b))


def middle(box):
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def at(image, x, y):
    return image.getpixel((int(x), int(y)))


def is_red(pixel):
    return pixel[0] > 150 and pixel[1] < 110 and pixel[2] < 110


def area(image, left, top, right, bottom):
    return [at(image, x, y) for x in range(int(left), int(right)) for y in range(int(top), int(bottom))]


def check_map(seen, image, expected):
    """Complaints about the heat map."""
    faults = []
    scale = seen["scale"]
    layers = {int(t["text"]): middle(t["box"])[1] for t in seen["map"]
              if t["kind"] == "a e" and t["text"].isdigit() and t["box"][3] < scale[1]}
    rows = sorted(layers)
    if rows != list(range(len(expected["cells"]))):
        return [f"labels of layers: {rows}"]
    height = (layers[rows[0]] - layers[rows[-1]]) / (len(rows) - 1)
    if height <= 0:
        return ["the first layer is not at the bottom"]
    marks = {int(t["text"]): middle(t["box"])[0] for t in seen["map"]
             if t["kind"] == "a m" and t["text"].isdigit() and t["box"][3] < scale[1]}
    first, last = min(marks), max(marks)
    pitch = (marks[last] - marks[first]) / (last - first)
    column = lambda token: marks[first] + (token - first) * pitch  # noqa: E731
    ticks = sorted((middle(t["box"])[0], float(t["text"])) for t in seen["map"]
                   if t["kind"] == "a m" and t["box"][1] > scale[1] and re.fullmatch(r"[\d.e+]+", t["text"]))
    (x0, least), (x1, most) = ticks[0], ticks[-1]
    legend = lambda norm: at(image, min(max(x0 + (norm - least) / (most - least) * (x1 - x0), scale[0] + 2),  # noqa: E731
                                        scale[2] - 3), (scale[1] + scale[3]) / 2)
    swatch = {t["text"]: at(image, t["box"][0] - 14, middle(t["box"])[1]) for t in seen["map"]
              if t["text"] in ("not captured", "recomputed", "rejected")}
    for layer, row in enumerate(expected["cells"]):
        for token, wanted in enumerate(row):
            x, y = column(token), layers[layer]
            where = f"layer {layer}, token {token}"
            cell = area(image, x - pitch / 2 + 2, y - height / 2 + 2, x + pitch / 2 - 2, y + height / 2 - 2)
            if wanted == "gap":
                red = sum(map(is_red, cell)) / len(cell)
                white = sum(min(p) > 225 for p in cell) / len(cell)
                if red < 0.15 or white < 0.15:
                    faults.append(f"{where} is not hatched: {red:.2f} red, {white:.2f} white")
            elif wanted == "off":
                if any(apart(p, swatch["not captured"]) > 12 for p in cell):
                    faults.append(f"{where} is not empty: {cell[0]} instead of {swatch['not captured']}")
            elif apart(at(image, x, y), legend(wanted)) > 24:
                faults.append(f"{where} has not the colour of {wanted:g}: {at(image, x, y)} instead of {legend(wanted)}")
    above = layers[rows[-1]] - height / 2 - 4
    for token in range(len(expected["cells"][0])):
        for mark, word in (("recomputed", "recomputed"), ("rejected", "rejected")):
            there = apart(at(image, column(token), above), swatch[word]) < 30 if word in swatch else False
            if there != (token in expected[mark]):
                faults.append(f"the mark \"{word}\" at token {token}: {there}")
    return faults


def check_time(seen, image, expected):
    """Complaints about the timeline: which layers were on when, what was lost when."""
    faults = []
    label = next(t for t in seen["time"] if t["text"] == expected["hook"])
    band = min(seen["bands"], key=lambda b: abs(middle(b)[1] - middle(label["box"])[1]))
    lines = len(expected["on"])
    when = lambda step: band[0] + (band[2] - band[0]) * step / expected["steps"]  # noqa: E731
    line = lambda layer: band[3] - (layer + 0.5) * (band[3] - band[1]) / lines  # noqa: E731
    off = at(image, when(11.1), line(0))
    for layer in range(lines):
        # Halfway to the end of a step that follows another one; and where no step is stored.
        for step in (2, 5, 8, 11, 14, 15, 19, 23):
            drawn = apart(at(image, when(11.1 if step == 11 else step - 0.5), line(layer)), off) > 100
            if drawn != expected["on"][layer][step]:
                faults.append(f"switching: layer {layer} at step {step} is drawn {'on' if drawn else 'off'}")
    rows = {t["text"]: t["box"] for t in seen["time"]}
    for reason in {loss["reason"] for loss in expected["lost"]}:
        if reason not in rows:
            faults.append(f"no row for the loss {reason}")
            continue
        top = rows[reason][1] - 2
        steps = {loss["step"] for loss in expected["lost"] if loss["reason"] == reason}
        for step in (1, 3, 6, 7, 10, 14, 17, 20, 22):
            # The bucket that holds the step's end.
            red = sum(map(is_red, area(image, when(step) - 6, top, when(step) + 6, top + 32)))
            if (red > 20) != (step in steps):
                faults.append(f"loss {reason} at step {step}: {red} red pixels")
    return faults


def check_bars(seen, image, expected):
    faults, lengths = [], {}
    for bar in seen["bars"]:
        x, y = bar["box"][0] + 13, middle(bar["box"])[1]
        colour, end = at(image, x, y), int(x)
        while end < bar["box"][2] and apart(at(image, end, y), colour) < 20:
            end += 1
        lengths[bar["hook"]] = end - x
    most = max(expected["bytes"].values())
    for hook, count in expected["bytes"].items():
        share = lengths.get(hook, 0) / max(lengths.values())
        if abs(share - count / most) > 0.02:
            faults.append(f"the bar of {hook}: {share:.3f} instead of {count / most:.3f} of the largest")
    if [b["hook"] for b in seen["bars"]] != sorted(expected["bytes"], key=lambda h: -expected["bytes"][h]):
        faults.append("bars are not in order")
    return faults


def check_layout(seen, width):
    faults = []
    if seen["width"] != width:
        faults.append(f"the browser made it {seen['width']} px wide")
    if seen["shown"] != 1:
        faults.append(f"{seen['shown']} maps shown at once")
    if seen["wide"] > seen["width"]:
        faults.append(f"the page is wider than the screen: {seen['wide']} of {seen['width']}")
    if seen["resources"]:
        faults.append(f"{seen['resources']} resources loaded")
    if not re.search(r"token \d+, layer \d+: [\d.]+$", seen["tip"]):
        faults.append(f"the value under the pointer: {seen['tip']!r}")
    if any(len(name) < 20 for name in seen["names"]):
        faults.append("a picture without words for those who cannot see it")
    faults += [f"words over words: {pair}" for pair in seen["overlaps"]]
    faults += [f"outside its picture: {text}" for text in seen["outside"]]
    faults += [f"faint: {text}" for text in seen["faint"]]
    faults += [f"spills over: {text}" for text in seen["spills"]]
    return faults


def faults_of(browser, name, width, dark, mutation="", pixels=True):
    seen, image = browser.look(name, width, dark, mutation, pixels)
    faults = check_layout(seen, width)
    if pixels:
        for check in (check_map, check_time, check_bars):
            faults += check(seen, image, browser.expected)
    return faults


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        page = file.read()
    with open(sys.argv[2], encoding="utf-8") as file:
        expected = json.load(file)
    failed = False
    with tempfile.TemporaryDirectory(prefix="graphtap-picture-") as folder, ThreadPoolExecutor(2) as pool:
        browser = Browser(page, expected, os.environ.get("GRAPHTAP_KEEP_PICTURES", folder))
        looks = [(width, dark, width >= 1280) for width in (1280, 400) for dark in (False, True)]
        for (width, dark, _), faults in zip(looks, pool.map(
                lambda look: faults_of(browser, "page", look[0], look[1], pixels=look[2]), looks)):
            print(f"{width} px, {'dark' if dark else 'light'}: {'as written' if not faults else 'WRONG'}")
            for fault in faults[:8]:
                print("   ", fault)
            failed = failed or bool(faults)
        for (name, _, word), faults in zip(SPOILT, pool.map(
                lambda spoilt: faults_of(browser, spoilt[0], 1280, False, spoilt[1]), SPOILT)):
            noticed = any(word in fault for fault in faults)
            print(f"{'noticed' if noticed else 'NOT NOTICED'}: {name} ({faults[0] if faults else 'nothing wrong'})")
            failed = failed or not noticed
    sys.exit(1 if failed else 0)


main()
