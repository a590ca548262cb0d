"""Colours and markers of the systems, shared by the page and by plots.

The first colours are those of Okabe and Ito, darkened for a light page, which stay distinct with
colour-blindness; twelve colours cannot all do so, so every system has a marker of its own as well.
Systems that receive the reference segments have dashed lines.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Style:
    """Style of a system.

    Attributes:
        light: colour on a light background.
        dark: colour on a dark background.
        marker: marker of matplotlib.
        path: the same marker as a path of SVG, at most 12 units wide, around the origin.
    """

    light: str
    dark: str
    marker: str
    path: str


STYLES = (
    Style("#2f5fa8", "#83aae6", "o", "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z"),
    Style("#c8501e", "#f0925f", "s", "M-4.2,-4.2h8.4v8.4h-8.4z"),
    Style("#1f7f5c", "#5fc79b", "D", "M0,-5.6L5.6,0L0,5.6L-5.6,0z"),
    Style("#b0568f", "#dd8fc4", "^", "M0,-5.4L5,4.2H-5z"),
    Style("#a87c00", "#dcb145", "v", "M0,5.4L5,-4.2H-5z"),
    Style(
        "#2b93c4", "#74c7ee", "P", "M-1.9,-5.2h3.8v3.3h3.3v3.8h-3.3v3.3h-3.8v-3.3h-3.3v-3.8h3.3z"
    ),
    Style("#4b2e83", "#b49bf0", "X", "M-5,-3L-3,-5L0,-2L3,-5L5,-3L2,0L5,3L3,5L0,2L-3,5L-5,3L-2,0z"),
    Style(
        "#7a4a21",
        "#c99a6b",
        "*",
        "M0,-6L1.6,-2.1L5.8,-1.9L2.5,0.8L3.6,4.9L0,2.6L-3.6,4.9L-2.5,0.8L-5.8,-1.9L-1.6,-2.1z",
    ),
    Style("#6f7a1f", "#bcc75e", "<", "M-5.4,0L4.2,-5V5z"),
    Style("#9c1f3d", "#f0738c", ">", "M5.4,0L-4.2,-5V5z"),
    Style("#0f5257", "#5fb7b3", "h", "M0,-5.4L4.7,-2.7V2.7L0,5.4L-4.7,2.7V-2.7z"),
    Style("#d9707c", "#f7b3ba", "d", "M0,-6L3.4,0L0,6L-3.4,0z"),
)
SHIFT = 5  # of the markers each time the colours recur


def places(place: int) -> tuple[int, int]:
    """Return the indices in ``STYLES`` of the colour and the marker of the system at a place.

    After the last style, colours recur with other markers.
    """
    rounds, color = divmod(place, len(STYLES))
    return color, (color + SHIFT * rounds) % len(STYLES)
