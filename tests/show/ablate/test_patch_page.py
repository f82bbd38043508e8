"""The page of patching: a cell for each head and site, positions by their tokens, and texts that do not differ."""

import numpy as np

from headway.heads.causes.patched import Patching
from headway.heads.causes.patched_model import HeadPattern, PatchedModel
from headway.show.ablate.patch_page import figures, heads, most_restoring
from headway.show.shared.figure_files import render

HEADS = ((0, 0), (0, 1), (1, 0))


def patched(*, by_position=False, difference=2.0):
    effects = np.array([[1.0], [-0.5], [0.0]])
    if by_position:
        effects = np.stack([effects, 0 * effects], axis=1)
    return PatchedModel(
        name="small", model={}, text="two texts", n_tokens=4, n_sequences=2, length=2, attentions=(), scores={},
        metric="a logit", clean=("a", "b"), corrupted=("a", "c"),
        patching=Patching(
            heads=HEADS, clean=np.array([difference]), corrupted=np.array([0.0]), effects={"z": effects, "q": effects},
            estimates={"z": effects, "q": effects / 2}, cancels=(False, True, False),
        ),
        patterns=(HeadPattern(head=(0, 0), clean=np.eye(2), corrupted=np.tri(2) / [[1], [2]]),),
    )  # fmt: skip


def rows_of(figure):
    return [row for data in figure.spec["datasets"].values() for row in data]


def test_a_cell_for_each_head_and_site():
    drawn = {figure.name: figure for figure in figures(patched())}
    assert list(drawn) == ["patched", "patterns"]
    restored = {row["head"]: row["restored"] for row in rows_of(drawn["patched"])}
    assert restored == {"L0H0": 0.5, "L0H1": -0.25, "L1H0": 0}
    for figure in drawn.values():
        assert render(figure.spec).startswith("<svg")


def test_positions_have_their_tokens_and_only_the_first_site_is_open():
    drawn = {figure.name: figure for figure in figures(patched(by_position=True))}
    assert [name for name, figure in drawn.items() if figure.folded] == ["patched-q-by-position"]
    cells = {(row["head"], row["token"]): row["restored"] for row in rows_of(drawn["patched-z-by-position"])}
    assert cells["L0H0", "a"] == 0.5
    assert cells["L0H0", "c"] == 0


def test_the_tables_have_exact_and_estimated_shares():
    assert most_restoring(patched()).rows[0].cells == ("L0H0", "50 %", "50 %")
    assert heads(patched()).rows[1].cells == ("L0H1", "−25 %", "−25 %", "−25 %", "−12 %", "paths cancel")


def test_texts_that_do_not_differ_have_no_shares():
    same = patched(difference=0.0)
    assert [figure.name for figure in figures(same)] == ["patterns"]
    assert most_restoring(same).rows[0].cells == ("L0H0", "–", "–")
