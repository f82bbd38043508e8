"""The experiments that come with Headway."""

from pathlib import Path


def shipped() -> dict[str, Path]:
    """Return the experiments that come with Headway: name to file."""
    return {path.stem: path for path in sorted((Path(__file__).parents[1] / "experiments").glob("*.yaml"))}
