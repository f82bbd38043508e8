"""The report's part on transformers on tokens.

* `report`: the figures in their order; `common`: functions that several of them share;
* `training`: loss over training; `size`: loss against heads, parameters and cost; `samples`: generated texts, and
  published claims; `synthetic`: tasks with known answers;
* `heads`: the measurements of probes; `published`: further figures that the sources have: the loss explained by
  diversity, a film of all pairs of heads, a drawing of the data lane.
"""
