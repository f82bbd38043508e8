"""Results directories, and the folders of their runs.

* `run`: one run; `records`: its records, which `run_writer` writes; `checkpoint`: the state from which it resumes;
  `environment`: how it was executed;
* `directory`: a directory of runs; `document`: its experiment and timings; `growth`: changes of the experiment;
  `look_plans`: its interim analyses;
* `batches`: runs that are trained as one program;
* `lease`: the owner of a run; `watch`: whether the owner lives;
* `integrity`: seals of finished runs; `verify`: every file read whole; `storage`: the errors of a folder that cannot be
  written.
"""
