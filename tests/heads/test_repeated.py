"""Random tokens, repeated."""

import numpy as np
import pytest

from headway.errors import UserError
from headway.heads.repeated import repeated_tokens


def test_each_text_is_its_first_half_twice():
    tokens = repeated_tokens(100, 7, 5, seed=3)
    assert (tokens.shape, tokens.dtype) == ((5, 14), np.int64)
    assert (tokens[:, :7] == tokens[:, 7:]).all()
    assert all(len(set(text[:7])) == 7 for text in tokens)
    assert len({tuple(text) for text in tokens}) == 5
    assert tokens.min() >= 0
    assert tokens.max() < 100


def test_a_seed_gives_the_same_tokens_and_another_others():
    assert np.array_equal(repeated_tokens(100, 7, 5, 3), repeated_tokens(100, 7, 5, 3))
    assert not np.array_equal(repeated_tokens(100, 7, 5, 3), repeated_tokens(100, 7, 5, 4))


def test_a_small_vocabulary_repeats_within_a_period():
    assert set(repeated_tokens(3, 50, 1, 0)[0]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("given", "words"), [((0, 4, 1), "vocab_size 0"), ((9, 1, 1), "period 1"), ((9, 4, 0), "batch 0")]
)
def test_what_cannot_be_drawn(given, words):
    with pytest.raises(UserError, match=f"repeated tokens with {words} were asked for; .* must be at least"):
        repeated_tokens(*given, seed=0)
