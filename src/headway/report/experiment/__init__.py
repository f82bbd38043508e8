"""The report of an experiment: the parts that all laboratories share.

`page` makes the report from `data`. `first_screen` says and draws the answer from the differences of arms, `outcome`
draws the final metric of every arm, `laboratory` is what a laboratory adds, and `own_program` what is shown of
training commands.
"""
