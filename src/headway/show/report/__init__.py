"""Show, the report of an experiment: its `page`, as far as all laboratories share it.

`material` is what is drawn, `looks` how arms look, `laboratory` what each laboratory adds; `tables`, `outcome`,
`training` and `references` are parts that several use.
"""
