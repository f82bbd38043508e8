"""Pages in a real browser: all of their figures are drawn under their own policy, and no text becomes anything else.

Needs Chromium or Chrome; HEADWAY_BROWSER may name it.
"""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import vl_convert
from support import stored
from support.browser_driver import BROWSER, COMMAND
from support.fabricate import compared, fabricate, small
from support.fabricate_heads import fabricate_heads, xray
from support.fabricate_text import fabricate_text, head_progression
from support.figures import Elements

from headway.heads.results import AttentionHeads, XRay
from headway.heads.scores import HeadScores
from headway.report.charts.page import svg_of
from headway.report.charts.parameters import Parts, write_picture
from headway.report.experiment.page import figures, page
from headway.report.models.xray import figures as xray_figures
from headway.report.models.xray import xray_page

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="there is no Chromium or Chrome here")]

EXPRESSIONS = {"expr", "signal", "labelExpr", "calculate", "filter", "test", "update", "init", "as", "field"}
"""Keys of a specification whose text is not drawn as it stands."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What became of a page: its elements after it was drawn, what its console said, and what it asked for."""

    dom: str
    console: str
    asked: tuple[str, ...]

    @property
    def charts(self) -> int:
        """Figures that are drawn."""
        return len(re.findall(r'<div class="chart vega-embed', self.dom))


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """What a page would ask, if it asked for anything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.server.asked.append(self.path)  # type: ignore[attr-defined]
            self.send_response(200)
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()


def see(html: str, folder: Path, server: ThreadingHTTPServer) -> Seen:
    """Open a page, everything folded too, and wait until it is drawn."""
    path = folder / "page.html"
    path.write_text(html.replace("<details>", "<details open>").replace("<details class", "<details open class"))
    drawn = ["--virtual-time-budget=60000", "--enable-logging=stderr", "--dump-dom", path.as_uri()]
    command = [*COMMAND, f"--user-data-dir={folder / 'profile'}", *drawn]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    # Vega-Lite's warnings of a drawing are no concern here.
    said = [line for line in ended.stderr.splitlines() if "CONSOLE" in line and '"WARN ' not in line]
    console = "\n".join(said)
    return Seen(dom=ended.stdout, console=console, asked=tuple(server.asked))  # type: ignore[attr-defined]


def evil(server: ThreadingHTTPServer) -> list[str]:
    """Texts that would be something else if they were believed; each bears the mark PWNED."""
    at = f"http://127.0.0.1:{server.server_port}"
    return [
        f"</script><script>document.title='PWNED';new Image().src='{at}/1'</script><img src={at}/2 onerror=PWNED()>",
        f'"><svg onload="document.title=\'PWNED\'"><image href="{at}/3"/></svg><a href="javascript:PWNED">',
        "'+PWNED+'\\'];PWNED//",
        '"]+PWNED+["\\"+PWNED+"\\\\"',
        "datum['PWNED'].x[0].y",
        "{{7*7}}{%PWNED%}${PWNED}",
        '{"signal": "PWNED", "expr": "PWNED()"}',
        f"{at}/4.png?PWNED",
        "\u202eDENWP PWNED \u2066\u200f",
        "a\nPWNED\tb\u2028c",
        f"</style><style>@import '{at}/5';*{{background:url({at}/PWNED)}}</style>",
        "__proto__ PWNED <!-- & &lt; ]]>",
    ]


def unbelieved(seen: Seen) -> None:
    """Nothing ran, nothing was asked for, and no text became an element."""
    assert seen.asked == ()
    elements = Elements(seen.dom)
    assert "".join(elements.texts["title"]).strip().endswith("· Headway")
    for tag, attributes in elements.tags:
        assert tag not in ("img", "image", "iframe", "object", "embed", "link", "base", "foreignobject"), tag
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        for name in ("href", "xlink:href", "src", "action"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    assert not any("could not be drawn" in text for text in elements.texts.get("div", ()))
    assert not any("PWNED" in text for text in elements.texts["style"])
    assert len([tag for tag, _ in elements.tags if tag == "script"]) == 3


def unexpressed(spec: object, key: str = "") -> None:
    """No text of a specification that is read as code or as an address holds the mark outside of a quoted string."""
    if isinstance(spec, dict):
        for name, inner in spec.items():
            assert name not in ("href", "url", "usermeta"), name
            unexpressed(inner, name)
    elif isinstance(spec, list):
        for inner in spec:
            unexpressed(inner, key)
    elif isinstance(spec, str) and key in EXPRESSIONS:
        assert "PWNED" not in re.sub(r'"(\\.|[^"\\])*"', "", spec), spec


def checked(spec: dict) -> None:
    """A specification, what Vega-Lite makes of it for Vega, and the picture: text is text in all three."""
    unexpressed(spec)
    unexpressed(vl_convert.vegalite_to_vega(spec))
    inert(svg_of(spec))


def inert(svg: str) -> None:
    """A picture without scripts, links and images."""
    for element in ElementTree.fromstring(svg).iter():
        assert element.tag.rpartition("}")[2] not in ("script", "a", "image", "foreignObject", "use", "animate", "set")
        for name, value in element.attrib.items():
            assert not name.startswith("on"), name
            assert not name.endswith("href"), name
            assert name == "aria-label" or "url(http" not in value, (name, value)


def test_every_figure_of_every_report_is_drawn_under_the_policy(tmp_path, server):
    stores = {
        "regression": fabricate(tmp_path / "a", small("icl-heads").select(seeds=2)),
        "text": fabricate_text(tmp_path / "b", head_progression().select(seeds=2)),
        "heads": fabricate_heads(tmp_path / "c", xray().select(arms=["heads-2", "heads-4"], seeds=1)),
    }
    for name, path in stores.items():
        material = compared(path)
        drawn = tuple(figures(material))
        seen = see(page(material, drawn), tmp_path, server)
        assert seen.charts == len(drawn) > 2, name
        assert seen.console == "", name
        assert seen.asked == (), name


def test_labels_questions_and_texts_are_text(tmp_path, server):
    texts = evil(server)
    labels = {f"arms.{arm}.label": "".join(texts[at::4]) for at, arm in enumerate(("h1", "h2", "h4", "h8"))}
    experiment = small("icl-heads", question=" ".join(texts), **labels).select(seeds=1)
    material = compared(fabricate(tmp_path / "results", experiment))
    material = replace(material, results=replace(material.results, warnings=tuple(texts)))
    drawn = tuple(figures(material))
    for figure in drawn:
        checked(figure.spec)
    seen = see(page(material, drawn), tmp_path, server)
    assert seen.charts == len(drawn)
    assert seen.console == ""
    unbelieved(seen)
    assert "⟨U+202E⟩DENWP" in seen.dom
    assert "\u202e" not in seen.dom


def test_what_language_models_write_and_read_is_text(tmp_path, server):
    texts = evil(server)
    plain = head_progression()
    arms = {name: dict(arm or {}) for name, arm in plain.document.arms.items()}
    for name, text in zip(arms, texts[2:], strict=True):
        arms[name]["label"] = text
    task = {**plain.document.task, "corpus": "./" + texts[0].replace("/", "|")[:200]}
    controls = {"scaled-logits": {"label": texts[3], "model": {"attention_scale": "d_head"}}}
    experiment = head_progression(arms=arms, task=task, controls=controls, question=texts[1])
    chosen = experiment.select(seeds=2, controls=["scaled-logits"])
    path = fabricate_text(tmp_path / "hp", chosen)
    for samples in path.glob("runs/*/seed-*/samples.jsonl"):
        rows = [json.loads(line) for line in samples.read_text().splitlines()]
        changed = [{**row, "prompt": texts[2] + "\x00\x1b[31m", "text": "\n".join(texts)} for row in rows]
        samples.write_text("".join(json.dumps(row) + "\n" for row in changed))
        stored.seal(samples.parent)
    material = compared(path)
    drawn = tuple(figures(material))
    for figure in drawn:
        checked(figure.spec)
    seen = see(page(material, drawn), tmp_path, server)
    assert seen.charts == len(drawn)
    assert seen.console == ""
    unbelieved(seen)


def hostile_xray(texts: list[str]) -> XRay:
    """An x-ray of a model whose names are hostile."""
    names = [f"{text} {at}" for at, text in enumerate(texts)]
    draw = np.random.default_rng(0)
    of_heads = {name: draw.random(4) for name in names}
    of_pairs = {name: (pairs + pairs.T) / 2 for name in names for pairs in [draw.random((4, 4))]}
    return XRay(
        name="evil PWNED",
        model={texts[0]: texts[1], "kind": texts[2]},
        text=texts[3],
        n_tokens=10,
        n_sequences=1,
        length=10,
        attentions=tuple(AttentionHeads(name=name, kind="self", kv_of=(0, 1, 2, 3), d_head=4) for name in names),
        scores={
            metric: HeadScores(metric=metric, values=values, n_rows=10)
            for metric, values in (("sink_score", of_heads), ("output_dissimilarity", of_pairs))
        },
        notes=tuple(texts),
    )


def test_names_of_models_and_files_are_text(tmp_path, server):
    found = hostile_xray(evil(server)[:5])
    drawn = xray_figures(found)
    for figure in drawn:
        checked(figure.spec)
    seen = see(xray_page(found).html("headway xray " + evil(server)[0]), tmp_path, server)
    assert seen.charts == len(drawn) > 0
    assert seen.console == ""
    unbelieved(seen)


def test_what_gets_into_a_page_all_the_same_does_nothing(tmp_path, server, heads):
    html = page(heads, tuple(figures(heads))[:1])
    smuggled = evil(server)[0][len("</script>") :] + f"<iframe src='http://127.0.0.1:{server.server_port}/6'></iframe>"
    seen = see(html.replace("<main>", f"<main>{smuggled}", 1), tmp_path, server)
    assert "<img" in seen.dom  # it is there
    assert seen.asked == ()
    assert "<title>PWNED" not in seen.dom
    assert "Content Security Policy" in seen.console
    assert seen.charts == 1


def test_the_picture_of_a_plan_is_drawn_under_the_policy(tmp_path, server):
    parts = Parts(counts={text: {"Q": 3, "K": 4} for text in evil(server)})
    path = write_picture(tmp_path / "parts.html", parts.figure(evil(server)[0]))
    seen = see(path.read_text(), tmp_path, server)
    assert seen.charts == 1
    assert seen.console == ""
    unbelieved(seen)
