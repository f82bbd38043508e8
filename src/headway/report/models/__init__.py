"""The pages of finished models.

`page` is what they share; `xray` shows what every head does, `ablation` the loss without heads, `patching` what
patching restored, and `look` is the page in which a reader picks a head.
"""
