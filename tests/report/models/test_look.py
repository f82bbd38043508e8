"""The page on which one looks at heads, without a browser: what it holds, what is cut, what lets nothing else in."""

import base64
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
from support.fabricate_heads import fabricate_heads, xray
from support.fabricate_look import LENGTH, kind_of, name_of, pattern, view_of, with_kept
from support.tolerance import assert_same

from headway.analysis.look import check_number
from headway.config.spec import MOST_MODELS
from headway.errors import UserError
from headway.report.experiment.data import gather
from headway.report.experiment.page import page, write_report
from headway.report.models.look import composed, look_page, trajectory
from headway.stats.results import write
from headway.store.directory import Store


@pytest.fixture(scope="module")
def html():
    return look_page([view_of()], "headway look planted").html


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    return fabricate_heads(
        tmp_path_factory.mktemp("probed") / "runs", xray().select(arms=["heads-2", "heads-4"], seeds=1)
    )


def data_of(html):
    return json.loads(html.partition('id="look-data">')[2].partition("</script>")[0])


def packed(html, name):
    return base64.b64decode(re.search(rf'id="{name}">([A-Za-z0-9+/=]*)</script>', html)[1])


def numbers(html, name):
    return np.frombuffer(packed(html, name), "<f4")


def test_patterns_in_the_page_are_those_of_the_model(html):
    kept = data_of(html)["models"][0]["patterns"]["0-0"]
    assert kept == {"heads": [0, 1, 2, 3], "q": LENGTH, "k": LENGTH, "lower": True}
    weights = np.frombuffer(zlib.decompress(packed(html, "m0-0-0"), -15), np.uint8).reshape(4, -1) / 255
    for head in range(4):
        expected = pattern(kind_of(0, head))[np.tri(LENGTH, dtype=bool)]
        assert np.abs(weights[head] - expected).max() < 0.51 / 255


def test_numbers_in_the_page_are_exact(html):
    data, view = data_of(html), view_of()
    names = [metric["name"] for metric in data["metrics"]]
    values = numbers(html, "m0-values").reshape(1, len(names), 2, 7)
    drawn = numbers(html, "m0-untrained").reshape(len(names), 2, 7)
    previous, of_pairs = names.index("previous_token_score"), names.index("output_dissimilarity")
    scores = view.found.scores
    expected = np.concatenate(list(scores["previous_token_score"].values.values())).astype(np.float32)
    np.testing.assert_array_equal(values[0, previous, 0], expected)
    assert set(values[0, previous, 1]) == {np.float32(0.1)}
    draws = scores["previous_token_score"].draws[name_of(0)]
    assert_same(drawn[previous, 0, :4], draws.mean(0), dtype=np.float32)
    assert_same(drawn[previous, 1, :4], draws.std(0, ddof=1), dtype=np.float32)
    others = (scores["output_dissimilarity"].values[name_of(0)].sum(1) + 1) / 3
    assert_same(values[0, of_pairs, 0, :4], others, dtype=np.float32)
    assert np.isnan(values[0, of_pairs, 0, 6])  # a single head has no other
    pairs = numbers(html, "m0-pairs")
    np.testing.assert_array_equal(
        pairs[:16], scores["output_dissimilarity"].values[name_of(0)].ravel().astype(np.float32)
    )


def test_the_policy_names_the_one_script_and_lets_nothing_else_in(html):
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)[1]
    directives = {words.split()[0]: words.split()[1:] for words in policy.split(";")}
    assert directives["default-src"] == ["'none'"]
    assert len(directives["script-src"]) == 1
    assert "unsafe-eval" not in policy
    assert html.index("Content-Security-Policy") < html.index("<style>") < html.index("<script")
    assert not re.search(r"""(?:src|href)=["']?(?!#)[a-z]""", html.partition("<main>")[2].partition("<script")[0])
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_moments_are_the_probes_at_even_steps_of_a_log_scale(probed):
    run = Store.open(probed).runs()[0]
    every, _ = trajectory(run.path, most=1000)
    assert list(every) == run.head_steps()
    few, n_probed = trajectory(run.path, most=10)
    assert len(few) <= 10
    assert (min(few), max(few)) == (0, 12_000)
    assert n_probed == len(every)
    assert trajectory(None) == ({}, 0)


def test_steps_that_are_left_out_are_said(probed):
    run = Store.open(probed).run("heads-2", 0)
    page = look_page([view_of((2,) * 6, run=run.path)], "x")
    (cut,) = page.cuts
    assert re.fullmatch(r"planted: \d\d of 65 probed steps are on the slider", cut)
    assert cut.removeprefix("planted: ") in data_of(page.html)["models"][0]["notes"]


def test_sequences_that_do_not_fit_are_left_out_and_said():
    view = view_of((8,) * 8, n_sequences=6, length=128)
    whole = look_page([view], "x")
    assert whole.cuts == ()
    less = look_page([view], "x", largest=len(whole.html) - 20_000)
    assert len(less.html) <= len(whole.html) - 20_000
    kept = len(data_of(less.html)["models"][0]["sequences"])
    assert 1 <= kept < 6
    assert "sequences were left out, so that the page stays below" in less.cuts[0]


def test_what_was_kept_while_it_trained_is_in_the_page_and_goes_first_where_there_is_no_room():
    view = with_kept(view_of((8,) * 8, n_sequences=6, length=128), (0, 40), sequences=4)
    whole = look_page([view], "x")
    (model,) = data_of(whole.html)["models"]
    assert [kept["step"] for kept in model["kept"]] == [0, 40]
    assert [kept["circuits"][5]["copies"] for kept in model["kept"]] == [[[0, 7.5]], [[1, 7.5]]]
    assert model["kept"][1]["composition"]["L1H0"]["q"]["read_by"][0][1:] == [0.0, False]
    assert set(model["kept"][0]["patterns"]) == {f"{row}-{number}" for row in range(8) for number in range(4)}
    steps = np.frombuffer(zlib.decompress(packed(whole.html, "m0-s1-3-2"), -15), np.uint8).reshape(8, -1) / 255
    assert np.abs(steps[0] - pattern("first", 128)[np.tri(128, dtype=bool)]).max() < 0.51 / 255
    less = look_page([view], "x", largest=len(whole.html) - 20_000)
    (model,) = data_of(less.html)["models"]
    assert [kept["patterns"] for kept in model["kept"]] == [{}, {}]
    assert len(model["sequences"]) == 6
    assert "patterns during training were left out, so that the page stays below" in less.cuts[0]


def test_compositions_are_the_strongest_of_each_head():
    view = view_of()
    found = composed(view.found.composition, view.found.labels)
    table = view.found.composition.q
    reads = found["of"]["L2H0"]["q"]["reads"]
    assert [value for _, value, _ in reads] == [round(float(v), 4) for v in np.sort(table[:6, 6])[::-1][:3]]
    assert all(beyond == (value > 0.35) for _, value, beyond in reads)
    assert found["of"]["L0H0"]["q"]["reads"] == found["of"]["L2H0"]["q"]["read_by"] == []
    assert found["null"] == 0.1


def test_a_model_without_compositions_and_circuits_has_a_page():
    view = view_of()
    bare = replace(view, circuits=None, pairs={}, found=replace(view.found, composition=None))
    model = data_of(look_page([bare], "x").html)["models"][0]
    assert model["circuits"] is model["composition"] is None
    assert model["pairs"] == [[]] * 7


def test_a_report_of_more_arms_than_a_page_holds_names_a_run(probed, monkeypatch):
    """A page of the whole directory would be refused."""
    store = Store.open(probed)
    material = gather(store, write(store))
    assert "<code>headway look</code> on this directory" in page(material, ())
    monkeypatch.setattr("headway.report.experiment.page.MOST_MODELS", 1)
    html = page(material, ())
    assert "<code>headway look</code> on the folder of a run, such as <code>runs/heads-2/seed-0</code> in this" in html
    assert (probed / "runs/heads-2/seed-0").is_dir()
    assert "on this directory shows" not in html
    with pytest.raises(UserError, match=f"{MOST_MODELS + 1} models were asked for, and a page holds {MOST_MODELS} at"):
        check_number([probed] * (MOST_MODELS + 1))


@pytest.mark.slow
def test_a_report_links_to_the_page_once_it_is_there(probed):
    store = Store.open(probed)
    results = write(store)
    report = write_report(store, results, files=False)
    assert "<code>headway look</code> on this directory" in report.read_text()
    assert "look.html" not in report.read_text()
    look_page([view_of()], "x").write(probed / "look.html")
    write_report(store, results, files=False, anew=False)
    assert '<a href="look.html">Look at the heads' in report.read_text()
    before = report.stat().st_mtime_ns
    write_report(store, results, files=False, anew=False)
    assert report.stat().st_mtime_ns == before
