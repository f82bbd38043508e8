"""Declare, the in-context laboratory: `task`, `model`, `training`, what they cost (`budget`), and the `run` of them."""
