"""The page of patching: a cell for each head and site, positions by their tokens, and texts that do not differ."""

from dataclasses import replace

import numpy as np
from support.figures import rows_of

from headway.causal.patch_result import HeadPattern, PatchedModel, Patching
from headway.report.charts.page import svg_of
from headway.report.models.patching import figures, headline, heads, most_restoring

HEADS = ((0, 0), (0, 1), (1, 0))


def patched(*, by_position=False, difference=2.0):
    effects = np.array([[1.0], [-0.5], [0.0]])
    if by_position:
        effects = np.stack([effects, 0 * effects], axis=1)
    return PatchedModel(
        name="small", model={}, text="two texts", n_tokens=4, n_sequences=2, length=2, attentions=(), scores={},
        metric="a logit", clean=("a", "b"), corrupted=("a", "c"),
        positions=("a", "c"),
        patching=Patching(
            heads=HEADS, clean=np.array([difference]), corrupted=np.array([0.0]), effects={"z": effects, "q": effects},
            estimates={"z": effects, "q": effects / 2}, cancels=(False, True, False),
        ),
        patterns=(HeadPattern(head=(0, 0), clean=np.eye(2), corrupted=np.tri(2) / [[1], [2]]),),
    )  # fmt: skip


def test_a_cell_for_each_head_and_site():
    drawn = {figure.name: figure for figure in figures(patched())}
    assert list(drawn) == ["patched", "patterns"]
    restored = {row["head"]: row["restored"] for row in rows_of(drawn["patched"])}
    assert restored == {"L0H0": 0.5, "L0H1": -0.25, "L1H0": 0}
    for figure in drawn.values():
        assert svg_of(figure.spec).startswith("<svg")


def test_positions_have_their_tokens():
    drawn = {figure.name: figure for figure in figures(patched(by_position=True))}
    cells = {(row["head"], row["token"]): row["restored"] for row in rows_of(drawn["patched-z-by-position"])}
    assert cells["L0H0", "a"] == 0.5
    assert cells["L0H0", "c"] == 0


def test_the_headline_says_which_heads_restore_how_much():
    assert headline(patched()) == (
        "Patching a head's output (z) restores these shares of the metric difference: L0H0 50.0 % and L0H1 −25.0 %."
    )
    same = headline(patched(difference=0.0))
    assert same.startswith("The metric is not clearly above 0 on the clean text")
    assert same.endswith("The metric does not differ between the texts, so there is nothing to restore.")


def test_the_tables_have_exact_and_estimated_shares():
    assert most_restoring(patched()).rows[0].cells == ("L0H0", "50 %", "50 %")
    assert heads(patched()).rows[1].cells == ("L0H1", "−25 %", "−25 %", "−25 %", "−12 %", "paths cancel")


def test_texts_that_do_not_differ_have_no_shares():
    same = patched(difference=0.0)
    assert [figure.name for figure in figures(same)] == ["patterns"]
    assert [row.cells for row in most_restoring(same).rows] == [("clean", "0"), ("corrupted", "0")]
    assert heads(same).rows[0].cells[:3] == ("L0H0", "–", "–")


def test_with_several_pairs_there_are_intervals():
    one = patched()
    effects = np.array([[1.0, 1.2, 0.9], [-0.5, -0.4, -0.6], [0.0, 0.1, -0.1]])
    several = replace(
        one.patching, clean=np.array([2.0, 2.1, 1.9]), corrupted=np.zeros(3), effects={"z": effects, "q": effects},
        estimates={"z": effects, "q": effects},
    )  # fmt: skip
    found = replace(one, patching=several)
    drawn = {figure.name: figure for figure in figures(found)}
    assert list(drawn) == ["patched", "patched-intervals", "patterns"]
    assert svg_of(drawn["patched-intervals"].spec).startswith("<svg")
    assert "over 3 pairs of texts" in drawn["patched-intervals"].caption
    rows = {row["row"]: row for row in rows_of(drawn["patched-intervals"]) if "row" in row}
    assert rows["L0H0"]["all0"] < rows["L0H0"]["own0"] < rows["L0H0"]["value"] < rows["L0H0"]["own1"]
    assert most_restoring(found).rows[0].cells[1] == "51.7 % (38.9 % to 64.4 %)"
    assert heads(found).caption.count("95 % intervals over 3 pairs, not simultaneous") == 1
