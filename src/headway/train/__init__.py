"""A training run as an iterator of events.

* `loop`: the loop, and what a kind of run supplies to it;
* `torch_trainer`: training by PyTorch; `device`: the device and its precision; `process_memory`: memory of the process;
* `regression`: training of in-context models, with `regression_torch` where native code cannot train them;
* `lm`: training of transformers;
* `own_program`: a training command of the user's own, started and read.
"""
