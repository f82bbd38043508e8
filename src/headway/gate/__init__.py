"""Decisions to keep or discard a change, whose rate of useless changes that are kept holds over any number of changes.

* `evidence`: the test.
"""
