"""Door: the verb that takes code of one's own: check."""

from typing import Annotated

import typer

from headway.cli.options import app
from headway.errors import HeadwayError


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Plugins: files, or names of packages.")],
) -> None:
    """Run plugins, and hold what they register to the laws that Headway's own keeps.

    Exit code 1 where one does not hold, with a sentence for each.
    """
    from headway.check.held import check as look_at
    from headway.words import counted

    found = [each for file in files for each in look_at(file)]
    for each in found:
        print(each.sentence)
    if broken := sum(bool(each.broken) for each in found):
        raise HeadwayError(f"{counted(broken, 'thing')} of {len(found)} cannot be used as it is")
