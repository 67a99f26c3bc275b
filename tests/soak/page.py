"""Checks that an HTML page is self-contained: page.py PAGE [TEXT].

No script, no event handler, no reference to anything outside the page, every element closed in
order. With TEXT, the page must show it, control characters replaced.
"""

import html.parser
import re
import sys

VOID = {"meta", "br", "hr", "img", "input", "link", "area", "base", "col", "wbr"}
FORBIDDEN = {"script", "iframe", "object", "embed", "link", "base", "form", "img", "a", "input", "foreignobject"}
REFERENCES = {"href", "xlink:href", "src", "srcset", "action", "data", "poster", "background", "formaction"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.faults, self.texts = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag in FORBIDDEN:
            self.faults.append(f"element {tag}")
        for name, value in attributes:
            if name.startswith("on"):
                self.faults.append(f"event handler {name}")
            if name in REFERENCES and not (value or "").startswith("#"):
                self.faults.append(f"reference {name}={value!r}")
            if name == "style" and "url" in (value or ""):
                self.faults.append(f"style {value!r}")
            if not re.fullmatch(r"[a-z][a-z0-9:-]*", name):
                self.faults.append(f"attribute {name!r} of {tag}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes no such element")

    def handle_data(self, data):
        if self.open and self.open[-1] == "style" and re.search(r"url\s*\(|@import", data):
            self.faults.append("style with a reference")
        self.texts.append(data)

    def handle_comment(self, data):
        self.faults.append(f"comment {data[:40]!r}")


def main(path, text=None):
    with open(path, encoding="utf-8", errors="strict", newline="") as file:
        source = file.read()
    page = Page()
    page.feed(source)
    page.close()
    faults = page.faults
    if page.open:
        faults.append(f"not closed: {page.open}")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", source):
        faults.append("control characters")
    shown = re.sub(r"[\x00-\x1f\x7f-\x9f]", "\ufffd", text or "")
    if shown and not any(shown in found for found in page.texts):
        faults.append(f"{shown!r} is not shown")
    if faults:
        sys.exit("; ".join(faults[:5]))


main(*sys.argv[1:])
