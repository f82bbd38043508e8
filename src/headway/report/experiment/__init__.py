"""The report of an experiment: the parts that all laboratories share.

`page` makes the report from `data`; `first_screen` says its answer, and `answer` draws it; `laboratory` is what a
laboratory adds.
"""
