"""Show, transformers on tokens: their `report`, and the figures in it.

* what a `finished_run` was asked to do; of `known` tasks in how many seeds one is solved (`solved_map`),
  `known_scores`, `known_errors`, and `known_parts`: by kind and by length;
* what it comes to: `final_losses`, `loss_against_heads`, `sizes`, `learning`, `learning_rates`, `cost`, beside
  n-gram models (`ngram_rules`);
* the data lane: `lane`, `lane_diagram`; what models write: `writing`;
* what heads that go leave behind: `pruned`, and `settling`: how unequal heads become;
* what `probed` heads did: `head_training`, `head_layers`, `head_maps`, `kv_heads`, `regularised`, `association` with
  the loss, and the published `statements`.
"""
