"""SVG as `pdftocairo` writes it, made small: the same picture with a fifth of the text.

Each letter is an outline that stands in the file once, whatever its size; lines of text are groups
that say size, height and colour for all their letters. Numbers have as many digits as one sees.
What stands outside of its clip is left out, and a clip that cuts nothing as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from xml.etree import ElementTree as ET

__all__ = ["compact"]

Point = tuple[float, float]
Matrix = tuple[float, float, float, float, float, float]

SVG: Final = "{http://www.w3.org/2000/svg}"
HREF: Final = "{http://www.w3.org/1999/xlink}href"
NUMBER: Final = re.compile(r"-?[\d.]+(?:e-?\d+)?")
STEPS: Final = 20
"""A letter's points stand on a grid of so many steps to a point."""
SAME: Final = 0.012
"""Outlines that differ by less of their size are one letter in two sizes."""
SMALL: Final = 9.0
UNMOVED: Final[Matrix] = (1, 0, 0, 1, 0, 0)


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: Box) -> bool:
        slack = 0.6
        return (
            self.left - slack <= other.left
            and self.top - slack <= other.top
            and other.right <= self.right + slack
            and other.bottom <= self.bottom + slack
        )

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def common(self, other: Box) -> Box:
        return Box(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        )


class Step(NamedTuple):
    """One command of a path, with its points."""

    letter: str
    points: tuple[Point, ...]


Outline = tuple[Step, ...]


class Letter(NamedTuple):
    """How a letter is drawn: an outline of this name, by so much larger."""

    name: str
    scale: float


def compact(text: str) -> str:
    """The same picture, smaller."""
    root = ET.fromstring(text)
    _, _, width, height = (float(each) for each in root.attrib["viewBox"].split())
    letters, outlines = _letters(root)
    drawing = Drawing(root, letters)
    body = "".join(drawing.draw(root, Box(0, 0, width, height), clip=None))
    defs = "".join(
        f'<path id="{name}" d="{_path(outline, STEPS, 0)}"/>'
        for name, outline in outlines.items()
        if f'"#{name}"' in body
    )
    # Pixels of the page are three quarters of a point.
    size = f'width="{_short(width / 0.75, 0)}" height="{_short(height / 0.75, 0)}"'
    view = f'viewBox="0 0 {_short(width, 1)} {_short(height, 1)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view}>'
    return f"{head}\n<defs>{defs}{drawing.clips()}</defs>\n{body}</svg>\n"


# Letters


def _letters(root: ET.Element) -> tuple[dict[str, Letter], dict[str, Outline]]:
    """What each symbol is drawn with, and the outlines by their names, the largest of each."""
    found = {each.attrib["id"]: _outline(each) for each in root.iter(f"{SVG}symbol")}
    letters: dict[str, Letter] = {}
    outlines: dict[str, Outline] = {}
    for symbol, outline in sorted(found.items(), key=lambda each: -_size(each[1])):
        name = next((name for name, other in outlines.items() if _is_same(outline, other)), None)
        if name is None:
            name = _name(len(outlines))
            outlines[name] = outline
        letters[symbol] = Letter(name, (_size(outline) or 1) / (_size(outlines[name]) or 1))
    return letters, outlines


def _outline(symbol: ET.Element) -> Outline:
    path = symbol.find(f"{SVG}path")
    return () if path is None else _steps(path.attrib.get("d", ""))


def _is_same(one: Outline, other: Outline) -> bool:
    if [each.letter for each in one] != [each.letter for each in other]:
        return False
    here, there = _size(one), _size(other)
    if not here or not there:
        return here == there
    pairs = zip(_points(one), _points(other), strict=True)
    return all(
        abs(x / here - u / there) < SAME and abs(y / here - v / there) < SAME
        for (x, y), (u, v) in pairs
    )


def _size(outline: Outline) -> float:
    points = [*_points(outline)]
    return max((abs(each) for point in points for each in point), default=0)


def _points(outline: Outline) -> Iterator[Point]:
    for each in outline:
        yield from each.points


def _name(number: int) -> str:
    digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    first, rest = number % len(digits), number // len(digits)
    return digits[first] + (str(rest) if rest else "")


# Paths

_TAKES: Final = {"M": 1, "L": 1, "C": 3, "Z": 0}


def _steps(path: str) -> Outline:
    """A path of absolute commands; curves that were quadratic are so again."""
    steps: list[Step] = []
    at: Point = (0, 0)
    for letter, written in re.findall(r"([MLCZ])([^MLCZ]*)", path):
        numbers = [float(each) for each in NUMBER.findall(written)]
        points = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        if letter == "Z" or len(points) == _TAKES[letter]:
            steps.append(_quadratic(at, points) if letter == "C" else Step(letter, points))
        at = points[-1] if points else at
    # It goes back to where it began, and draws nothing there.
    while steps and steps[-1].letter == "M":
        steps.pop()
    return tuple(steps)


def _quadratic(at: Point, points: tuple[Point, ...]) -> Step:
    one, two, end = points
    first = tuple((3 * c - p) / 2 for c, p in zip(one, at, strict=True))
    second = tuple((3 * c - p) / 2 for c, p in zip(two, end, strict=True))
    if all(abs(a - b) < 0.06 for a, b in zip(first, second, strict=True)):
        middle = ((first[0] + second[0]) / 2, (first[1] + second[1]) / 2)
        return Step("Q", (middle, end))
    return Step("C", points)


def _path(outline: Outline, times: float, digits: int) -> str:
    """As relative commands, each from where the rounded one before has ended."""
    made: list[str] = []
    x = y = start_x = start_y = 0.0
    for letter, points in outline:
        if letter == "Z":
            made.append("z")
            x, y = start_x, start_y
            continue
        moved = [(round(u * times, digits), round(v * times, digits)) for u, v in points]
        steps = [(u - x, v - y) for u, v in moved]
        x, y = moved[-1]
        if letter == "M":
            start_x, start_y = x, y
        made.append(_command(letter, steps, digits))
    return "".join(made)


def _command(letter: str, steps: list[Point], digits: int) -> str:
    [(right, down), *_] = steps
    if letter == "L" and not round(down, digits):
        return f"h{_short(right, digits)}"
    if letter == "L" and not round(right, digits):
        return f"v{_short(down, digits)}"
    numbers = [_short(each, digits) for step in steps for each in step]
    joined = numbers[0] + "".join(each if each[0] == "-" else f" {each}" for each in numbers[1:])
    return letter.lower() + joined


def _short(number: float, digits: int) -> str:
    text = f"{round(number, digits):.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    text = re.sub(r"^(-?)0\.", r"\1.", text)
    return "0" if text in ("", "-0", "-") else text


# What is drawn


class Drawing:
    """Follows the groups of a picture, with the clips that they stand in."""

    def __init__(self, root: ET.Element, letters: dict[str, Letter]) -> None:
        self._letters = letters
        self._boxes = {
            f"url(#{each.attrib['id']})": _clip_box(each) for each in root.iter(f"{SVG}clipPath")
        }
        named = [each for tag in ("g", "image") for each in root.iter(f"{SVG}{tag}")]
        self._groups = {f"#{each.get('id')}": each for each in named}
        self._masks = {f"url(#{each.get('id')})": each for each in root.iter(f"{SVG}mask")}
        self._clips: dict[Box, str] = {}

    def clips(self) -> str:
        """Those that cut something."""
        return "".join(
            f'<clipPath id="{name}"><path d="{_rectangle(box)}"/></clipPath>'
            for box, name in self._clips.items()
        )

    def draw(self, parent: ET.Element, page: Box, clip: Box | None) -> Iterator[str]:
        """Everything below an element."""
        run: list[ET.Element] = []
        for each in parent:
            if each.tag == f"{SVG}use" and each.attrib[HREF] not in self._groups:
                run.append(each)
                continue
            yield from self._below(each, page, clip)
        if run:
            yield from self._text(parent, run, page, clip)

    def _below(self, each: ET.Element, page: Box, clip: Box | None) -> Iterator[str]:
        match each.tag.removeprefix(SVG):
            case "defs":
                return
            case "g":
                inner = self._boxes.get(each.attrib.get("clip-path", ""))
                if inner is not None:
                    clip = inner if clip is None else clip.common(inner)
                yield from self.draw(each, page, clip)
            case "use":
                yield from self._group(each)
            case "path":
                yield from self._shape(each, page, clip)
            case "rect":
                box = _place(each)
                yield f'<path{_paint(_style(each))} d="{_rectangle(box)}"/>'
            case "image":
                size = f'width="{each.attrib["width"]}" height="{each.attrib["height"]}"'
                yield f'<image {size} href="{each.attrib[HREF]}"/>'
            case tag:
                raise ValueError(f"a picture with <{tag}>: leave out what makes it, or teach this")

    def _group(self, use: ET.Element) -> Iterator[str]:
        """Something that shines through, or is drawn by the browser itself: in its own place."""
        matrix = _matrix(use.attrib.get("transform"))
        everywhere = Box(-9999, -9999, 9999, 9999)
        mask = self._masks.get(use.attrib.get("mask", ""))
        whole = None if mask is None else mask.find(f".//{SVG}rect")
        opacity = "1" if whole is None else _style(whole).get("fill-opacity", "1")
        seen = "" if float(opacity) == 1 else f' opacity="{_short(float(opacity), 2)}"'
        yield f'<g transform="matrix({_numbers(matrix)})"{seen}>'
        yield from self._below(self._groups[use.attrib[HREF]], everywhere, None)
        yield "</g>"

    def _shape(self, path: ET.Element, page: Box, clip: Box | None) -> Iterator[str]:
        style = _style(path)
        matrix = _matrix(path.attrib.get("transform"))
        outline = _steps(path.attrib["d"])
        painted = _paint(style)
        if not outline or not painted:
            return
        box = _moved_box(_points(outline), matrix)
        # Only what is small shows a second digit.
        digits = 2 if box.right - box.left < SMALL and matrix == UNMOVED else 1
        moved = "" if matrix == UNMOVED else f' transform="matrix({_numbers(matrix)})"'
        drawn = f'<path{painted}{moved} d="{_path(outline, 1, digits)}"/>'
        yield from self._clipped(drawn, box, page, clip)

    def _text(
        self, parent: ET.Element, run: list[ET.Element], page: Box, clip: Box | None
    ) -> Iterator[str]:
        fill = _colour(_style(parent).get("fill", "rgb(0%,0%,0%)"))
        lines: dict[tuple[float, float], list[tuple[float, str]]] = {}
        for each in run:
            letter = self._letters[each.attrib[HREF].removeprefix("#")]
            place = (float(each.attrib["y"]), round(letter.scale / STEPS, 4))
            lines.setdefault(place, []).append((float(each.attrib["x"]), letter.name))
        for (y, scale), placed in lines.items():
            letters = "".join(
                f'<use href="#{name}" x="{_short(x / scale, 0)}"/>' for x, name in placed
            )
            size = f"{_short(scale, 4)} 0 0 {_short(scale, 4)} 0 {_short(y, 2)}"
            left, right = min(x for x, _ in placed), max(x for x, _ in placed)
            box = Box(left, y - 9, right + 8, y + 2)
            drawn = f'<g fill="{fill}" transform="matrix({size})">{letters}</g>'
            yield from self._clipped(drawn, box, page, clip)

    def _clipped(self, drawn: str, box: Box, page: Box, clip: Box | None) -> Iterator[str]:
        shown = page if clip is None else page.common(clip)
        if not shown.meets(box):
            return
        if clip is None or clip.common(page).holds(box.common(page)):
            yield drawn
            return
        name = self._clips.setdefault(clip, f"clip{len(self._clips)}")
        yield f'<g clip-path="url(#{name})">{drawn}</g>'


def _clip_box(clip: ET.Element) -> Box:
    path, whole = clip.find(f"{SVG}path"), clip.find(f"{SVG}rect")
    if whole is not None:
        return _place(whole)
    assert path is not None
    return _moved_box(_points(_steps(path.attrib["d"])), UNMOVED)


def _place(rect: ET.Element) -> Box:
    left, top, width, height = (float(rect.get(each, 0)) for each in ("x", "y", "width", "height"))
    return Box(left, top, left + width, top + height)


def _rectangle(box: Box) -> str:
    left, top, right, bottom = (_short(each, 2) for each in box)
    return f"M{left} {top}H{right}V{bottom}H{left}z"


def _moved_box(points: Iterator[Point], matrix: Matrix) -> Box:
    a, b, c, d, e, f = matrix
    moved = [(a * x + c * y + e, b * x + d * y + f) for x, y in points]
    across, down = [x for x, _ in moved], [y for _, y in moved]
    # A line has a width that its points do not.
    return Box(min(across) - 0.5, min(down) - 0.5, max(across) + 0.5, max(down) + 0.5)


def _matrix(text: str | None) -> Matrix:
    numbers = [float(each) for each in NUMBER.findall(text or "")]
    if len(numbers) != 6:
        return UNMOVED
    a, b, c, d, e, f = numbers
    return (a, b, c, d, e, f)


def _numbers(matrix: Matrix) -> str:
    return " ".join(_short(each, 4 if at < 4 else 2) for at, each in enumerate(matrix))


# Style


def _style(element: ET.Element) -> dict[str, str]:
    pairs = (each.partition(":") for each in element.attrib.get("style", "").split(";"))
    return {name.strip(): value.strip() for name, _, value in pairs if value}


_KEPT: Final = {
    "fill-rule": "nonzero",
    "stroke-linecap": "butt",
    "stroke-linejoin": "miter",
}
"""What else is written, where it is not the default."""


def _paint(style: dict[str, str]) -> str:
    fill, stroke = style.get("fill", "none"), style.get("stroke", "none")
    has_fill = fill != "none" and float(style.get("fill-opacity", "1")) > 0
    has_stroke = stroke != "none" and float(style.get("stroke-opacity", "1")) > 0
    if not has_fill and not has_stroke:
        return ""
    painted = [f' fill="{_colour(fill) if has_fill else "none"}"']
    if has_fill and float(style.get("fill-opacity", "1")) < 1:
        painted.append(f' fill-opacity="{_short(float(style["fill-opacity"]), 2)}"')
    if has_stroke:
        width = _short(float(style.get("stroke-width", "1")), 2)
        painted.append(f' stroke="{_colour(stroke)}" stroke-width="{width}"')
        if float(style.get("stroke-opacity", "1")) < 1:
            painted.append(f' stroke-opacity="{_short(float(style["stroke-opacity"]), 2)}"')
    for name, default in _KEPT.items():
        if style.get(name, default) != default and (has_stroke or name == "fill-rule"):
            painted.append(f' {name}="{style[name]}"')
    return "".join(painted)


def _colour(text: str) -> str:
    parts = [round(float(each) * 2.55) for each in NUMBER.findall(text)]
    return "#" + "".join(f"{each:02x}" for each in parts)
