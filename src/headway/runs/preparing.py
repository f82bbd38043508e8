"""Runs: what is to be seen to before runs are worked on by a process of this machine: memory, and data made once."""

from collections.abc import Callable, Iterator, Sequence

from headway.declare.laboratories import part_of
from headway.declare.run import RunSpec
from headway.runs.batches import checked_together
from headway.runs.devices import Slot
from headway.runs.folder import Run
from headway.runs.memory import check_memory
from headway.runs.store import Store
from headway.words import counted

_NAMED = 4
"""Runs that a sentence names, of many."""


def check_and_prepare(
    runs: Sequence[tuple[str, RunSpec]], slots: Sequence[Slot], tell: Callable[[str], object]
) -> None:
    """Nothing but what is told, when runs can be worked on; of the memory of GPUs that is not known beforehand.

    Args:
        runs: by name.
        slots: where; as many at once. None: on other machines.
        tell: is given what was done with texts that one may not expect.

    Raises:
        UserError: when a corpus or tokenizer cannot be used, examples of one's own break a law, or runs that are worked
            on at once do not fit into memory.
    """
    if slots and all(slot.device == "cpu" for slot in slots):
        check_memory(runs, len(slots))
    looked_at = [spec for _, spec in runs if spec.corpora or (spec.plugins and spec.measures_own)]
    with_data = {(spec.task, spec.training.batch_size): spec for spec in looked_at}
    for note in dict.fromkeys(n for spec in with_data.values() for n in part_of(spec, "prepare")(spec)):
        tell(note)


def about_batches(asked: str | int, left: Sequence[Run], chosen: Sequence[Run], store: Store) -> Iterator[str]:
    """What somebody who chooses runs that exist may not expect of their batches, a sentence for each.

    Args:
        asked: how many runs are to be trained together.
        left: runs that existed before, and are not done.
        chosen: all runs that were chosen.
        store: their directory.
    """
    sizes = [1 if run.batch is None else len(run.batch.members) for run in left if run.spec.shape is not None]
    if checked_together(asked) != "auto" and any(size != int(asked) for size in sizes):
        yield (
            f"--together {asked} holds for runs that are made from now on: {counted(len(sizes), 'run')} that "
            f"{'exists keeps its batch' if len(sizes) == 1 else 'exist keep their batches'}, since who is trained "
            "together changes how sums are rounded; `headway drop` puts runs aside, to be made anew"
        )
    names = {(run.name, run.seed) for run in chosen}
    others = {path: None for run in left if run.batch for path in run.batch.folders(run.path)}
    unchosen = [run for run in store.runs("sizes") if run.path in others and (run.name, run.seed) not in names]
    if along := [f"{run.name} seed {run.seed}" for run in unchosen if run.status in ("waiting", "interrupted")]:
        more = f" and {len(along) - _NAMED} more" if along[_NAMED:] else ""
        are, a_run = ("is", "is a run") if len(along) == 1 else ("are", "are runs")
        yield (
            f"a batch is trained as a whole: {', '.join(along[:_NAMED])}{more} {are} trained too, though not chosen, "
            f"since {'it' if len(along) == 1 else 'they'} {a_run} of one program with some that were"
        )
