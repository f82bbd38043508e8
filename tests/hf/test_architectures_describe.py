"""A description holds everything that makes a model the function it is."""

import pytest

from headway.config.lm.model import GptNeo, Ranks
from headway.hf.architectures import describe

LANE = GptNeo(
    family="gpt-neo", d_model=48, n_layers=2, n_heads=4, d_embed=20, positions="rotary", mlp="gelu", windows=(7, None)
)
CHANGES = {
    "d_model": 64,
    "n_layers": 3,
    "n_heads": "4-6",
    "n_kv_heads": 2,
    "d_head": 10,
    "attention_scale": "d_head",
    "windows": (None,),
    "mask": "future",
    "embedding_scale": "d_model",
    "emptied": (0,),
    "positions": "learned",
    "n_positions": 99,
    "rotary_base": 99.0,
    "norm": "rms",
    "norm_place": "after",
    "norm_eps": 1e-3,
    "mlp": "relu",
    "d_mlp": 99,
    "biases": ("mlp",),
    "tied": False,
    "dropout": 0.1,
    "d_embed": 21,
    "lane": "switched",
    "positions_in_lane": False,
    "ranks": Ranks(down=3),
    "init_std": 0.1,
}
NO_FUNCTION = {"family", "factor_init", "embedding_init_std"}
"""A set of defaults, and how training starts."""
REFUSED = {"residual", "readout", "encoder", "class_token", "smeared_keys", "attention"}
"""No model that has one of these is exported, so none is described."""


def test_every_field_of_a_model_is_thought_of():
    assert set(GptNeo.model_fields) == set(CHANGES) | NO_FUNCTION | REFUSED


@pytest.mark.parametrize("name", CHANGES)
def test_another_model_has_another_description(name):
    needed = {"mask": {"windows": (None,)}, "emptied": {"n_heads": "0-4"}}.get(name, {})
    changed = GptNeo(**{**LANE.content(), **needed, name: CHANGES[name]})
    assert describe(changed) != describe(GptNeo(**{**LANE.content(), **needed}) if name == "emptied" else LANE)


def test_what_has_no_effect_is_not_described():
    plain = GptNeo(family="gpt-neo", d_model=48, n_layers=2, n_heads=4)
    same = GptNeo(
        family="gpt-neo",
        d_model=48,
        n_layers=2,
        n_heads="4-4",
        n_kv_heads=4,
        d_head=12,
        d_mlp=192,
        rotary_base=7.0,
        positions_in_lane=False,
    )
    assert describe(same) == describe(plain)
