"""Doing runs: in processes of this machine, on Ray and through Slurm.

* `sweep`: many runs at once, in the order of a `queue`, by workers that `places` start; `site`: the places a user asks
  for; `joined`: runs that other machines have; `parents`: the run that another one starts from;
* `worker`: a process that trains; `work`: what it does for one run; `ensemble`: for several runs trained as one
  program; `stop`: how it is asked to end;
* `costs`: what runs would cost, by `timing` a step of each, and what is prepared for them;
* `join`: joining the work on a directory; `slurm`: through a batch scheduler; `ray_cluster`: finding or starting a
  cluster, with `ray_probe`: what its nodes say; `ray_places`: its slots; `ray_copies`: runs on nodes that do not see
  the directory.
"""
