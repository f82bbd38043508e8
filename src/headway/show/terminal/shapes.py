"""Door: where the parameters of published models go."""

from collections.abc import Sequence

from rich.table import Table

from headway.declare.shipped import shipped
from headway.declare.tokens.shapes import SHAPES
from headway.errors import UserError, near
from headway.show.shared.parameters import Parts

ALL = "shapes"
"""What stands for every published model."""


def named_shapes(names: Sequence[str], *, options_given: bool = False) -> Parts | None:
    """The parameters of published models by part; None where the one name is that of an experiment, or of none.

    Raises:
        UserError: for several names that are not all published models, or options that only experiments have.
    """
    chosen = list(SHAPES) if list(names) == [ALL] else list(names)
    unknown = [name for name in chosen if name not in SHAPES]
    if len(chosen) == 1 and unknown:
        name = chosen[0]
        known = name in shipped() or "/" in name or name.endswith((".yaml", ".yml"))
        close = near(name, [*SHAPES, *shipped(), ALL])
        if known or not close.startswith("did you mean"):
            return None
        raise UserError(f"there is no experiment or published model {name!r}; {close}")
    if unknown:
        raise UserError(
            f"plan {' '.join(names)}: {unknown[0]} is no published model; {near(unknown[0], SHAPES)}. "
            "An experiment is planned alone"
        )
    if options_given:
        raise UserError(f"plan {' '.join(names)}: a published model has no scale, settings, arms, controls or seeds")
    return Parts(counts={name: SHAPES[name].parameters for name in chosen}, shares=True)


def shape_table(parts: Parts) -> Table:
    """The share of each part in percent, a row per model."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", caption="parts in % of all")
    table.add_column("model", no_wrap=True)
    for heading in (*parts.names, "parameters"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, counts in parts.counts.items():
        total = sum(counts.values())
        shares = (f"{100 * counts[part] / total:.1f}" if part in counts else "–" for part in parts.names)
        table.add_row(name, *shares, f"{total:,}")
    return table
