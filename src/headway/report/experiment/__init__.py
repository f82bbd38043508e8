"""Show, the report of an experiment: its `page`, as far as all laboratories share it.

* `report_data`: what is drawn; `arm_styles`: how arms look; `laboratory`: what each laboratory adds;
* `differences`: the answer as a figure of `intervals`; `outcome`, split by `tasks`; `seed_series`: a metric of all
  seeds; `tables`;
* `own_figures`: those that plugins draw;
* `current`: whether a report still says what its directory holds.
"""
