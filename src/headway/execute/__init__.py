"""Execute: doing runs, in processes of this machine, on Ray and through Slurm."""
