"""The report's part on in-context regression.

`report` has its figures in their order. The figures are `training`, `heads` (their circuits, and w and mu over
training) and `theory`.
"""
