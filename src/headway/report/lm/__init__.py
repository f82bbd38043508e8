"""What the report of transformers on tokens adds.

* `report`: its figures in their order; `common`: what several of them ask;
* `training`: loss over training; `size`: loss against heads, parameters and cost; `text`: what models write, and
  published claims; `synthetic`: tasks with known answers; `lane`: the data lane;
* `heads`, `head_maps`: what probes measured; `association`: how it goes with the loss.
"""
