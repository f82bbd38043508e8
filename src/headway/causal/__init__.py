"""Heads: what heads cause: what a model does without some of them.

Without torch:

* `kinds`: the ways of taking heads away;
* `effects`: what taking heads away does to the loss, per sequence, with intervals;
* `agreement`: how well estimates rank heads;
* `ablated`: all that was found of a finished model; `effect_findings`: which heads matter, in sentences;
  `faithful`: how much of the loss some heads keep by themselves;
* `patched`: what patching showed; `patch_findings`: which heads restore, in sentences; `patched_model`: the same of a
  model on pairs of texts, with patterns.

With torch:

* `substitutes`: what stands in for a head's context: zero, its mean, that of another sequence;
* `losses`: the loss of each sequence, without ever holding the logits of all of them;
* `without`: the losses without any sets of heads: a pass for each, and the fast way that shares layers;
  `first_product`: what of the MLP above them it shares, too;
* `ablation`: the exact effect of every head in all three ways, and of all of them together; of pairs their interaction;
* `attribution`: the cheap estimates of the same: Michel's, first-order, and integrated along the gates;
* `other_text`, `batched`: the same on texts that are read in batches;
* `selfcheck`: what must hold on the model at hand before any number is given;
* `importance`, `learned`: in which order heads go, by one of the `methods`; `stepwise`: down to so many heads;
* `pruning`: a model without some heads, as an ordinary model of another layout; `regrowing`: with them again;
* `patching`: what one head did on another text, put into a run; `continued`: how the run goes on from there;
  `patch_check`: what must hold for it; `patch_estimates` of it, from a gradient; `paths` from head to head;
  `faithfulness`: the loss with some heads alone, beside random ones;
* `passes`: how many forward passes some passes through a part of the layers amount to.

Interventions edit z, the contexts that enter the output projection (`headway.models.edits`), and nothing else; only
checks of patching also edit what enters the attention function.
"""
