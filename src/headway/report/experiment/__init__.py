"""The report of an experiment: the parts that all laboratories share.

`page` makes the report from `data`; `answer` draws its answer; `laboratory` is what a laboratory adds. `current` tells
whether a report still matches its directory.
"""
