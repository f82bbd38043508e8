"""Analyses of finished models, whoever trained them.

* `open`: the model behind a path, or one in memory; `model`: that model with its tokenizer;
* `inputs`: the text or the examples that a model reads; `text_pairs`: clean and corrupted texts with their answers;
* `xray`: the metrics of every head on a text; `look`: a page to look at heads; `look_tokens`: its tokens and patterns;
* `interventions`: a model whose heads can be removed, checked first; `ablate`: the loss without each head;
* `patch`: activation patching between two texts; `prune`: the same model without some of its heads.
"""
