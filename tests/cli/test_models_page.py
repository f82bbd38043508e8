"""Verbs that write the page of a model say where the page is, and whether a page was there before."""

from pathlib import Path
from types import SimpleNamespace

from headway.cli.models import show_model
from headway.cli.options import Verbs
from headway.report.charts.page import Table, write_whole


def shown(folder: Path, capsys) -> str:
    found = SimpleNamespace(findings=[], nothing="nothing stands out", not_found=[], notes=[], read="a text")
    page = SimpleNamespace(verb="xray", write=lambda folder, *_: write_whole(folder / "xray.html", b"a page"))
    show_model(found, Table(columns=("",), rows=[], caption=""), lambda: page, folder, folder, as_json=False)
    return capsys.readouterr().out.splitlines()[-1]


def test_a_page_that_replaces_another_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Verbs, "typed", ["xray"])
    assert shown(tmp_path, capsys) == f"page: {tmp_path}/xray.html"
    assert shown(tmp_path, capsys) == f"page: {tmp_path}/xray.html (replaced an earlier page; --out DIR keeps both)"
