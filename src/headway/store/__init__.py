"""Run folders, and directories of them.

* `run`: one run; `records`: what it wrote, by its `recorder`; `environment`: how it was computed;
* `directory`: a directory of runs; `document`: its experiment; `growth`: how it grows; `look_plans`: its interim
  analyses;
* `batches`: runs that are trained as one program;
* `lease`: who owns a run; `watch`: whether its owner lives; `timings`: measured steps;
* `integrity`: seals of finished runs; `verify`: every file read whole; `storage`: what is said when a folder cannot be
  written.
"""
