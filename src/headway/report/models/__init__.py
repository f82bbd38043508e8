"""Pages of finished models.

`page` holds the parts that these pages share. `xray` shows the metrics of every head, `ablation` the loss without
heads, and `patching` what activation patching restored. `look` is the page in which a reader picks a head.
"""
