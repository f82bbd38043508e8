"""Show, the in-context laboratory: its `report`, and the figures in it.

What a `finished_run` was asked to do; its `training`; `lengths` of prompts, `dynamics` of w and mu while training,
`circuit_maps` of circuits, what a `second_head` is worth, and `theory`.
"""
