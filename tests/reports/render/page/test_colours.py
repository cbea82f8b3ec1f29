"""Text has a contrast of 4.5 at least in both colour schemes, as WCAG 2 defines it."""

import re
from importlib.resources import files

import pytest

_STYLE = files("sluicegate_reports.render.page").joinpath("style.css").read_text()
_PAIRS = [
    *[(text, "paper") for text in ("ink", "soft", "link", "limit", *(f"c{n}" for n in range(1, 7)))],
    ("ink", "raised"),
    *[(name, f"{name}-bg") for name in ("good", "near", "bad", "gone", "none")],
]


def _schemes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", _STYLE, re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in blocks)
    return {"light": light, "dark": {**light, **dark}}


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (_linear(part) for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), _PAIRS)
def test_contrast(scheme: str, text: str, ground: str) -> None:
    colours = _schemes()[scheme]
    assert _contrast(colours[text], colours[ground]) >= 4.5


def test_both_colour_schemes_define_all_colours() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", _STYLE, re.DOTALL)
    names = [set(re.findall(r"--([\w-]+): #", text)) for text in (light, dark)]
    assert names[0] == names[1] >= {"paper", "ink", "c1", "good-bg"}


def test_contrast_is_computed_as_the_standard_says() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)
    assert _contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
