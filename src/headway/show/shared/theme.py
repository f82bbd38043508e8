"""Show: one look for every figure, so that a colour means the same thing wherever it appears.

Heads, arms and estimators have palettes of their own: a head keeps its colour in every figure, an arm does too,
and what is not trained is grey.
"""

from typing import Any

HEAD_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7f3c8d",
    "#6b4c2a",
    "#8a8d91",
    "#a5aa00",
    "#e7298a",
    "#1b4f72",
    "#7a0019",
    "#00a3a3",
    "#4d7c0f",
    "#ff9da7",
)
"""Head h is drawn in colour h (mod 16)."""

ARM_COLOURS = (
    "#2f6db3",
    "#e4572e",
    "#2a9d5c",
    "#8e44ad",
    "#d4a017",
    "#17a2b8",
    "#c2185b",
    "#7c5c3b",
    "#5f6b7a",
    "#9acd32",
    "#1d3557",
    "#f4a6a0",
)
"""Arm i of the document is drawn in colour i (mod 12)."""

ESTIMATORS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "gd_eta1": ("GD, step 1", "#b4b8bf", (1, 3)),
    "gd_best": ("GD, best step", "#7d838c", (6, 3)),
    "debiased_gd_best": ("debiased GD, best step", "#22262b", (4, 2)),
    "preconditioned_gd": ("preconditioned debiased GD", "#4c5561", (1, 1.5)),
    "ridge": ("ridge (Bayes)", "#a07d4b", (8, 3, 2, 3)),
    "least_squares": ("least squares", "#c9b492", (2, 2)),
}
"""Of each estimator: its label, colour and dashes."""

SCHEME_COLOURS: dict[str | None, str] = {
    "ascending": "#c2185b",
    "constant": "#5f6b7a",
    "descending": "#2f6db3",
    None: "#d4a017",
}
"""A scheme of head layouts keeps its colour; None is a layout that goes up and down."""

SOLID = (1, 0)
"""Dashes without gaps."""

GROUP_DASHES = (SOLID, (7, 3), (2, 2), (8, 3, 2, 3), (4, 4))
GROUP_SHAPES = ("circle", "square", "triangle-up", "triangle-down", "cross")
"""Group i of the document is drawn in dashes and shape i (mod 5)."""

NO_GROUP_DASH = (1, 3)

NGRAMS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "unigram": ("unigram model", "#b4b8bf", (1, 3)),
    "bigram": ("bigram model", "#22262b", (4, 2)),
    "entropy": ("entropy of the text", "#a07d4b", (8, 3, 2, 3)),
}
"""Of each model that is not trained by gradient: its label, colour and dashes."""

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
INK = "#22262b"
QUIET = "#6b7280"


def head_domain(n_heads: int) -> list[str]:
    """The names under which figures colour heads: their numbers as text.

    Examples:
        >>> head_domain(3)
        ['0', '1', '2']
    """
    return [str(head) for head in range(n_heads)]


def head_range(n_heads: int) -> list[str]:
    """The colours that belong to `head_domain`."""
    return [HEAD_COLOURS[head % len(HEAD_COLOURS)] for head in range(n_heads)]


def arm_colour(position: int) -> str:
    """The colour of the arm at a position of the document."""
    return ARM_COLOURS[position % len(ARM_COLOURS)]


def config() -> dict[str, Any]:
    """The Vega-Lite configuration that every figure carries."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "font": FONT,
        "background": "white",
        "view": {"stroke": None},
        "axis": {
            **text,
            "domainColor": "#9aa0a8",
            "tickColor": "#9aa0a8",
            "gridColor": "#eceef1",
            "labelOverlap": True,
        },
        "axisX": {"grid": False},
        "legend": {
            **text,
            "symbolStrokeWidth": 2.5,
            "symbolType": "stroke",
            "symbolSize": 220,
            "symbolOpacity": 1,
            "labelLimit": 320,
            "titleFontWeight": "bold",
        },
        "header": {**text, "labelFontWeight": "bold", "titleFontWeight": "bold"},
        "title": {"color": INK, "fontSize": 13, "fontWeight": "bold", "anchor": "start"},
        "concat": {"spacing": 24},
        "facet": {"spacing": 12},
    }


ASKED = "#7f3c8d"
"""What the document asks of several arms at once, which is the colour of none of them."""
