"""The configuration of an exported model that no stock architecture can be; it travels with the model.

The folder's config.json states everything layer by layer, and null is "none" or "has no effect". So only those keys
have a default that older folders lack.
"""

from typing import Any

from transformers import PretrainedConfig


class HeadwayConfig(PretrainedConfig):
    """A transformer with ragged heads."""

    model_type = "headway"

    attends: str = "past"
    embedding_scale: str = "none"
    emptied: Any = ()
