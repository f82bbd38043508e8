"""Execution of runs: in processes of this machine, on Ray and through Slurm.

* `sweep`: the user's options, and many runs at once, in the order of a `queue`, by workers that `places` start;
  `parents`: the run that another run is initialised from;
* `worker`: a process that trains; `work`: its work on one run; `ensemble`: on several runs as one program; `stop`:
  requests to stop;
* `costs`: the cost of runs, with `timing` of a step of each; `join`: workers that join a directory;
* `slurm`: through a batch scheduler; `ray_cluster`: joining a cluster; `ray_places`: its slots.
"""
