"""The pages of the documentation as code and what it prints.

A block of Python that prints is followed by a block of text that shows it. Run as a program,
`python -m tests.pages docs/index.md`, it writes what a page prints into the page, and the pictures
that it saves into docs/images.

A line such as `steps = 3000  # 10 in the tests` makes a page quick: the tests run it with the
second value, and compare words only. What the page shows is of the first.
"""

import contextlib
import io
import re
import runpy
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<shown>.*?)```\n)?", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?(?![\w])")
# The tests compile without optimisation, and so round otherwise than the programs that a page was
# written with. Over a fit of thousands of steps that was seen to change numbers by a tenth to a
# half. So these bounds, a share of the number and units of its last digit, tell a wrong word, a
# wrong shape and a wrong order of magnitude, and no more.
SHARE, UNITS = 0.5, 3
SMALLER = re.compile(r"^(\w+ = ).+?  # (.+) in the tests$", re.MULTILINE)
TOKEN = re.compile(rf"(?P<any>\.\.\.)|(?P<space>\s+)|(?P<number>{NUMBER.pattern})|.")
END = "-- end of a block --"
IMAGES = Path(__file__).parent.parent / "docs" / "images"


class Block(NamedTuple):
    """A block of Python, and what the page says that it prints."""

    code: str
    shown: str


def read_blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    return [Block(m["code"], m["shown"] or "") for m in BLOCK.finditer(page.read_text())]


def at_small_size(blocks: Sequence[Block]) -> list[Block]:
    """The blocks with the values that tests take, where a page names them."""
    return [block._replace(code=SMALLER.sub(r"\1\2", block.code)) for block in blocks]


def lend_data(page: Path, folder: Path) -> None:
    """Put the data that lie beside a page where its code looks for them."""
    if (data := page.resolve().parent / "data").is_dir():
        (folder / "data").symlink_to(data)


def as_script(blocks: Sequence[Block]) -> str:
    """All blocks as one program, which says where the output of each ends."""
    return "".join(f"{block.code}\nprint({END!r}, flush=True)\n" for block in blocks)


@contextlib.contextmanager
def as_a_reader(folder: Path) -> Iterator[None]:
    """A reader's surroundings: a folder, and none of the strictness of the tests."""
    with (
        contextlib.chdir(folder),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        yield


def run_as_a_reader(code: str, folder: Path) -> str:
    """What a program prints that knows no names but its own.

    It runs in this process, where modules are imported and programs compiled already.
    """
    program = folder / "program.py"
    program.write_text(code)
    with as_a_reader(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(program), run_name="__main__")
    return printed.getvalue()


def split_output(stdout: str) -> list[str]:
    """What each block of `as_script` printed."""
    return stdout.split(f"{END}\n")[:-1]


def is_shown(printed: str, shown: str, *, numbers: bool = True) -> bool:
    """Whether the text on the page is what was printed: the words, and the numbers within bounds.

    Without `numbers` any number will do.

    Spaces count as one, and `...` stands for anything within a line. Lines may change places: a
    table is sorted by numbers, of which some are next to nothing.
    """
    lines, wanted = (sorted(text.split("\n"), key=_words) for text in (printed, shown))
    same = (_same_line(*pair, numbers) for pair in zip(lines, wanted, strict=False))
    return len(lines) == len(wanted) and all(same)


def _words(line: str) -> list[str]:
    return NUMBER.sub("#", line).split()


def _same_line(printed: str, shown: str, numbers: bool) -> bool:
    match = re.fullmatch("".join(map(_pattern, TOKEN.finditer(shown))) + r"\s*", printed)
    if match is None:
        return False
    return not numbers or all(map(_close, match.groups(), NUMBER.findall(shown)))


def _pattern(token: re.Match[str]) -> str:
    patterns = {"any": ".*", "space": r"\s*", "number": f"({NUMBER.pattern})"}
    return patterns.get(token.lastgroup or "", re.escape(token[0]))


def _close(printed: str, shown: str) -> bool:
    got, wanted = (float(text.replace(",", "")) for text in (printed, shown))
    unit = min(_last_digit(printed), _last_digit(shown))
    return abs(got - wanted) <= SHARE * abs(wanted) + UNITS * unit


def _last_digit(number: str) -> float:
    mantissa, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _write(page: Path) -> None:
    """Put what the blocks print now into the page, where that is not what it shows."""
    blocks = read_blocks(page)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lend_data(page, folder)
        output = iter(split_output(run_as_a_reader(as_script(blocks), folder)))
        for picture in folder.glob("*.png"):
            shutil.copy(picture, IMAGES)

    def with_output(block: re.Match[str]) -> str:
        printed, shown = next(output), block["shown"] or ""
        # All numbers of a page are of one run, but for what `...` leaves open.
        text = shown if "..." in shown and is_shown(printed, shown) else printed
        return f"```python\n{block['code']}```\n" + (f"\n```text\n{text}```\n" if text else "")

    page.write_text(BLOCK.sub(with_output, page.read_text()))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        _write(Path(name))
