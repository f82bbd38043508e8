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
    from headway.check.findings import check as look_at
    from headway.words import counted

    findings = [finding for file in files for finding in look_at(file)]
    for finding in findings:
        print(finding.sentence)
    if broken := sum(bool(finding.broken) for finding in findings):
        raise HeadwayError(f"{counted(broken, 'thing')} of {len(findings)} cannot be used as it is")
