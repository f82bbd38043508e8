"""Train: how a run began that started from another: what its folder says of it, as `start.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.declare.tokens.run import TokensRun
from headway.declare.tokens.transformer import TransformerModel
from headway.errors import ResultsError


@dataclass(frozen=True, kw_only=True)
class Started:
    """What became of the other run.

    Attributes:
        origin: the other run's arm and seed.
        model: what is trained now.
        heads: of its heads, in the order of the model, what each is called in the model that was declared.
        steps_before: training steps that the weights have behind them; the data go on from there.
    """

    origin: str
    model: TransformerModel
    heads: tuple[tuple[int, int], ...]
    steps_before: int

    @property
    def content(self) -> dict[str, Any]:
        """What its file says."""
        return {
            "origin": self.origin,
            "model": self.model.model_dump(mode="json"),
            "heads": [list(head) for head in self.heads],
            "steps_before": self.steps_before,
        }

    @classmethod
    def read(cls, run: TokensRun, content: Mapping[str, Any]) -> "Started":
        """From the content of the file of a run.

        Raises:
            ResultsError: when it is not what `content` gave.
        """
        try:
            return cls(
                origin=str(content["origin"]),
                model=run.trained_as(content).model,
                heads=tuple((int(layer), int(head)) for layer, head in content["heads"]),
                steps_before=int(content["steps_before"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"start.json is not as Headway wrote it ({error!r}); train the run anew") from None
