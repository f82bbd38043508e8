"""Declare: what is to be run, as frozen values; a slice for each laboratory, `icl` and `tokens`.

* `document`: the top level of an experiment's file, read by `mapping`; `shipped` are those that come with Headway;
* `experiment`: its arms and runs; `loading`: from a file to them, within `limits`; each `arm` is a `run` once
  `settings` are merged in, and a `selection` of names says which are meant; `laboratories` is the table of their kinds;
* `contrasts`: the questions that a document asks of its arms; `starts`: which arm starts from which;
* `plugins`: what code of one's own registers; `plugin_files`: how it is found, run and kept;
* `spec`: the base of every declared value, and errors that teach; `reference` writes the documentation of them all;
* `budget`: what a run costs; `kept_weights`: of which steps weights are kept, perhaps `log_spaced` ones;
* `metrics`, `head_metrics` and `head_causes`: what is measured, in words.
"""
