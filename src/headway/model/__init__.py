"""Model: transformers whose layers may have different numbers of heads.

* `transformer`: the model; `entry`, `attention`, `own_attention`, `residual`, `positions`, `maps`: its parts;
* `weights`: its arrays by name, how they start and how they are checked (numpy, no torch);
* `edits`: interventions inside a forward pass;
* `trace`: what a recorded forward pass gives back of every head; `redraw`: what others do in their place;
  `plain`: attentions that somebody else wrote down;
* `generate`, `cache`: text from a model.
"""
