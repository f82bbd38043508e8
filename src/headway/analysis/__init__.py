"""Analyses of finished models, whoever trained them.

* `open`: any model, opened for an analysis; `model`: that model with its tokenizer; `evaluation`: the state
  in which it computes;
* `inputs`: the text, tokens or examples that a model reads; `text_pairs`: clean and corrupted texts with their answers;
* `xray`: the metrics of every head on a text; `look`: a page to look at heads; `look_tokens`: its tokens and patterns;
* `ablate`: the loss without each head; `patch`: activation patching between two texts; `prune`: the same model without
  some of its heads.
"""
