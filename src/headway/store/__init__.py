"""Runs: run folders, and running many of them.

* `folder`: one run, read, and `folder_written`; its `records`, written by the `recorder` of its owner, who holds the
  `lease`; how leases appear as `lease_files`, `watching` those who hold them, and the `processes` of this machine;
* `run_json`: what a folder says of its run; `seal`: what a finished one must hold, `checked` once on each place, and
  whole when one wants to `verify` it;
* `store`: a directory of them; its `resolved` document and its `growth` with its file; what was `dropped` from it;
  `reservations` about what it says; what was `asked` for there;
* `parents`: the run that another one starts from, and `lines` of those that wait for one another;
* `local`: many runs worked on at once, with their `progress`, in the order of a `queue`, by workers that `places`
  start: those of this machine, on the `devices` there are, which may be `lasting`; those that have `joined`. `worker`
  is such a process, which works on a batch `together`, whose members `batches` fixes when runs are made; `serving`
  what it does after its first run, `work` what it does in one, `course` its part until the model is judged, `second`
  what to do with one that two finished, `stop` how it is asked to end; `execution` is how it computed; `storage`: what
  is said when a folder cannot be written; `preparing`: what is seen to before; `callbacks`: what is told of each line;
* a Ray cluster: found at its `ray_address`, joined by `ray_cluster`, whose nodes say of themselves what is in
  `ray_probe`; its slots as `ray_places`, each a `ray_place`, what their actors do as `ray_slot`, and what these send of
  copies, taken in, as `ray_copies`; what killed ones left in a `scratch` folder is removed;
* `site`: the places that somebody asks for; `joining` the work on a directory, until a `deadline`, or by `slurm`;
* `planned_looks`: when the seeds of a directory are looked at, and what was found;
* `timing`: a step of each arm by itself, kept in `timing_files`; `memory`: whether runs fit; `costs`: what they would
  cost.
"""
