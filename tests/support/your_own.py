"""The files of the page on one's own: each block of code begins with the name of its file."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "your-own.md"


def files() -> dict[str, str]:
    """The blocks of the page that are files, by name."""
    blocks = re.findall(r"```(?:python|yaml)\n# ([a-z]+\.(?:py|yaml))\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return dict(blocks)


def write(folder: Path) -> list[str]:
    """Write all of them; their names."""
    for name, content in files().items():
        (folder / name).write_text(content)
    return list(files())
