"""The report of an experiment, as far as all laboratories share it.

`page` is the report, made from `data`; `answer` draws its answer; `laboratory` is what a laboratory adds; `current`
tells whether a report still says what its directory holds.
"""
