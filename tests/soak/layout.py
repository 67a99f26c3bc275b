"""Checks that a browser shows an HTML page without cut or overlapping text: layout.py PAGE WIDTH...

Chromium lays the page out in each width, in pixels. No content is wider than its element or the window;
texts of pictures lie within their picture, do not overlap, and are at least 9 pixels high.
"""

import html
import os
import re
import subprocess
import sys
import tempfile

# The page is in a frame of the width: a window of chromium is 500 pixels wide at least.
JUDGE = """<!doctype html>
<title>judge</title>
<iframe style="border: 0; width: WIDTHpx; height: 900px" srcdoc="PAGE"></iframe>
<script>
const faults = [], limit = WIDTH;
const name = element => element.tagName.toLowerCase() + " " + 
  element.textContent.trim().replace(/\\s+/g, " ").slice(0, 40);
const judge = page => {
  const root = page.scrollingElement;
  if (root.scrollWidth > limit) faults.push("the page is " + root.scrollWidth + " wide");
  for (const element of page.querySelectorAll("body *:not(svg *)")) {
    const style = page.defaultView.getComputedStyle(element), box = element.getBoundingClientRect();
    if (style.display === "inline" || style.display === "none" || box.width === 0) continue;
    if (element.scrollWidth > element.clientWidth + 1)
      faults.push("cut: " + name(element) + ": " + element.scrollWidth + " in " + element.clientWidth);
    if (box.right > limit + 1 || box.left < -1) faults.push("outside: " + name(element));
  }
  for (const svg of page.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) continue;
    const texts = [...svg.querySelectorAll("text")].map(text => [text, text.getBoundingClientRect()]);
    texts.forEach(([text, box], index) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 ||
          box.bottom > frame.bottom + 1) faults.push("outside of its picture: " + name(text));
      if (Math.min(box.width, box.height) < 9 && text.textContent.length > 1)
        faults.push("too small: " + name(text) + ": " + Math.min(box.width, box.height).toFixed(1));
      for (const [other, beside] of texts.slice(index + 1)) {
        const width = Math.min(box.right, beside.right) - Math.max(box.left, beside.left);
        const height = Math.min(box.bottom, beside.bottom) - Math.max(box.top, beside.top);
        if (width > 1 && height > 3) faults.push("overlap: " + name(text) + " | " + name(other));
      }
    });
  }
};
addEventListener("load", () => {
  judge(document.querySelector("iframe").contentDocument);
  document.title = "judged";
  document.body.replaceChildren(...faults.flatMap(fault => [fault, document.createElement("br")]));
});
</script>
"""


def faults(source, width):
    """Faults of a page in this width, by chromium."""
    judge = JUDGE.replace("WIDTH", str(width)).replace("PAGE", html.escape(source))
    with tempfile.TemporaryDirectory() as directory:
        page = os.path.join(directory, "judge.html")
        with open(page, "w", encoding="utf-8") as file:
            file.write(judge)
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += [f"--user-data-dir={directory}/profile", "--window-size=1920,1080", "--dump-dom"]
        run = subprocess.run([*command, "file://" + page], capture_output=True, text=True, timeout=120)
    if "<title>judged</title>" not in run.stdout:
        sys.exit(f"chromium judged nothing: {run.stderr[-400:]}")
    body = re.search(r"<body>(.*)</body>", run.stdout, re.DOTALL).group(1)
    found = [html.unescape(line).strip() for line in body.split("<br>")]
    return [f"at {width} px: {line}" for line in found if line]


def main(path, *widths):
    with open(path, encoding="utf-8", newline="") as file:
        source = file.read()
    found = [fault for width in widths for fault in faults(source, int(width))]
    if found:
        sys.exit("\n".join(found[:20]))


main(*sys.argv[1:])
