"""Frozen declarations of experiments and runs, read from YAML.

* `document`: the top level of an experiment file; `yaml`: reading and writing YAML, and the files that come with
  Headway; `load`: from a file to an experiment; `spec`: the base of every declared value, errors that teach, and the
  field's words for keys and options;
* `experiment`: an experiment, its `arms`, its `contrasts` and which arms are compared; `run`: one complete training
  run; `kinds`: the table of laboratories and kinds of task;
* `regression`: runs of in-context regression; `lm`: runs of transformers on tokens; `own_program`: runs of a
  training command of the user's own;
* `metrics`, `head_metrics`: the names and meanings of all metrics; `plugins`: how the user's own code is found, run and
  stored.
"""
