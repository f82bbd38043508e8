"""Show, what a finished model does without its heads.

* `ablation_page`: its page; `effect_tables`: effects and estimates, a row for each way and for each head;
* `effect_intervals`: effects of heads and of pairs, with intervals, in `interval_panels`;
  `estimates`: what cheap estimates are worth; `circuit_losses`: what some heads keep alone, beside random ones;
* `path_maps`: which head acts on which directly, of what `headway.patch` found; `patch_page`: the page of that;
  `patch_maps`: what comes back with each head, by site and position, and where the heads of the strongest path look;
  `patch_intervals`: the same with intervals over pairs of texts.
"""
