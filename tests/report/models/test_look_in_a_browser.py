"""The page on which one looks at heads, in a real browser: every control does what it says, and text is text.

Needs Chromium or Chrome; HEADWAY_BROWSER may name it.
"""

import json
import re
from dataclasses import replace

import pytest
from support.browser_driver import BROWSER, driven
from support.fabricate_heads import fabricate_heads, xray
from support.fabricate_look import encoder_decoder, name_of, view_of, with_kept, without_patterns

from headway.analysis.look_tokens import visible
from headway.heads.results import AttendedPair
from headway.report.models.look import look_page
from headway.store.directory import Store

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="there is no Chromium or Chrome here")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with driven(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(browser):
    """A browser in which nothing is wrong, and nothing was asked for, when the test is over."""
    browser.said.clear()
    browser.asked.clear()
    browser.size(1300, 900)
    yield browser
    assert browser.said == []
    assert browser.asked == []


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return look_page([view_of()], "headway look planted").write(tmp_path_factory.mktemp("one") / "look.html")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two arms with probes, side by side."""
    folder = tmp_path_factory.mktemp("two")
    store = fabricate_heads(folder / "runs", xray().select(arms=["heads-2", "heads-4"], seeds=1))
    views = [
        view_of((int(run.arm[-1]),) * 6, name=run.arm, run=run.path)
        for run in sorted(Store.open(store).runs(), key=lambda run: run.arm)
    ]
    return look_page(views, "headway look DIR", title="x-ray").write(folder / "look.html")


def texts(page, selector):
    """The texts of all elements that fit."""
    return page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((it) => it.textContent)")


def styles(page, selector, name):
    """A style of all elements that fit."""
    return page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((it) => it.style.{name})")


def picked(page, side=0):
    return page.value(
        f"document.querySelectorAll('.side')[{side}].querySelector('.cell.picked').getAttribute('aria-label')"
    )


def address(page):
    return dict(part.split("=") for part in page.value("location.hash").lstrip("#").split("&"))


def drawn(page, what):
    page.until(f"document.querySelector('.side').dataset.drawn === {json.dumps(what)}")


def test_it_opens_with_the_first_head_that_was_found(page, one):
    page.open(one)
    assert picked(page).startswith("L0H0: previous token score 0.80, null 0.10, random heads 0.10 ± ")
    assert page.text(".panel h3").startswith("L0H0")
    assert [
        page.value(f"document.querySelectorAll('.row[role=row]')[{r}].querySelectorAll('.cell').length")
        for r in (0, 1, 2)
    ] == [4, 2, 1]
    assert page.text("title") == "planted · Headway"
    assert "a planted note" in page.text(".notes")


def test_clicking_a_head_shows_it_and_changes_the_address(page, one):
    page.open(one)
    page.click(".row:nth-child(3) .cell:nth-child(2)")
    drawn(page, "L1H1 0")
    assert page.text(".panel h3").startswith("L1H1")
    assert address(page)["head"] == "L1H1"
    assert "Metrics of L1H1" in page.text(".numbers")
    assert page.text("#live").startswith("L1H1: previous token score")


def test_arrow_keys_go_through_ragged_rows_and_one_cell_alone_takes_the_tab(page, one):
    page.open(one, "#head=L0H3")
    page.value("document.querySelector('.cell.picked').focus()")
    page.press("ArrowDown")
    assert picked(page).startswith("L1H1")
    page.press("ArrowDown")
    assert picked(page).startswith("L2H0")
    page.press("ArrowUp")
    page.press("Home")
    assert picked(page).startswith("L1H0")
    page.press("ArrowRight")
    page.press("ArrowRight")
    assert picked(page).startswith("L1H1")
    assert page.value("document.querySelectorAll('.cell[tabindex=\"0\"]').length") == 1
    assert page.value("document.activeElement === document.querySelector('.cell.picked')")


def test_a_metric_colours_the_grid_and_its_null_stands_beside(page, one):
    page.open(one)
    before = page.value("[...document.querySelectorAll('.cell')].map((cell) => cell.style.background)")
    assert len(set(before)) == 2  # previous-token heads, and others
    page.choose("#choose-metric", "0")
    assert address(page)["metric"] == "output_dissimilarity"
    assert page.text(".all h3") == "Output dissimilarity"
    after = page.value("[...document.querySelectorAll('.cell')].map((cell) => cell.style.background)")
    assert len(set(after)) > 3
    assert page.value("document.querySelector('.row[role=row]:last-child .cell').classList.contains('unknown')")
    assert page.value("document.querySelector('.row[role=row] .strip').title") == "null: 0.00 (mean of the row)"
    page.click(".numbers tr:nth-child(2) button")
    assert page.text(".all h3") == "Previous token score"
    assert page.value("document.querySelector('#choose-metric').value") == "1"


def test_sorted_rows_begin_with_their_highest_head_and_keys_follow(page, one):
    page.open(one, "#head=L0H0&order=sorted")
    order = [int(place) for place in styles(page, ".row:nth-child(2) .cell", "order")]
    assert sorted(order) == [0, 1, 2, 3]
    assert {order[0], order[3]} == {0, 1}  # the two previous-token heads
    page.value("document.querySelector('.cell.picked').focus()")
    page.press("End")
    assert picked(page).partition(":")[0] in ("L0H1", "L0H2")


def test_a_token_that_is_picked_says_where_it_looks_and_who_looks_at_it(page, one):
    page.open(one, "#head=L0H0")
    page.click(".token:nth-of-type(6)")
    assert page.text(".said").startswith("“mat” (5) attends to  the (4) 0.79")
    assert "Attended to by . (6) 0.7" in page.text(".said")
    assert address(page)["token"] == "5"
    colours = page.value("[...document.querySelectorAll('.token')].map((token) => token.style.background)")
    assert colours[4] != colours[3] == colours[2]
    assert page.value("document.querySelectorAll('.token')[6].style.boxShadow").startswith("rgb(213, 94, 0)")
    assert page.text("#live").startswith("“mat” (5) attends to")
    page.press("ArrowRight")
    assert address(page)["token"] == "6"
    page.press("Escape")
    assert "token" not in address(page)


def test_the_token_that_is_picked_is_said_to_be(page, one):
    chosen = "[...document.querySelectorAll('.token')].flatMap((it, at) => it.ariaSelected === 'true' ? [at] : [])"
    page.open(one, "#head=L0H0&token=3")
    assert page.value(chosen) == [3]
    page.click(".row:nth-child(3) .cell:nth-child(2)")
    drawn(page, "L1H1 0")
    assert page.value(chosen) == [3]
    page.click(".token:nth-of-type(6)")
    assert page.value(chosen) == [5]
    page.press("Escape")
    assert page.value(chosen) == []


def test_arrow_keys_move_the_window_over_the_pattern(page, tmp_path):
    path = look_page([view_of(length=200, n_sequences=1)], "x").write(tmp_path / "look.html")
    page.open(path, "#head=L0H0")
    whole = "document.querySelector('canvas.whole')"
    label = f"{whole}.getAttribute('aria-label')"
    n = 1 + int(re.search(r"enlarged: tokens 0 to (\d+) attending to 0 to", page.value(label))[1])
    step = -(-n // 4)
    page.value(f"{whole}.focus()")
    assert page.value(f"document.activeElement === {whole}")
    for key, query, looked in (("ArrowDown", step, 0), ("ArrowRight", step, step), ("ArrowDown", 2 * step, step)):
        page.press(key)
        within = f"tokens {query} to {query + n - 1} attending to {looked} to {looked + n - 1}"
        assert within in page.value(label)
        assert within in page.value("document.querySelector('canvas.part').getAttribute('aria-label')")
        assert page.text("#live") == within
    page.press("ArrowUp")
    page.press("ArrowUp")
    page.press("ArrowUp")
    page.press("ArrowLeft")
    assert f"tokens 0 to {n - 1} attending to 0 to {n - 1}" in page.value(label)
    page.press("End")
    assert f"tokens {200 - n} to 199 attending to {200 - n} to 199" in page.value(label)
    page.press("Home")
    assert f"tokens 0 to {n - 1} attending to 0 to {n - 1}" in page.value(label)
    # A tap moves it too.
    page.click("canvas.whole")
    assert f"tokens {100 - n // 2} to " in page.value(label)


def test_hovering_a_token_shows_it_and_leaves_the_address(page, one):
    page.open(one, "#head=L0H0&token=2")
    page.hover(".token:nth-of-type(4)")
    assert page.text(".said").startswith("“on” (3) attends to")
    assert address(page).get("token", "2") == "2"
    page.hover("h1")
    assert page.text(".said").startswith("“sat” (2) attends to")


def test_the_pattern_has_its_tokens_and_says_what_is_under_the_pointer(page, one):
    page.open(one, "#head=L0H1")
    assert page.value("document.querySelector('canvas.part').offsetWidth") > 300
    # A cell of the first column: what a head that rests on the first token looks at.
    page.value("document.querySelector('canvas.part').scrollIntoView({block: 'center'})")
    left, top = page.value(
        "(({left, top}) => [left, top])(document.querySelector('canvas.part').getBoundingClientRect())"
    )
    x, y = left + 84 + 8, top + 70 + 3 * 17 + 8
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert page.text(".panel .readout") == "“on” (3) attends to “The” (0): 0.81"
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 17 * 6, y=y)
    assert "cannot see" in page.text(".panel .readout")
    page.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
    page.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)
    assert address(page)["token"] == "3"
    canvas = "document.querySelector('canvas.whole')"
    dark = page.value(f"[...{canvas}.getContext('2d').getImageData(2, {canvas}.height - 12, 1, 1).data]")
    assert dark[0] < 100  # the first token's column is dark


def test_a_repeated_sequence_is_marked(page, one):
    page.open(one)
    page.choose("#choose-sequence", "1")
    drawn(page, "L0H0 1")
    assert "tokens repeat after 10 tokens" in page.text(".panel")
    assert page.value("document.querySelectorAll('.token.again').length") == 10
    assert page.value("document.querySelectorAll('.token.once').length") == 10


def test_an_address_is_a_view(page, one):
    page.open(one, "#head=L1H0&metric=output_dissimilarity&sequence=2&token=7")
    assert picked(page).startswith("L1H0: output dissimilarity")
    assert page.value("document.querySelector('#choose-sequence').value") == "2"
    assert (
        page.value("[...document.querySelectorAll('.token')].findIndex((token) => token.classList.contains('picked'))")
        == 7
    )
    page.value("location.hash = '#head=L0H2&sequence=0'")
    page.until("document.querySelector('.panel h3').textContent.startsWith('L0H2')")


@pytest.mark.parametrize(
    "fragment", ["#head=L9H9&metric=none&sequence=99&token=99999&step=x&beside=7", "#%%%", "#head=__proto__&token=-1"]
)
def test_an_address_of_another_page_shows_what_there_is(page, one, fragment):
    page.open(one, fragment)
    assert page.text(".panel h3").startswith("L0H0")
    assert page.value("document.querySelector('#failure').hidden")


def test_a_finding_leads_to_its_head(page, one):
    page.open(one, "#metric=output_dissimilarity&head=L2H0")
    assert re.match(r"Previous-token heads", page.text(".answer li"))
    page.click(".finding")
    assert picked(page).startswith("L0H0: previous token score")
    assert address(page)["metric"] == "previous_token_score"


def test_twins_and_compositions_are_links_to_their_heads(page, one):
    page.open(one, "#head=L0H0")
    text = page.text(".lists")
    assert "similar outputs (cosine)" in text
    assert "Q: later heads that read this head's output into queries" in text
    to = page.text(".lists .entry a")
    page.click(".lists .entry a")
    assert page.text(".panel h3").startswith(to)
    page.open(one, "#head=L2H0")
    assert "this layer has no other head" in page.text(".lists")


def test_circuits_and_pairs_are_tokens(page, one):
    page.open(one)
    text = page.text(".lists")
    assert "OV: tokens that the head copies when it attends to themThe 3.0  cat 2.9" in text
    assert "all 14 tokens" in text
    assert " cat → The 5.5" in text
    assert page.value("[...document.querySelectorAll('.lists tbody tr')][0].textContent") == " catThe0.700.2012"


def test_heads_whose_patterns_were_not_kept_say_so(page, tmp_path):
    path = look_page([without_patterns(view_of(), but=name_of(1))], "x").write(tmp_path / "look.html")
    page.open(path, "#head=L0H1")
    assert "The pattern of L0H1 is not on this page" in page.text(".panel")
    page.click(".row:nth-child(3) .cell")
    drawn(page, "L1H0 0")
    assert "is not on this page" not in page.value(
        "[...document.querySelectorAll('.panel .caption:not([hidden])')].map((it) => it.textContent).join()"
    )


def test_without_any_pattern_the_rest_is_there(page, tmp_path):
    path = look_page([replace(view_of(), sequences=(), patterns={})], "x").write(tmp_path / "look.html")
    page.open(path)
    assert "This page has no patterns" in page.text(".panel")
    assert page.value("document.querySelector('#choose-sequence')") is None
    page.click(".row:nth-child(3) .cell")
    assert page.text(".panel h3").startswith("L1H0")


def test_a_decoder_over_an_encoder_has_both_texts(page, tmp_path):
    path = look_page([encoder_decoder()], "x").write(tmp_path / "look.html")
    page.open(path, "#head=cross+L2H0")
    assert page.value("document.querySelectorAll('.text').length") == 2
    assert texts(page, ".text:first-child .token")[:3] == ["⟨start⟩", "The", " cat"]
    page.click(".text:first-child .token:nth-of-type(2)")
    assert page.text(".said").startswith("“The” (1) attends to  sat (2) 0.5")
    assert len(set(styles(page, ".text:last-child .token", "background"))) == 2
    page.open(path, "#head=encoder+L0H0&token=0")
    assert page.value("document.querySelectorAll('.text').length") == 1
    assert page.text(".said").startswith("“The” (0) attends to  sat (2) 0.5")  # it looks ahead
    page.open(path, "#head=decoder+L1H0")
    assert texts(page, ".text .token")[0] == "⟨start⟩"


def test_two_arms_stand_side_by_side(page, trained):
    page.open(trained)
    assert page.value("[...document.querySelectorAll('.side h2')].map((it) => it.textContent)") == [
        "heads-2",
        "heads-4",
    ]
    page.value("document.querySelectorAll('.side')[1].querySelectorAll('.cell')[3].click()")
    page.until("document.querySelectorAll('.side')[1].dataset.drawn === 'L0H3 0'")
    assert address(page)["head2"] == "L0H3"
    assert picked(page, 0).startswith("L0H0")
    page.choose("#choose-beside", "none")
    page.until("document.querySelectorAll('.side').length === 1")
    page.choose("#choose-model", "1")
    page.until("document.querySelector('.side h2').textContent === 'heads-4'")
    page.open(trained, "#model=1&beside=0&head=L3H3&head2=L2H1")
    assert (picked(page, 0)[:4], picked(page, 1)[:4]) == ("L3H3", "L2H1")


def test_the_slider_goes_over_training_for_grid_twins_and_numbers(page, trained):
    page.open(trained, "#metric=sink_score&head=L1H0&head2=L1H0")
    assert page.text(".step output") == "finished model, measured again"
    assert picked(page) == "L1H0: sink score –"  # only the probes measured it
    page.choose("#choose-step", "0")
    assert page.text(".step output") == "step 0"
    assert address(page)["step"] == "0"
    first = picked(page)
    assert re.match(r"L1H0: sink score 0\.\d\d, null 0\.03$", first)
    assert "numbers of step 0" in page.text(".panel h3")
    twins = page.text(".lists .list:nth-child(3)")
    last = page.value("document.querySelector('#choose-step').max")
    page.choose("#choose-step", str(int(last) - 1))
    assert page.text(".step output") == "step 12,000"
    assert picked(page) != first
    assert page.text(".lists .list:nth-child(3)") != twins
    page.open(trained, "#step=500&metric=sink_score")
    assert page.text(".step output").startswith("step ")


def test_untrained_twins_stand_beside_those_of_the_finished_model_alone(page, trained):
    twins = ".lists .list:nth-child(3)"
    page.open(trained, "#head=L1H0&head2=L1H0")
    assert re.search(r"similar outputs \(cosine\)L1H1 −?0\.\d+ \(random heads −?0\.\d+\)", page.text(twins))
    last = int(page.value("document.querySelector('#choose-step').max"))
    for place in (0, last - 1):
        page.choose("#choose-step", str(place))
        assert re.search(r"similar \w+ \(\w+\)L1H1 −?0\.\d+", page.text(twins))
        assert "random heads" not in page.text(twins)
    page.choose("#choose-step", str(last))
    assert "random heads" in page.text(twins)


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    """A run with probes that kept weights at steps of which one was not probed, beside one that kept none."""
    folder = tmp_path_factory.mktemp("keeping")
    store = fabricate_heads(folder / "runs", xray().select(arms=["heads-2", "heads-4"], seeds=1))
    runs = sorted(Store.open(store).runs(), key=lambda run: run.arm)
    few, many = (view_of((int(run.arm[-1]),) * 6, name=run.arm, run=run.path) for run in runs)
    return look_page([with_kept(few, (500, 700, 2000)), many], "headway look DIR").write(folder / "look.html")


def to_step(page, step):
    """Move the slider to a step; None: to the finished model."""
    last = int(page.value("document.querySelector('#choose-step').max"))
    said = None
    for place in range(last + 1) if step is not None else [last]:
        page.choose("#choose-step", str(place))
        said = page.text(".step output")
        if said == f"step {step:,}" if step is not None else True:
            return
    raise AssertionError(f"no step {step} on the slider, which ends with {said}")


CIRCUITS, COMPOSITION = ".lists .list:nth-child(2)", ".lists .list:nth-child(4)"
WEIGHTS = "document.querySelector('.side').dataset.weights"


def test_circuits_and_compositions_follow_the_slider_and_say_of_which_step_they_are(page, keeping):
    page.open(keeping, "#head=L1H0&head2=L1H0")
    assert "tokens that the head copies when it attends to themThe 3.0" in page.text(CIRCUITS)
    assert page.text(CIRCUITS).endswith("Shown: the finished model.")
    finished = page.text(COMPOSITION)
    for step, word, of in (
        (500, "The", "Shown: the model at step 500."),
        (700, " cat", "Shown: the model at step 700."),
        (1000, " cat", "Shown: the model at step 700, the last step before 1,000 with stored weights."),
        (2000, " sat", "Shown: the model at step 2,000."),
        (12_000, " sat", "Shown: the model at step 2,000, the last step before 12,000 with stored weights."),
    ):
        to_step(page, step)
        assert f"tokens that the head copies when it attends to them{word} 7.5" in page.text(CIRCUITS)
        assert "tokens that the head suppresses when it attends to themnothing" in page.text(CIRCUITS)
        assert page.text(CIRCUITS).endswith(of)
        assert page.text(COMPOSITION).endswith(of)
        assert page.text(COMPOSITION) != finished
        # Where weights were kept and nothing was probed, the grid is that of the last probe, and says so.
        probed = 500 if step == 700 else step
        assert page.text(".panel h3").endswith(f"numbers of step {probed:,}")
    to_step(page, 40)
    assert "The 3.0" in page.text(CIRCUITS)
    first = "Shown: the finished model, since the first stored weights are from step 500."
    assert page.text(CIRCUITS).endswith(first)
    right = "document.querySelectorAll('.side')[1].querySelector('.lists .list:nth-child(2)').textContent"
    assert page.value(right).endswith(
        "Shown: the finished model, since this run stored no weights during training (logging.weights)."
    )
    to_step(page, None)
    assert page.text(CIRCUITS).endswith("Shown: the finished model.")
    assert page.text(COMPOSITION) == finished


def test_patterns_follow_the_slider_and_say_where_they_are_cut(page, keeping):
    page.open(keeping, "#head=L0H0&head2=L0H0&token=5")
    assert page.text(".said").startswith("“mat” (5) attends to  the (4) 0.79")
    to_step(page, 700)
    page.until(f"{WEIGHTS} === '700'")
    assert page.text(".said").startswith("“mat” (5) attends to The (0) 0.79")
    about = "document.querySelector('.panel .which').textContent"
    assert page.value(about) == "A sequence of the text. Shown: the model at step 700."
    to_step(page, 1000)
    said = "Shown: the model at step 700, the last step before 1,000 with stored weights."
    assert page.value(about) == f"A sequence of the text. {said}"
    assert page.value(WEIGHTS) == "700"
    page.choose("#choose-sequence", "2")
    page.until(f"{WEIGHTS} === 'finished'")
    said = (
        "A sequence of the text. Pattern of the finished model; this page has no pattern of this head at other steps."
    )
    assert page.value(about) == said
    page.choose("#choose-sequence", "0")
    page.until(f"{WEIGHTS} === '700'")
    to_step(page, None)
    page.until(f"{WEIGHTS} === 'finished'")
    assert page.value(about) == "A sequence of the text. Shown: the finished model."
    page.open(keeping, "#head=L0H0&head2=L0H0&token=5&step=2000")
    page.until(f"{WEIGHTS} === '2000'")
    assert page.text(".said").startswith("“mat” (5) attends to The (0) 0.79")


def test_a_run_that_kept_weights_and_was_not_probed_has_a_slider_over_them(page, tmp_path):
    path = look_page([with_kept(view_of(), (0, 40))], "x").write(tmp_path / "look.html")
    page.open(path, "#head=L0H0")
    assert page.value("document.querySelector('#choose-step').max") == "2"
    assert page.text(".step output") == "finished model, measured again"
    page.choose("#choose-step", "1")
    assert page.text(".step output") == "step 40"
    assert address(page)["step"] == "40"
    assert page.text(CIRCUITS).endswith("Shown: the model at step 40.")
    said = "numbers of the finished model, since this run was not measured during training"
    assert page.text(".panel h3").endswith(said)
    assert picked(page).startswith("L0H0: previous token score 0.80")
    page.until(f"{WEIGHTS} === '40'")


def test_what_the_keyboard_changes_keeps_the_focus(page, trained):
    page.open(trained, "#head=L1H0&head2=L1H0")
    focused = "document.activeElement.id"
    page.value("document.querySelector('#choose-model').focus()")
    for key, name in (("ArrowDown", "heads-4"), ("ArrowUp", "heads-2"), ("ArrowDown", "heads-4")):
        page.press(key)
        page.until(f"document.querySelector('.side h2').textContent === '{name}'")
        assert page.value(focused) == "choose-model"
    page.value("document.querySelector('#choose-beside').focus()")
    page.press("Home")
    page.until("document.querySelectorAll('.side').length === 1")
    assert page.value(focused) == "choose-beside"
    page.value("document.querySelectorAll('.numbers button')[0].focus()")
    name = page.value("document.activeElement.textContent")
    page.press("Enter")
    assert page.text(".all h3").lower() == name
    assert page.value("document.activeElement.textContent") == name
    assert page.value(f"document.activeElement === document.getElementById({focused})")  # ids are unique
    page.value("document.querySelector('.lists .entry a').focus()")
    to = page.value("document.activeElement.textContent")
    page.press("Enter")
    assert page.value("document.activeElement.matches('.panel h3')")
    assert page.text(".panel h3").startswith(to)


def test_a_trajectory_shows_a_head_under_a_metric(page, trained):
    page.open(trained, "#metric=sink_score&head=L1H0")
    assert page.value("document.querySelectorAll('svg.trajectory').length") == 2
    said = page.value("document.querySelector('svg.trajectory').getAttribute('aria-label')")
    assert re.match(r"sink score of L1H0: from 0\.\d\d at step 0 to 0\.\d\d at step 12000$", said)
    page.click("svg.trajectory")
    page.until("location.hash.includes('step=')")
    page.choose("#choose-metric", "0")
    assert page.value("document.querySelector('svg.trajectory, .panel .caption') !== null")


def test_screen_readers_are_told_what_everything_is(page, trained):
    page.open(trained)
    assert page.value("document.documentElement.lang") == "en"
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if "role" in node}
    assert ("grid", "All heads of heads-2") in named
    assert any(role == "gridcell" and name.startswith("L0H0: ") for role, name in named)
    assert any(role == "option" and name == "token 1, cat" for role, name in named)
    assert {("combobox", name) for name in ("left", "right", "metric", "head order", "sequence")} <= named
    assert any(role == "slider" and name.startswith("training") for role, name in named)
    assert any(role in ("image", "img") and name.startswith("Pattern of L0H0") for role, name in named)
    assert any(role == "application" and name.startswith("The whole pattern of L0H0") for role, name in named)
    unnamed = [
        node
        for node in tree
        if node.get("role", {}).get("value") in ("button", "link", "combobox", "slider", "img", "application", "Canvas")
        and not node.get("name", {}).get("value")
    ]
    assert unnamed == []


HOSTILE = (
    "</script><script>document.title='PWNED'</script>",
    "<img src=http://127.0.0.1:9/x onerror=document.title='PWNED'>",
    "\u202eDENWP",
    "a\u200bb\u200d",
    "\u2066x\u2069",
    "x" * 10_000,
    "]]>--><!-- PWNED",
    "\u0301",
    "\x00\x1b[31m",
    "",
    "{{7*7}}${7*7}",
    "__proto__",
    "&lt;b&gt;",
    "שלום",
)


def test_hostile_tokens_and_names_are_text(page, tmp_path):
    words = tuple(map(visible, HOSTILE))
    view = view_of(words=words, name=HOSTILE[1] + HOSTILE[0] + "\u202e")
    view = replace(view, notes=HOSTILE)
    path = look_page([view, replace(view, name=HOSTILE[0])], HOSTILE[0]).write(tmp_path / "look.html")
    page.open(path, "#token=3")
    assert page.value("document.title").startswith("<img src=")
    for tag in ("img", "iframe", "object", "embed", "link", "base", "svg:not(.trajectory)"):
        assert page.value(f"document.querySelectorAll({json.dumps(tag)}).length") == 0, tag
    assert page.value("document.querySelectorAll('script:not([type])').length") == 1
    tokens = page.value("[...document.querySelectorAll('.token')].slice(0, 14).map((token) => token.textContent)")
    assert tokens == list(words)
    assert tokens[2] == "⟨U+202E⟩DENWP"
    assert tokens[3] == "a⟨U+200B⟩b⟨U+200D⟩"
    assert tokens[5].endswith("… (10,000 characters)")
    assert len(tokens[5]) < 60
    assert tokens[8] == "⟨U+0000⟩⟨U+001B⟩[31m"
    assert "\u202e" not in page.value("document.body.innerText")
    wide = page.value("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    return look_page([view_of((32,) * 32, n_sequences=2)], "x").write(folder / "look.html")


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("of", ["one", "many"])
def test_it_is_readable_at_every_width(page, request, width, of):
    path = request.getfixturevalue(of)
    page.size(width, 900)
    page.open(path)
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value("document.querySelector('.cell').offsetWidth") >= (8 if of == "many" else 30)
    beyond = (
        "[...document.querySelectorAll('main *')].filter((it) => !it.closest('.scroll, select, .unseen') && "
        "it.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert page.value(beyond) == 0


@pytest.mark.parametrize("width", [400, 1100, 1200])
def test_no_number_of_a_head_is_cut(page, one, width):
    page.size(width, 900)
    page.open(one)
    assert page.value("document.querySelector('.numbers td:last-child')") is not None
    assert page.value(
        "[...document.querySelectorAll('.numbers .scroll')].map((it) => it.scrollWidth - it.clientWidth)"
    ) == [0]


def test_pairs_of_long_tokens_fit_their_table(page, tmp_path):
    words = tuple(map(visible, ("W" * 10_000, "\u4e2d" * 10_000, " cat", "x" * 14)))
    pairs = tuple(AttendedPair(query=at, key=1 - at % 2, weight=0.7, even=0.2, n=12_345) for at in range(4))
    view = view_of(words=words)
    view = replace(view, pairs=dict.fromkeys(view.pairs, pairs))
    path = look_page([view, view], "x").write(tmp_path / "look.html")
    first = "document.querySelector('.lists .list .scroll')"
    for width in (400, 1300):
        page.size(width, 900)
        page.open(path)
        assert page.value(f"{first}.scrollWidth - {first}.clientWidth") <= 0, width
    assert page.value(f"{first}.clientWidth") < 700
    shown = page.value(f"[...{first}.querySelectorAll('tbody th .chip')].map((it) => [it.textContent, it.title])")
    assert shown == [
        ["W" * 13 + "…", words[0]], ["\u4e2d" * 13 + "…", words[1]], [" cat", " cat"], ["x" * 14, "x" * 14],
    ]  # fmt: skip
