"""What is to be run, as frozen values.

* `document`: the top level of an experiment file; `shipped`: the experiments that come with Headway; `yaml`: how files
  are read and written; `load`: from a file to an experiment; `spec`: the base of every declared value, and errors that
  teach;
* `experiment`: an experiment, its `arms` and its `contrasts`; `run`: one training run, whole; `kinds`: the table of
  laboratories and kinds of task;
* `regression`: runs of in-context regression; `lm`: runs of transformers on tokens;
* `metrics`, `head_metrics`: what is measured, in words; `plugins`: the user's own code, how it is found, run and kept;
* `reference`: the documentation of all keys.
"""
