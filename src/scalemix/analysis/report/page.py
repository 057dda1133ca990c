"""HTML from Python. Text is escaped by construction: elements are built, never pasted together."""

from collections.abc import Iterable, Sequence
from importlib import resources
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

Content = str | Element
# Pictures wider than this are of several parts.
WIDE = 640

# What stands in a cell that has nothing to say.
NONE = "–"
# No script, no request, whatever a column's name would like.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def element(tag: str, *contents: Content, **attributes: str) -> Element:
    """An element with these contents in order. `class_` stands for `class`."""
    made = Element(tag, {name.rstrip("_"): value for name, value in attributes.items()})
    for content in contents:
        if isinstance(content, Element):
            made.append(content)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + content
        else:
            made.text = (made.text or "") + content
    return made


def table(
    name: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True
) -> Element:
    """A table that scrolls by itself where the page is narrow, by keyboard too.

    Those who hear the page are told its `name`. `numbers` sit on the right.
    """
    body = [
        element(
            "tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])
        )
        for row in rows
    ]
    # A corner without a word is no heading.
    corner = [element("th", cell, scope="col") if cell else element("td") for cell in head]
    top = [element("thead", element("tr", *corner))] if any(head) else []
    made = element("table", *top, element("tbody", *body), **{"aria-label": name})
    if numbers:
        made.set("class", "numbers")
    return _scrolling(name, made)


def _scrolling(name: str, content: Element) -> Element:
    """What scrolls by itself, and can be reached by keyboard to do so."""
    about = {"tabindex": "0", "role": "region", "aria-label": name}
    return element("div", content, class_="scroll", **about)


def details(summary: str, *contents: Content) -> Element:
    """What a reader opens to see, without a script."""
    return element("details", element("summary", summary), *contents)


def side_by_side(*contents: Element) -> Element:
    """Parts beside each other where there is room, and below each other where there is none."""
    return element("div", *contents, class_="beside")


class Image(NamedTuple):
    """A picture as a data URI, and how wide it is to be shown where there is room."""

    source: str
    width: int


def picture(image: Image, alt: str, caption: str) -> Element:
    """A figure with its caption. A wide one scrolls rather than shrink to nothing."""
    drawn = element("img", src=image.source, width=str(image.width), alt=alt)
    if image.width > WIDE:
        drawn.set("class", "wide")
        drawn = _scrolling("A wide picture", drawn)
    return element("figure", drawn, element("figcaption", caption))


def section(name: str, title: str, *contents: Content) -> Element:
    """A part of the page, with a heading that can be linked to."""
    return element("section", element("h2", title), *contents, id=name)


def page(title: str, *contents: Content) -> str:
    """A whole document."""
    style = resources.files("scalemix.analysis.report").joinpath("style.css").read_text("utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", **{"http-equiv": "Content-Security-Policy", "content": POLICY}),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", style),
    )
    root = element("html", head, element("body", *contents), lang="en")
    return "<!doctype html>\n" + ElementTree.tostring(root, encoding="unicode", method="html")
