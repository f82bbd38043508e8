"""Finished models, opened and measured, whoever trained them.

* `open`: the model behind a path, or one in memory; `model`: that model with its tokenizer, ready to read;
* `inputs`: the text or the examples that it reads; `text_pairs`: clean and corrupted texts with their answers;
* `xray`: what every head does on a text; `look`: the same for a page, with `look_tokens`: tokens and patterns that fit;
* `interventions`: a model whose heads can be removed, checked first; `ablate`: the loss without each head;
* `patch`: activation patching between two texts; `prune`: the same model without some of its heads.
"""
