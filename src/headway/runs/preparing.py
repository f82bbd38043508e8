"""Runs: what is to be seen to before runs are worked on by a process of this machine: memory, and data made once."""

from collections.abc import Callable, Sequence

from headway.declare.laboratories import part_of
from headway.declare.run import RunSpec
from headway.runs.devices import Slot
from headway.runs.memory import check_memory


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
