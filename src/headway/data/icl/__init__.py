"""Data, the in-context laboratory: prompts of regression.

* `prompts`: drawn in numpy, which defines their bits;
* `native`: the same bits from compiled code, where it is built.
"""
