"""What heads cause: ablation, attribution, activation patching and pruning.

Without torch:

* `effects`: the change of the loss without heads, per sequence, with intervals; `ablation_result`: all that an ablation
  found, in sentences; `patch_result`: the same of patching.

With torch:

* `removal`: the losses without any sets of heads, sharing layers; `substitutes`: what replaces a head's context;
* `ablation`: the exact effect of every head, and interactions of pairs; `attribution`: its cheap estimates;
* `patching`: one head's output on another text; `faithfulness`: the loss that some heads keep alone;
* `importance`: the order in which heads go; `pruning`: an ordinary model without some heads;
* `checks`: what must hold on the model at hand before any number is given.

Interventions edit z, the contexts that enter the output projection (`headway.models.edits`), and nothing else.
"""
