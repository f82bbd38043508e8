"""Code of one's own: how it is found and loaded, what it changes in an id, and every way in which it is refused."""

import errno
import importlib.metadata
import shutil
import sys

import pytest
from support.own_code import DOCUMENT, ECHO, remove_plugin
from support.own_code import write as write

import headway
import headway.store.directory
from headway.config import plugins
from headway.config.head_metrics import HEAD_METRICS
from headway.config.kinds import parse_run, run_kinds
from headway.config.lm.run import TASKS
from headway.config.lm.training import OWN_TERMS, REGULARIZED
from headway.config.metrics import METRICS
from headway.errors import DeclarationError, ResultsError
from headway.store import document

FIGURE = "from headway import own\n@own.figure(title='T')\ndef nothing(material): pass\n"
METRIC = "from headway import own\n@own.run_metric(sentence='s')\ndef seven(model, batches): return 7.0\n"


def refused(match: str, code: str, write, name: str = "mine.py"):
    write(code, name)
    with pytest.raises(DeclarationError, match=match):
        plugins.load(name)


def test_a_task_of_a_file_is_a_task_like_others(write):
    write(ECHO)
    experiment = headway.load(DOCUMENT)
    assert experiment.arm("h2").spec(0).task.title == "echo"
    assert TASKS["echo"].__name__ == "Echo"
    assert [entry.name for plugin in experiment.plugins for entry in plugin.entries] == ["echo"]
    assert experiment.plugins[0].sentence.startswith("plugin mine.py (")
    assert experiment.plugins[0].sentence.endswith("): task echo")


def test_paths_begin_where_the_file_stands_and_those_of_the_caller_where_he_is(write, tmp_path):
    write(ECHO, "below/mine.py")
    write(FIGURE, "figures.py")
    (tmp_path / "below" / "echo.yaml").write_text(headway.config.yaml.write_yaml(DOCUMENT))
    found = headway.load("below/echo.yaml", plugins="figures.py")
    assert [plugin.name for plugin in found.plugins] == ["mine", "figures"]
    assert "mine.py" in found.dump(as_given=True)
    assert f"plugins/mine-{found.plugins[0].digest[:16]}.py" in found.dump()


def test_the_id_holds_code_that_a_result_may_depend_on_and_no_other(write):
    write(ECHO)
    first = headway.load(DOCUMENT).arm("h1").spec(0).id
    write(FIGURE, "figures.py")
    assert headway.load(DOCUMENT, plugins=["figures.py"]).arm("h1").spec(0).id == first
    write(METRIC, "metric.py")
    assert headway.load(DOCUMENT, plugins=["metric.py"]).arm("h1").spec(0).id != first
    write(ECHO + "# changed\n")
    assert headway.load(DOCUMENT).arm("h1").spec(0).id != first
    write(ECHO)
    assert headway.load(DOCUMENT).arm("h1").spec(0).id == first


def test_a_family_is_written_out_so_that_no_id_needs_it(write):
    write("from headway import own\nown.family('plain', base='gpt-2', mlp='none', norm='none')\n")
    task = {"kind": "parity", "n_bits": 3}
    own = {**DOCUMENT, "task": task, "model": {**DOCUMENT["model"], "family": "plain"}}
    usual = {**DOCUMENT["model"], "mlp": "none", "norm": "none"}
    plain = {**DOCUMENT, "task": task, "plugins": [], "model": usual}
    assert headway.load(own).arm("h2").spec(0).id == headway.load(plain).arm("h2").spec(0).id
    given = {**own, "model": {**own["model"], "mlp": "relu"}}
    assert headway.load(given).arm("h2").spec(0).model.mlp == "relu"


def test_what_a_plugin_registered_is_gone_without_it(write):
    write(ECHO + METRIC.partition("\n")[2])
    plugin = plugins.load("mine.py")
    assert "seven" in METRICS
    remove_plugin(plugin)
    assert not {"echo", "seven"} & {*TASKS, *run_kinds(), *METRICS}
    with pytest.raises(DeclarationError, match="'echo' is not known"):
        headway.load({**DOCUMENT, "plugins": []})


def test_a_changed_file_takes_the_place_of_what_it_was(write):
    write(METRIC)
    former = plugins.load("mine.py")
    write(METRIC.replace("7.0", "8.0"))
    now = plugins.load("mine.py")
    assert not plugins.is_registered(former.digest)
    assert next(plugins.of_kind("run metric", [now.digest])).value(None, ()) == 8.0


@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("import headway\n1 / 0\n", r"plugin mine.py: it cannot be imported: ZeroDivisionError in line 2: division by"),
        ("def broken(:\n", r"it cannot be imported: SyntaxError in line 1: invalid syntax.*; fix this error"),
        ("import no_such_module\n", r"ModuleNotFoundError in line 1: No module named 'no_such_module'"),
        ("import sys; sys.exit(3)\n", r"it cannot be imported: SystemExit in line 1: 3"),
        ("x = 1\n", r"it registers nothing; see docs/your-own.md"),
        (METRIC.replace("seven", "accuracy"), r"run metric 'accuracy' exists already; give it another name"),
        (METRIC.replace("seven", "step"), r"run metric 'step' exists already; give it another name"),
        (
            "from headway import own\nown.callback(lambda run, line: None)\n",
            r"callback '<lambda>' is not a name; use",
        ),
        (
            "from headway import own\nown.family('a b', base='gpt-2')\n",
            r"family 'a b' is not a name; use letters, digits",
        ),
        (
            "from headway import own\n@own.regularizer(better='low')\ndef accuracy(of): pass\n",
            r"regulariser 'accuracy' exists already",
        ),
        (ECHO.replace('"echo"', '"parity"'), r"task 'parity' exists already; give it another name"),
        (METRIC + METRIC.partition("\n")[2], r"run metric 'seven' exists already; give it another name"),
        ("from headway import own\n@own.task\nclass No: pass\n", r"task No: it has no name; make it a subclass of own"),
        (
            "from headway import own\n@own.head_metric(sentence='s', high='h')\ndef query_cka(of): pass\n",
            r"head metric 'query_cka' exists already",
        ),
        (
            "from headway import own\n@own.regularizer(better='low')\ndef query_cka(of): pass\n",
            r"regulariser 'query_cka' exists already",
        ),
        (
            "from headway import own\nown.family('x', base='gpt2')\n",
            r"base 'gpt2' is not known; did you mean gpt-2",
        ),
        ("from headway import own\nown.family('x', base='gpt-2', mpl='none')\n", r"model.mpl: there is no such key"),
        ("from headway import own\nown.family('llama', base='gpt-2')\n", r"family 'llama' exists already"),
    ],
)
def test_what_cannot_be_loaded_is_told_and_leaves_nothing(code, match, write):
    tables = (TASKS, METRICS, HEAD_METRICS, run_kinds(), REGULARIZED, OWN_TERMS)
    before = [dict(table) for table in tables]
    refused(match, code, write)
    assert [dict(table) for table in tables] == before


def test_a_name_of_another_plugin_says_whose_it_is(write):
    write(METRIC, "first.py")
    plugins.load("first.py")
    refused(r"run metric 'seven' exists already, of plugin first.py; give it another name", METRIC, write)


def test_what_stands_beside_a_plugin_is_not_imported(write, tmp_path, monkeypatch):
    write("x = 1\n", "beside_it.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    refused("it imports beside_it.py from its folder, which the results", f"import beside_it\n{METRIC}", write)
    assert "beside_it" not in sys.modules


def test_nothing_is_registered_outside_of_a_plugin():
    from headway import own

    with pytest.raises(DeclarationError, match="callback print: it was registered outside of a plugin; put it into a"):
        own.callback(print)


def test_what_is_not_there_is_told(write):
    with pytest.raises(DeclarationError, match=r"plugins: gone.py: there is no such file \(.*gone.py\); give a file"):
        plugins.load("gone.py")
    with pytest.raises(
        DeclarationError, match=r"plugins: gone.yaml: there is no such file \(.*gone.yaml\); give a file"
    ):
        plugins.load("gone.yaml")
    with pytest.raises(DeclarationError, match=r"an experiment's file, .*`headway plan .*eight.yaml` checks it"):
        plugins.load(str(write("question: which?", "eight.yaml")))
    with pytest.raises(DeclarationError, match="no installed package offers 'my-heads'"):
        plugins.load("my-heads")
    write("#" * plugins.LARGEST + METRIC, "large.py")
    with pytest.raises(DeclarationError, match="more than 1,000,000 bytes; is it code"):
        plugins.load("large.py")


def test_a_metric_of_runs_is_of_transformers(write):
    write(METRIC)
    with pytest.raises(DeclarationError, match="run metric seven needs transformers on tokens, and arm"):
        headway.load("icl-heads", plugins="mine.py")


def test_a_package_offers_plugins_by_an_entry_point(write, tmp_path, monkeypatch):
    write("", "my_package/__init__.py")
    heads = write(METRIC, "my_package/heads.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = importlib.metadata.EntryPoint("my-heads", "my_package.heads", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry] if group == plugins.GROUP else [])
    found = plugins.load("my-heads")
    assert found.written == f"my-heads@{found.digest[:16]}"
    assert found.text is None
    assert plugins.load(found.written) is found
    heads.write_text(METRIC + "# changed\n")
    with pytest.raises(
        DeclarationError, match=r"package my-heads was changed since runs were made with it \([0-9a-f]+"
    ):
        plugins.load(found.written)
    for name in ("my_package", "my_package.heads"):
        sys.modules.pop(name, None)


def test_a_directory_of_somebody_else_runs_nothing_until_it_is_allowed(write, tmp_path, monkeypatch):
    write(ECHO + "\nopen('was-run', 'a').write('x')\n")
    store = headway.store.directory.Store.create("results", headway.load(DOCUMENT))
    kept = tmp_path / "results" / store.experiment.plugins[0].written
    ran = tmp_path / "was-run"
    assert ran.read_text() == "x"
    # Known by its content, it opens without a question where it was run before.
    remove_plugin(store.experiment.plugins[0])
    (tmp_path / "mine.py").unlink()
    assert headway.open("results").experiment.arms
    assert ran.read_text() == "xx"
    # Somebody else has never run it.
    remove_plugin(store.experiment.plugins[0])
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "other-cache"))
    with pytest.raises(ResultsError, match="which you have not run here yet and which reading its runs would run"):
        headway.open("results")
    assert ran.read_text() == "xx"
    assert headway.open("results", plugins=[kept]).experiment.arms
    remove_plugin(store.experiment.plugins[0])
    assert headway.open("results").experiment.arms
    # What is kept is known by its name.
    remove_plugin(store.experiment.plugins[0])
    kept.write_text(kept.read_text() + "# changed\n")
    with pytest.raises(ResultsError, match="the file was changed after runs were made with it"):
        headway.open("results")
    with pytest.raises(DeclarationError, match="the file was changed after runs were made with it"):
        headway.open("results", plugins=[kept])


def test_a_directory_goes_on_with_the_code_that_it_began_with(write, tmp_path):
    write(ECHO)
    experiment = headway.load(DOCUMENT)
    headway.store.directory.Store.with_runs("results", experiment, experiment.runs)
    write(ECHO + "# changed\n")
    changed = headway.load(DOCUMENT)
    with pytest.raises(ResultsError, match=r"the code of its plugins was changed since arm h1 seed 0 was run.*put"):
        headway.store.directory.Store.with_runs("results", changed, changed.runs)
    write(FIGURE, "figures.py")
    write(ECHO)
    more = headway.load(DOCUMENT, plugins=["figures.py"])
    _, runs = headway.store.directory.Store.with_runs("results", more, more.runs)
    assert len(list((tmp_path / "results" / "plugins").iterdir())) == 2
    assert {run.status for run in runs} == {"waiting"}
    # The document of the directory is an experiment that is found with what it keeps.
    assert headway.load("results/experiment.yaml").arm("h1").spec(0).id == runs[0].id


def test_a_directory_that_was_left_before_its_document_was_written_is_gone_on_with(write, tmp_path, monkeypatch):
    write(ECHO)
    experiment = headway.load(DOCUMENT)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(document, "_write", full)
        with pytest.raises(ResultsError, match="the disk is full"):
            headway.store.directory.Store.create("results", experiment)
    (tmp_path / "results/plugins/.mine.py.1234.tmp").touch()  # what a killed writer leaves
    assert headway.store.directory.Store.create("results", experiment).experiment.arms
    for name in ("results/plugins/thesis.tex", "results/thesis.tex"):
        shutil.rmtree("results")
        (tmp_path / "results/plugins").mkdir(parents=True)
        (tmp_path / name).touch()
        with pytest.raises(ResultsError, match="holds other things"):
            headway.store.directory.Store.create("results", experiment)


@pytest.mark.parametrize("family", [{"a": 1}, ["gpt-2"], 7, None])
def test_a_family_that_is_no_name_gets_a_sentence(family):
    with pytest.raises(DeclarationError, match="family"):
        parse_run({"task": {"kind": "induction"}, "model": {"family": family}})
