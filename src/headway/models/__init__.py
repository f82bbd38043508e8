"""Model: transformers whose layers may have different numbers of heads.

* `transformer`: the model; `entry`, `attention`, `own_attention`, `residual`, `positions`, `maps`: its parts;
  `many`: the attention of many models at once;
* `weights`: its arrays by name, how they start and how they are checked (numpy, no torch);
* `edits`: interventions inside a forward pass; `intervenable`: what is asked of a model for that, whoever wrote it;
* `trace`: what a recorded forward pass gives back of every head; `redraw`: what others do in their place;
  `plain`: attentions that somebody else wrote down;
* `generate`, `cache`: text from a model.
"""
