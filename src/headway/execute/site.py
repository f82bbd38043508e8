"""The places where runs are worked on, as a user asks for them: on this machine, or on a Ray cluster."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headway.execute import ray_probe
from headway.execute.places import WORKER, LocalPlace, Place, lasting, local_places
from headway.execute.ray_cluster import ray_cluster
from headway.execute.ray_places import RayPlaces
from headway.store.environment import Slot, check_device


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """The user's request for places.

    Attributes:
        workers: runs at a time; None: as many as there are cores, or GPUs.
        trainer: that trains in-context models.
        together: runs of one shape in a batch, for runs that are made: `auto`, or a number.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        runs_per_gpu: that share one.
        ray: `auto`, `local` or the address of a Ray cluster; None: this machine.
        shared: whether nodes of a cluster see the directory; None: that is found out.
    """

    workers: int | None = None
    trainer: str = "auto"
    together: str | int = "auto"
    device: str = "auto"
    runs_per_gpu: int = 1
    ray: str | None = None
    shared: bool | None = None

    def here(self, *, runs: int, uses_gpu: bool) -> tuple[LocalPlace, ...]:
        """The places of this machine.

        Raises:
            UserError: when there is no worker, or no such device.
        """
        return local_places(
            "cpu" if self.ray else self.device,
            workers=self.workers,
            runs=runs,
            uses_gpu=uses_gpu,
            runs_per_gpu=1 if self.ray else self.runs_per_gpu,
            command=self._command,
        )

    @contextmanager
    def site(
        self,
        directory: Path,
        here: tuple[LocalPlace, ...],
        *,
        uses_gpu: bool,
        files: Iterable[Path],
        tell: Callable[[str], object],
    ) -> Iterator["Executors"]:
        """In the block, have what is asked for.

        Args:
            directory: of the results.
            here: the places of this machine.
            uses_gpu: whether there are runs that a GPU can compute.
            files: that runs read.
            tell: is given what is found out.

        Raises:
            UserError: when there is no such cluster.
        """
        if self.ray is None:
            yield Executors(slots=tuple(place.slot for place in here), places=lasting(here))
            return
        if not self.device.startswith("cuda"):  # whether nodes have GPUs is not known here
            check_device(self.device, workers=self.workers, runs_per_gpu=self.runs_per_gpu)
        sizes = {str(path): ray_probe.bytes_of(str(path), os.getcwd()) for path in files}
        with ray_cluster(self.ray, workers=self.workers) as cluster:
            if not cluster.has_token:
                tell(
                    "Ray: the cluster has no token, so everybody who reaches its ports can run programs on its nodes. "
                    "To give it a token, run `ray get-auth-token --generate` before `ray start --head`"
                )
            places = RayPlaces(
                cluster,
                directory,
                device=self.device,
                workers=self.workers,
                runs_per_gpu=self.runs_per_gpu,
                uses_gpu=uses_gpu,
                shared=self.shared,
                files={path: n_bytes for path, n_bytes in sizes.items() if n_bytes >= 0},
                command=self._command,
                tell=tell,
            )
            yield Executors(slots=(), places=places)

    @property
    def _command(self) -> tuple[str, ...]:
        return (*WORKER, "--trainer", self.trainer)


@dataclass(frozen=True, kw_only=True)
class Executors:
    """The places where runs are worked on, and the slots of this machine (none if runs are elsewhere)."""

    slots: tuple[Slot, ...]
    places: Iterable[Place]
