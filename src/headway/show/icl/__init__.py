"""Show, the in-context laboratory: its `report`, and the figures in it.

`lengths` of prompts, `dynamics` of w and mu while training, `circuit_maps` of circuits, and `theory`.
"""

from headway.show.icl.report import LABORATORY as LABORATORY
