"""Show: the page of an x-ray of a finished model."""

from headway.heads.xray import XRay
from headway.show.shared.model_page import ModelPage
from headway.show.xray.drawing import figures, heads, layers


def xray_page(xray: XRay, look: str | None = None) -> ModelPage:
    """The page of an x-ray, drawn; `xray.html`, `xray.json` and their figures are its files.

    Args:
        xray: what was found.
        look: what to type to look at the same heads one by one.
    """
    return ModelPage(
        verb="xray",
        what="x-ray of a finished model",
        read=f"Measured on {xray.read}",
        found=xray,
        overview=layers(xray),
        heads=heads(xray),
        figures=figures(xray),
        look=look,
    )
