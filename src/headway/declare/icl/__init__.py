"""Declare, the in-context laboratory: models of attention alone that learn regression from their prompt.

* `task`: what prompts are drawn from; `model`: what reads them; `training`: how it learns;
* `run`: all of them together, judged on so many prompts; `budget`: what it costs.
"""
