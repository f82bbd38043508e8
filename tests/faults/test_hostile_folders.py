"""Hostile model folders: each was tried by hand once, and none gives more than an error, nor has anything of it run."""

import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from faults.fuzz_experiments import guarded, wrong_with
from faults.fuzz_folders import models
from support.folders import edit, rewrite
from support.typed import typed

import headway
from headway.analysis.open import open_model
from headway.config.lm.model import GptNeo
from headway.data.tokenizer import Tokenizer, bytes_tokenizer
from headway.errors import UserError
from headway.hf.safety import check_built, check_declared, check_memory
from headway.hf.write import export
from headway.models.weights import initial_weights

FUZZER = Path(__file__).parents[2] / "tools/faults/fuzz_folders.py"
DEEP = '{"a": ' + "[" * 100_000 + "1" + "]" * 100_000 + "}"


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    return {folder.name: folder for folder in models(tmp_path_factory.mktemp("kinds"))}


@pytest.fixture
def folder_of(kinds, tmp_path):
    return lambda name: shutil.copytree(kinds[name], tmp_path / name)


def told(*line):
    """What the command line says of a line that it refuses."""
    said = typed(*line)
    assert (said.returncode, said.stdout) == (2, "")
    return said.stderr


def refused(folder, problem, open_it=None):
    """The error of a folder; that it takes no time and no memory, and says no more than can be read, is checked."""
    said = []

    def work():
        with pytest.raises(UserError) as error:
            (open_it or open_model)(folder)
        said.append(str(error.value))

    assert guarded(work, seconds=10, more_bytes=1_500_000_000) is None
    assert problem in said[0]
    assert wrong_with(said[0]) is None
    assert len(said[0]) < 5_000
    return said[0]


DECLARED = [
    ("gpt2", {"model_type": ["gpt2"]}, "config.json: model_type ['gpt2'] is not a name; give that of an architecture"),
    ("gpt2", {"model_type": "y" * 100_000}, "GPT2LMHeadModel is not a model of text that Headway knows"),
    ("neox", {"architectures": "GPTNeoXForCausalLM"}, "architectures 'GPTNeoXForCausalLM' is not a list of names"),
    ("neox", {"architectures": [["a"]]}, "architectures [['a']] is not a list of names"),
    ("neox", {"architectures": ["pipeline"]}, "its architecture is pipeline, which transformers"),
    ("gpt2", {"n_layer": 10**9}, "n_layer is 1000000000, but the weights hold 28 arrays; one of the two is of another"),
    ("bart", {"decoder_layers": 10**9}, "decoder_layers is 1000000000, but the weights hold"),
    ("neo", {"attention_types": [[["global"], 10**5]]}, "attention_types names 100000 layers, but num_layers is 2"),
    ("neo", {"attention_types": 7}, "it cannot be understood"),
    ("neox", {"vocab_size": 10**12}, "vocab_size is 1000000000000, but the weights hold"),
    ("gpt2", {"vocab_size": [257]}, "vocab_size [257] is not a number of tokens; give a whole one above 0"),
    ("neox", {"hidden_size": 1e300}, "hidden_size is 1000000000000 ... (275 characters) ... 5459400540160"),
    ("neox", {"hidden_size": 200_000}, "a model of 320,132,400,064 numbers is declared, but"),
    ("neox", {"max_position_embeddings": 10**9}, "max_position_embeddings is 1000000000, but the weights hold"),
    ("llama", {"max_position_embeddings": 262_000, "head_dim": 8192}, "its tables of positions would take 103.0 GB"),
    ("llama", {"rope_parameters": ["a"]}, "rope_parameters ['a'] is not a mapping"),
    ("gpt2", {"activation_function": ["y" * 10_000]}, "transformers cannot open it"),
    ("neox", {"quantization_config": {"quant_method": "gptq"}}, "its weights are quantized, and such heads cannot be"),
    ("neox", {"attn_implementation": "some/kernel"}, "'some/kernel' names code of another place, which is not run"),
    ("neox", {"transformers_weights": "pytorch_model.bin"}, "transformers_weights names a file of its own; remove it"),
    ("neox", {"get_text_config": "x"}, "neox: transformers cannot open it"),
]


@pytest.mark.parametrize(("name", "changes", "problem"), DECLARED, ids=lambda value: str(value)[:40])
def test_a_hostile_declaration_is_refused(name, changes, problem, folder_of):
    folder = folder_of(name)
    edit(folder, **changes)
    refused(folder, problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (DEEP, "config.json: mappings and lists are nested more than 64 deep; fetch it again"),
        ("[" * 100_000, "config.json: mappings and lists are nested more than 64"),
        ('{"a": ' + "9" * 5000 + "}", "config.json: it cannot be read (Exceeds the limit"),
        ("[1]", "config.json: it is not a mapping, keys with values"),
        ('"' + "x" * 20_000_000 + '"', "config.json has 20 MB, above the limit of 16 MB for such a file"),
        ("\udcff", "it cannot be read ('utf-8' codec can't decode byte 0xff"),
    ],
    ids=lambda value: str(value)[:20],
)
@pytest.mark.parametrize("name", ["gpt2", "neox"])
def test_what_is_no_declaration_is_refused(name, text, problem, folder_of):
    folder = folder_of(name)
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(folder, problem)


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        ({"weight_map": {"a": 7}}, "it cannot be understood (weight_map names no file for each array); fetch it again"),
        ({"weight_map": {"a": ["x"]}}, "weight_map names no file for each array"),
        ({"weight_map": {"a": "../x.safetensors"}}, "it names '../x.safetensors', which is not a safetensors file"),
        ({"weight_map": {"a": "/etc/passwd"}}, "it names '/etc/passwd', which is not a safetensors file of its folder"),
        ({"weight_map": {"a": "x" * 9000 + ".safetensors"}}, "which is not a safetensors file of its folder"),
        ({"weight_map": {"a": "pytorch_model.bin"}}, "it names 'pytorch_model.bin', which is no"),
        ({"weight_map": {str(i): f"{i}.safetensors" for i in range(5000)}}, ", ..., missing here; fetch the whole"),
        ({"weight_map": {"a": "away.safetensors"}}, "away.safetensors is a link to a place outside of the folder"),
    ],
    ids=lambda value: str(value)[:50],
)
@pytest.mark.parametrize("name", ["gpt2", "neox"])
def test_a_hostile_index_is_refused(name, index, problem, folder_of, tmp_path):
    folder = folder_of(name)
    (folder / "model.safetensors").rename(tmp_path / "outside.safetensors")
    if "away" in problem:
        (folder / "away.safetensors").symlink_to(tmp_path / "outside.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(folder, problem)
    (folder / "model.safetensors.index.json").write_text(DEEP)
    if "away" not in problem:
        refused(folder, "mappings and lists are nested more than 64 deep")


def test_links_of_the_hubs_cache_are_followed(folder_of, tmp_path):
    plain = folder_of("neox")
    snapshot, blobs = tmp_path / "models--a--b/snapshots/0123", tmp_path / "models--a--b/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for path in plain.iterdir():
        shutil.copy(path, blobs / path.name)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    assert open_model(snapshot).vocab_size == 257


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda path: os.mkfifo(path), "tokenizer_config.json is not a file but a device, a pipe or a socket"),
        (lambda path: path.symlink_to("/dev/zero"), "tokenizer_config.json is a link to a place outside of the folder"),
        (lambda path: path.touch() or os.truncate(path, 10**12), "has 1,000,000 MB, above the limit"),
    ],
)
@pytest.mark.parametrize("name", ["gpt2", "neox"])
def test_what_is_no_file_is_refused(name, spoil, problem, folder_of):
    folder = folder_of(name)
    (folder / "tokenizer_config.json").unlink()
    spoil(folder / "tokenizer_config.json")
    refused(folder, problem)


def header(size, text=b""):
    return struct.pack("<Q", size) + text


def header_of(n_arrays):
    """A header that names so many arrays of nothing."""
    nothing = b'{"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}'
    text = b"{%s}" % b", ".join(b'"x.%d": %s' % (i, nothing) for i in range(n_arrays))
    return header(len(text), text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (header(2**63), "its header would have 9,223,372,036,855 MB, and 25 MB are read at most"),
        (header(0), "model.safetensors: it is damaged (it has no header); fetch or write it again"),
        (header(200_000, b"[" * 200_000), "model.safetensors: it is damaged (Error while deserializing header"),
        (pickle.dumps([1] * 100), "model.safetensors: it is damaged"),
        (lambda: header_of(500_000), "its header would have 34 MB, and 25 MB are"),
        (lambda: header_of(200_000), "arrays do not fit its config.json; one of the two is of another model"),
    ],
    ids=lambda value: "made" if callable(value) else str(value)[:30],
)
def test_hostile_weights_are_refused(content, problem, folder_of):
    folder = folder_of("gpt2")
    (folder / "model.safetensors").write_bytes(content() if callable(content) else content)
    refused(folder, problem)


@pytest.mark.parametrize(("number", "name"), [(np.nan, "gpt2"), (np.inf, "llama"), (-np.inf, "neo")])
def test_weights_that_are_no_numbers_are_neither_written_with_nor_exported(number, name, folder_of, tmp_path):
    folder = folder_of(name)
    rewrite(folder, lambda arrays: arrays[max(arrays)].reshape(-1).__setitem__(0, number))
    why = f"{name}: weights are NaN or infinite, so"
    refused(folder, f"{why} its heads cannot be measured (")
    said = refused(folder, f"{why} it cannot generate text (", partial(open_model, for_="write"))
    assert said.endswith("; use another checkpoint")
    for line in (["generate", str(folder)], ["export", str(folder), str(tmp_path / "out")]):
        assert "weights are NaN or infinite, so it cannot generate text" in told(*line)
    assert not (tmp_path / "out").exists()


def test_weights_that_no_machine_holds_are_counted(tmp_path):
    with pytest.raises(UserError, match=r"its weights take 4,000.0 GB in float32, and this machine has [\d,.]+ GB"):
        check_memory(tmp_path, 10**12)
    check_memory(tmp_path, 1000)
    with pytest.raises(UserError, match=r"its tables of positions would take 9.0 GB, and its weights 0.0 GB; lower"):
        check_built((), 9 * 10**9, numbers=1000)


@pytest.mark.parametrize("name", ["pytorch_model.bin", ".metadata"])
@pytest.mark.parametrize("kind", ["gpt2", "neox"])
def test_no_pickle_is_read(name, kind, folder_of, tmp_path):
    folder, mark = folder_of(kind), tmp_path / "was-read"
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(f"cos\nsystem\n(S'touch {mark}'\ntR.".encode())
    refused(folder, "a pickle, which can run any code and is not read")
    assert not mark.exists()


CODE = """
import pathlib
from transformers import Qwen3ForCausalLM
pathlib.Path({mark!r}).touch()
class Mine(Qwen3ForCausalLM): pass
"""


@pytest.fixture
def with_code(folder_of, tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = folder_of("qwen3")
    (folder / "mine.py").write_text(CODE.format(mark=str(tmp_path / "was-run")))
    edit(folder, architectures=["Mine"], auto_map={"AutoModelForCausalLM": "mine.Mine"})
    return folder


def test_code_of_a_folder_is_run_only_where_somebody_says_so(with_code, tmp_path):
    said = refused(with_code, "qwen3: it needs the code that comes with it (mine.Mine), which is not run by default. ")
    assert said.endswith("if you trust it, give trust_code=True in Python, or --trust-code on the command line")
    assert not (tmp_path / "was-run").exists()
    with pytest.warns(RuntimeWarning, match=r"^running code of .*/qwen3: mine.Mine$") as warned:
        opened = open_model(with_code, trust_code=True)
    assert len([each for each in warned if "running code" in str(each.message)]) == 1
    assert (tmp_path / "was-run").exists()
    assert (opened.facts["architecture"], opened.kind) == ("Mine", "causal")
    assert len(opened.trace("a dog").attentions) == 2


@pytest.mark.slow
def test_the_command_line_says_once_what_it_runs(with_code, tmp_path):
    (tmp_path / "text.txt").write_text("Once upon a time there was a dog. " * 20)
    line = ["xray", with_code, "--text", tmp_path / "text.txt", "--json", "--length", "16", "--sequences", "2"]
    environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")}

    def verb(*more):
        command = [sys.executable, "-m", "headway", *map(str, line), *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    done = verb()
    assert done.returncode == 2
    assert "which is not run by default" in done.stderr
    assert not (tmp_path / "was-run").exists()
    done = verb("--trust-code")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning: running code of") == 1
    assert json.loads(done.stdout)["model"]["architecture"] == "Mine"


@pytest.mark.parametrize(
    ("auto_map", "problem"),
    [
        *(
            ({"AutoModelForCausalLM": code}, f"auto_map names {code!r}, which is not code in this folder")
            for code in ("other/one--mine.Mine", "../mine.Mine", 7)
        ),
        (7, "auto_map 7 is not a mapping"),
    ],
)
def test_code_of_another_place_is_never_run(auto_map, problem, with_code):
    edit(with_code, auto_map=auto_map)
    refused(with_code, problem, partial(open_model, trust_code=True))


def test_code_beside_an_architecture_that_transformers_has_is_not_run(folder_of, tmp_path):
    folder = folder_of("neox")
    (folder / "mine.py").write_text(CODE.format(mark=str(tmp_path / "was-run")))
    for name in ("config.json", "tokenizer_config.json"):
        edit(folder, name, auto_map={"AutoModelForCausalLM": "mine.Mine", "AutoTokenizer": ["mine.Mine", None]})
    assert open_model(folder).facts["architecture"] == "GPTNeoXForCausalLM"
    assert not (tmp_path / "was-run").exists()
    (folder / "tokenizer.json").unlink()
    refused(folder, "it needs the code that comes with it (mine.Mine)")


BOMB = [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}] * 12
TOKENIZERS = [
    ({"normalizer": {"type": "Sequence", "normalizers": BOMB}}, "would turn a character into 999,999,999"),
    ({"normalizer": {"type": "Replace", "pattern": {"Regex": "."}, "content": "a" * 9999}}, "a character into 10,000"),
    ({"normalizer": 7}, "tokenizer"),
    ({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}, "tokenizer"),
    ({"model": {"type": "WordPiece", "vocab": {"a": 0, "<eos>": 1}, "unk_token": "a", "continuing_subword_prefix": "",
                "max_input_chars_per_word": 10**12}}, "its max_input_chars_per_word is 1,000,000,000,000, and 10,000"),
    ({"model": {"type": "BPE", "vocab": {"a": 2**32 - 1}, "merges": []}}, "of tokenizer.json has the id 4294967295"),
    ({"added_tokens": [{"id": 10**9, "content": "x"}]}, "has the id 1000000000, and 10,000,000 is the largest"),
    ({"added_tokens": DEEP}, "tokenizer"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), TOKENIZERS, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("name", ["gpt2", "neox"])
def test_a_hostile_tokenizer_is_refused(name, changes, problem, folder_of):
    folder = folder_of(name)
    edit(folder, "tokenizer.json", **changes)
    refused(folder, problem)


@pytest.mark.parametrize("text", ["", "{", DEEP, "null"], ids=lambda text: text[:10])
@pytest.mark.parametrize("name", ["gpt2", "neox"])
def test_what_is_no_tokenizer_is_refused(name, text, folder_of):
    folder = folder_of(name)
    (folder / "tokenizer.json").write_text(text)
    refused(folder, "tokenizer")
    (folder / "tokenizer.json").write_text(" " * 41_000_000)
    refused(folder, "tokenizer.json has 41 MB, above the limit of 40 MB for such a file")
    refused(folder, "no tokenizer has more than 40 MB", Tokenizer.load)


@pytest.mark.parametrize("verb", ["plan", "run", "status", "report"])
def test_verbs_that_read_no_model_say_so(verb, folder_of):
    folder = folder_of("gpt2")
    said = told(verb, folder)
    assert "cannot be read as a text file: it is a folder" in said or "is not a results directory of Headway" in said


def test_what_fails_when_a_text_is_read_is_said(folder_of, tmp_path):
    """Shapes that only reading finds; a tokenizer that stops at a word that it does not know."""
    text = tmp_path / "text.txt"
    text.write_text("Once upon a time there was a little dog. " * 20)
    folder = folder_of("bert")
    edit(folder, num_attention_heads=-1)
    with pytest.raises(UserError, match=r"bert: its model cannot read a text \(.*\); fetch the folder again"):
        headway.xray(folder, text=text, sequences=2, length=16)
    folder = folder_of("neox")
    known = {"type": "WordPiece", "vocab": {"a": 0, "<eos>": 1}, "unk_token": "?", "continuing_subword_prefix": "##"}
    edit(folder, "tokenizer.json", model=known | {"max_input_chars_per_word": 100})
    with pytest.raises(UserError, match=r"no token for a part of the text \(WordPiece error: .*\); give another"):
        headway.xray(folder, text=text, sequences=2, length=16)


def test_widths_of_layers_and_blocks_are_no_numbers_of_layers(tmp_path):
    """A ragged model whose MLPs are wider than its weights have arrays; and keys that others write."""
    wide = GptNeo(family="gpt-neo", d_model=96, n_layers=2, n_heads="6-3", n_positions=64)
    export(wide, 257, initial_weights(wide, 257, seed=0), tmp_path / "wide", bytes_tokenizer())
    assert open_model(tmp_path / "wide").own.model.mlp_widths == (384, 384)
    others = {"vocab_size_per_layer_input": 262_144, "hidden_size_per_layer_input": 512, "block_size": 1024}
    check_declared(others, numbers=10**6, arrays=30)
    with pytest.raises(UserError, match="n_layers is 1024, but the weights hold 30 arrays"):
        check_declared({"n_layers": 1024}, numbers=10**6, arrays=30)


def test_whole_folders_are_opened_as_before(kinds):
    for name, folder in kinds.items():
        opened = open_model(folder)
        assert opened.vocab_size == 257
        if name not in ("gptj", "bloom"):  # whose attention transformers does not open
            assert torch.isfinite(opened.trace("a dog").attentions[0].z).all(), name
    assert headway.hf.load(kinds["ragged"]).model.layout.n_heads == (6, 3)


@pytest.mark.slow
def test_mutated_folders_give_no_traceback_no_hang_and_need_no_memory(tmp_path):
    command = [sys.executable, FUZZER, "--folders", "100000", "--seconds", "5", "--seed", "0"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " 0 findings" in ended.stdout


@pytest.mark.parametrize(
    ("name", "kind", "said"), [("gpt2", "int8", "I8"), ("llama", "int64", "I64"), ("neox", "bool", "BOOL")]
)
def test_weights_of_whole_numbers_are_named(name, kind, said, folder_of):
    folder, changed = folder_of(name), []

    def change(arrays):
        changed.append(next(key for key in sorted(arrays) if arrays[key].ndim == 2 and arrays[key].dtype == np.float32))
        arrays[changed[0]] = (100 * arrays[changed[0]]).astype(kind)

    rewrite(folder, change)
    types = "float64, float32, float16, bfloat16"
    told = refused(folder, f"weights have no floating-point type that Headway reads ({types})")
    assert f"fetch the model as it was before it was quantized:\n  {changed[0]}: {said}" in told


@pytest.mark.parametrize("name", ["gpt2", "neox"])
def test_a_type_that_contradicts_the_file_is_said_before_anything_is_read(name, folder_of, recwarn):
    folder = folder_of(name)
    edit(folder, dtype="float32")
    open_model(folder)
    assert not [each for each in recwarn if "config.json says" in str(each.message)]
    edit(folder, dtype="bfloat16")
    said = r"config.json says that weights are bfloat16, but the file holds float32; He"
    with pytest.warns(RuntimeWarning, match=said):
        open_model(folder)


@pytest.mark.parametrize("said", ["float33", ["a"]])
def test_a_type_that_is_none_is_refused(said, folder_of):
    folder = folder_of("gpt2")
    edit(folder, dtype=said)
    refused(folder, "is not a type of weights; write the type that the file has, such as float32")
