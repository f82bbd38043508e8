"""A training run as an iterator of events.

* `loop`: from step to step, and what is measured on the way; `checkpoint`: what a run resumes from;
* `torch_trainer`: training by PyTorch; `device`: where it computes; `process_memory`: what that takes;
* `regression`: training of in-context models, with `regression_torch` where native code cannot; `lm`: of transformers.
"""
