"""The headlines of pages of finished models: numbers of the measurements, or that nothing stands out."""

from dataclasses import replace

import numpy as np
import pytest
from support.planted import planted, texts

import headway
from headway.causal.effects import KINDS
from headway.report.models.ablation import ablation_page
from headway.report.models.page import OPENING
from headway.report.models.xray import headline, xray_page


@pytest.mark.slow
def test_an_xray_names_its_special_heads_and_frames_them():
    model, tokens = planted(4)[0], texts(4)[0].numpy()
    found = headway.xray(model, tokens=tokens, draws=16)
    special = next(finding for finding in found.findings if finding.heads)
    page = xray_page(found)
    assert special.heads[0] in page.headline
    assert "(random heads " in page.headline
    first = page.figures[0]
    assert first.part == OPENING
    assert first.caption.startswith("Orange frames are the heads named above.")
    assert [figure.part for figure in page.figures].count(OPENING) == 1


def test_heads_without_random_copies_have_a_headline_and_a_picture_too():
    model, tokens = planted(4)[0], texts(4)[0].numpy()
    found = replace(headway.xray(model, tokens=tokens, draws=0), composition=None)
    assert headline(found).startswith("The heads were not compared with random heads")
    assert xray_page(found).figures[0].part == OPENING


@pytest.mark.slow
def test_an_ablation_says_which_heads_matter_by_the_intervals_of_its_numbers():
    model, tokens = planted(4)[0], texts(4)[0].numpy()
    found = headway.ablate(model, text=tokens, sequences=12)
    ends = np.concatenate(found.exact.single["mean"].corrected_interval())
    said = ablation_page(found).headline
    n = int(((ends[:, 0] > 0.01) | (ends[:, 1] < -0.01)).sum())
    assert said.startswith(f"{n} of {len(ends)} heads matter" if n else f"None of the {len(ends)} heads clearly")
    assert set(found.exact.single) == set(KINDS)
