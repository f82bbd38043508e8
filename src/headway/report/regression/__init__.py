"""What the report of in-context regression adds.

`report` has its figures in their order, and `common` what several of them ask: `training`, `heads` (their circuits,
and w and mu over training) and `theory`.
"""
