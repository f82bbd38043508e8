"""Causal effects of heads: ablation, attribution, activation patching and pruning.

Without torch:

* `effects`: the change of the loss without heads, per sequence, with intervals; `ablation_result`: all results of an
  ablation; `self_repair`: heads that stand in for one another; `patch_result`: all results of patching.

With torch:

* `removal`: the losses without any sets of heads, from shared layers; `substitutes`: the replacement of a head's
  context;
* `ablation`: the exact effect of every head, and of sets of heads; `attribution`: its cheap estimates;
* `patching`: one head's output on another text; `faithfulness`: the loss that a circuit recovers alone;
* `importance`: the order in which heads are pruned; `pruning`: an ordinary model without some heads;
* `checks`: properties that must hold on the model at hand before any number is given.

Interventions edit z, the contexts that enter the output projection (`headway.models.trace`), and nothing else.
"""
