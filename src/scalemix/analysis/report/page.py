"""HTML from Python. Text is escaped by construction: elements are built, never pasted together."""

from collections.abc import Iterable, Sequence
from importlib import resources
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

Content = str | Element

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


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> Element:
    """A table that scrolls by itself where the page is narrow; `numbers` sit on the right."""
    body = [
        element(
            "tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])
        )
        for row in rows
    ]
    top = [element("thead", element("tr", *(element("th", name, scope="col") for name in head)))]
    made = element("table", *(top if any(head) else []), element("tbody", *body))
    if numbers:
        made.set("class", "numbers")
    return element("div", made, class_="scroll")


class Image(NamedTuple):
    """A picture as a data URI, and how wide it is to be shown where there is room."""

    source: str
    width: int


def picture(image: Image, alt: str, caption: str) -> Element:
    """A figure with its caption."""
    return element(
        "figure",
        element("img", src=image.source, width=str(image.width), alt=alt),
        element("figcaption", caption),
    )


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
    root = element("html", head, element("body", element("main", *contents)), lang="en")
    return "<!doctype html>\n" + ElementTree.tostring(root, encoding="unicode", method="html")
