"""Mutated model folders; none may give a traceback, a hang or all memory, nor have anything of it run.

    python tools/faults/fuzz_folders.py --folders 2000

A case is a folder of a small model, ours or one of transformers', mutated in what it declares, in its weights, its
tokenizer or its files, and then measured, made to write, exported or planned. An error for users is fine. Any other
exception, more than 10 s of processor time, 1 GB more memory than before, a long error, or a pickle or code of the
folder that was run, is a finding; its folder is kept among the findings.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.fuzz_experiments import VALUES, Finding, _bytes, _structure, _values, guarded, obey

MOST_SECONDS = 10.0
MOST_BYTES = 1_000_000_000
MARK = "this-was-run"
"""A file that code of a folder makes beside it where it is run."""
EVIL = "import pathlib; pathlib.Path({mark!r}).touch()\n"

NOTHING_LEFT = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, struct.error)
SIZES = (0, -1, 1, 3, 10**6, 10**9, 10**12, 10**18, 2**63, 1e300, "7", [1], {"a": 1}, None, True, float("nan"))
NAMES = (
    "gpt2", "llama", "bert", "headway", "gpt_neo", "mistral", "t5", "x", "", ["gpt2"], {"gpt2": 1}, 7, None,
    "../../..", "y" * 10_000,
)  # fmt: skip
CLASSES = (
    "LlamaForCausalLM", "GPT2LMHeadModel", "GPTJForCausalLM", "BloomForCausalLM", "XLMWithLMHeadModel", "OPTModel",
    "DistilBertForMaskedLM", "MambaForCausalLM", "ViTModel", "PreTrainedModel", "AutoModel", "pipeline", "Trainer",
    "T5ForConditionalGeneration", "MixtralForCausalLM", "CLIPModel", "AlbertForMaskedLM", "__name__", "y" * 10_000, 7,
)  # fmt: skip
KEYS = (
    "auto_map", "layer_types", "rope_parameters", "attention_types", "quantization_config", "transformers_weights",
    "attn_implementation", "sub_configs", "text_config", "is_encoder_decoder", "get_text_config", "tokenizer_class",
    "torch_dtype", "dtype", "model_max_length", "add_bos_token", "added_tokens_decoder", "extra_special_tokens",
    "num_hidden_layers", "decoder_layers", "eos_token", "cache_dir", "id2label",
)  # fmt: skip
SHAPES: tuple[Any, ...] = ([], [0], [10**18, 0], [10**9] * 3, [-1], "x", [[1]], [1] * 9000)
PICKLES = ("pytorch_model.bin", "training_args.bin", "vocab.pkl", "adapter_model.bin", "model.pt", ".metadata")
LINKS = ("/dev/zero", "/etc/passwd", "../../..", "nowhere", "/proc/self/mem")
PLACES = ("../other.safetensors", "/etc/passwd", "/dev/zero", "pytorch_model.bin", "", ".", "x" * 5000, 7, None, ["a"])


def models(folder: Path) -> list[Path]:
    """Small folders: of Headway's own architectures, and of transformers'."""
    import transformers
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

    from headway.config.lm.model import Gpt2, GptNeo, Llama
    from headway.data.tokenizer import bytes_tokenizer
    from headway.hf.write import export
    from headway.models.weights import initial_weights

    small: dict[str, Any] = {"d_model": 24, "n_layers": 2, "n_positions": 64}
    for name, model in {
        "gpt2": Gpt2(family="gpt-2", n_heads=3, **small),
        "neo": GptNeo(family="gpt-neo", n_heads=3, windows=(None, 5), **small),
        "llama": Llama(family="llama", n_heads=4, n_kv_heads=2, d_head=8, **small),
        "mistral": Llama(family="llama", n_heads=4, n_kv_heads=2, d_head=8, windows=(7,), **small),
        "ragged": GptNeo(family="gpt-neo", n_heads="6-3", **small),
    }.items():
        export(model, 257, initial_weights(model, 257, seed=0), folder / name, bytes_tokenizer())
    plain = {"vocab_size": 257, "bos_token_id": 256, "eos_token_id": 256, "pad_token_id": 256}
    wide = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    sized = {**plain, **wide, "max_position_embeddings": 64}
    others: dict[str, Any] = {
        "neox": (AutoModelForCausalLM, transformers.GPTNeoXConfig(**sized)),
        "qwen3": (AutoModelForCausalLM, transformers.Qwen3Config(**sized, num_key_value_heads=2, head_dim=8)),
        "opt": (AutoModelForCausalLM, transformers.OPTConfig(**sized, ffn_dim=32, word_embed_proj_dim=24)),
        "gptj": (AutoModelForCausalLM, transformers.GPTJConfig(
            **plain, n_embd=24, n_layer=2, n_head=4, n_positions=64, rotary_dim=4)),
        "bloom": (AutoModelForCausalLM, transformers.BloomConfig(**plain, hidden_size=24, n_layer=2, n_head=4)),
        "mixtral": (AutoModelForCausalLM, transformers.MixtralConfig(
            **sized, num_key_value_heads=2, num_local_experts=2)),
        "bert": (AutoModelForMaskedLM, transformers.BertConfig(**sized)),
        "albert": (AutoModelForMaskedLM, transformers.AlbertConfig(**sized, embedding_size=16)),
        "distilbert": (AutoModelForMaskedLM, transformers.DistilBertConfig(
            vocab_size=257, dim=24, n_layers=2, n_heads=4, hidden_dim=32, max_position_embeddings=64, pad_token_id=0)),
        "t5": (AutoModelForSeq2SeqLM, transformers.T5Config(
            **{**plain, "pad_token_id": 0}, d_model=24, d_kv=6, num_heads=4, num_layers=2, d_ff=32,
            decoder_start_token_id=0)),
        "bart": (AutoModelForSeq2SeqLM, transformers.BartConfig(
            **plain, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
            decoder_start_token_id=2)),
    }  # fmt: skip
    for name, (kind, config) in others.items():
        sharded = {"max_shard_size": "20KB"} if name in ("qwen3", "bert") else {}
        kind.from_config(config).save_pretrained(folder / name, **sharded)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(folder / "gpt2" / file, folder / name)
    return sorted(folder.iterdir())


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: keys are texts."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _written(content: Any, draw: random.Random) -> str:
    text = json.dumps(_plain(content))
    match draw.randrange(20):
        case 0:
            return text[: draw.randrange(len(text) + 1)]
        case 1:
            deep = draw.choice((50, 500, 100_000))
            return text.replace(": ", ': [{"a":' * deep + "1" + "}]" * deep + ', "z": ', 1)
        case 2:
            return text.replace("64", draw.choice(("9" * 400, "9" * 5000, "1e999", "NaN", "-Infinity")), 1)
    return text


def _config(folder: Path, draw: random.Random) -> None:
    path = draw.choice(list(folder.glob("*config.json")) or [folder / "config.json"])
    content = json.loads(path.read_text())
    for _ in range(draw.choice((1, 1, 2, 3))):
        match draw.randrange(6):
            case 0 | 1:
                sizes = [key for key, value in content.items() if isinstance(value, int | list)] or ["vocab_size"]
                content[draw.choice(sizes)] = draw.choice(SIZES)
            case 2:
                content["model_type"] = draw.choice(NAMES)
            case 3:
                content["architectures"] = draw.choice(([draw.choice(CLASSES)], draw.choice(CLASSES), {}, [[]], None))
            case 4:
                key = draw.choice(KEYS)
                content[key] = draw.choice((*SIZES, *VALUES, ["full_attention"] * draw.choice((3, 10**6))))
            case _:
                content = draw.choice((_values, _structure))(content, draw)
        if not isinstance(content, dict):
            break
    path.write_text(_written(content, draw))


def _weights(folder: Path, draw: random.Random) -> None:
    path = draw.choice(sorted(folder.glob("*.safetensors")))
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + size]), bytearray(raw[8 + size :])
    names = [name for name in header if name != "__metadata__"]
    name = draw.choice(names)
    match draw.randrange(10):
        case 0:
            raw = struct.pack("<Q", draw.choice((0, 1, size + 1, 10**6, 10**8, 2**63, 2**64 - 1))) + raw[8:]
        case 1:
            raw = _bytes(raw[: 8 + size], draw) + bytes(data)
        case 2:
            raw = raw[: draw.randrange(len(raw) + 1)]
        case 3:
            first, last = header[name]["data_offsets"]
            bad = np.float32(draw.choice((np.nan, np.inf, -np.inf, 3e38))).tobytes()
            data[first:last] = bad * ((last - first) // 4)
            raw = raw[: 8 + size] + bytes(data)
        case 4:
            raw = draw.choice((b"", b"\x80\x04.", b"x" * 100, raw * 2))
        case _:
            _header(header, name, len(data), draw)
            text = json.dumps(header).encode()
            raw = struct.pack("<Q", len(text)) + text + bytes(data)
    path.write_bytes(raw)


def _header(header: dict[str, Any], name: str, size: int, draw: random.Random) -> None:
    match draw.randrange(7):
        case 0:
            header[draw.choice(("x", "y" * 50_000, "../x", "lm_head.weight"))] = header.pop(name)
        case 1:
            header[name]["shape"] = draw.choice(SHAPES)
        case 2:
            header[name]["dtype"] = draw.choice(("F64", "I8", "BOOL", "F8_E4M3", "x", 7, None))
        case 3:
            header[name]["data_offsets"] = draw.choice(([0, 0], [0, 10**18], [5, 1], "x", [-4, 0]))
        case 4:
            del header[name]
        case 5:
            empty = {"dtype": "F32", "shape": [0], "data_offsets": [size, size]}
            header |= {f"more.{i}.{'z' * 20}": empty for i in range(draw.choice((10, 3000, 30_000)))}
        case _:
            header[name]["shape"] = header[name]["shape"][::-1]


def _index(folder: Path, draw: random.Random) -> None:
    path = folder / "model.safetensors.index.json"
    if not path.is_file():
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
        path.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    content = json.loads(path.read_text())
    match draw.randrange(4):
        case 0:
            content["weight_map"] = draw.choice((*SIZES, *PLACES))
        case 1 | 2:
            content["weight_map"][draw.choice(list(content["weight_map"]))] = draw.choice(PLACES)
        case _:
            content = draw.choice((*VALUES, content["weight_map"], [content]))
    path.write_text(_written(content, draw))


def _tokenizer(folder: Path, draw: random.Random) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    match draw.randrange(6):
        case 0:
            many = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}
            key, inner = draw.choice((("normalizer", "normalizers"), ("decoder", "decoders")))
            content[key] = {"type": "Sequence", inner: [many] * draw.choice((1, 2, 12))}
        case 1:
            pattern = draw.choice(("(a+)+$", "(.*)*x", "", "(?=", "a{1,1000}{1,1000}", "\\p{L}+", "[" * 500))
            content["pre_tokenizer"] = {
                "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": draw.random() < 0.5,
            }  # fmt: skip
        case 2:
            ids = draw.choice((10**9, 2**32 - 1, -1, 1e9, "x", 2**40))
            content["model"]["vocab"][draw.choice(("a", "zzz", "\u0120", ""))] = ids
        case 3:
            path.write_bytes(_bytes(path.read_bytes(), draw))
            return
        case _:
            content = draw.choice((_values, _structure))(content, draw)
    path.write_text(_written(content, draw))


def _files(folder: Path, draw: random.Random) -> None:
    """A file that is no file, a link, another one's content, or a pickle."""
    path = draw.choice(sorted(folder.iterdir()))
    if path.is_dir():
        return
    content = path.read_bytes()
    path.unlink()
    match draw.randrange(8):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(draw.choice((*LINKS, path.name)))
        case 3:
            path.touch()
        case 4:
            with path.open("wb") as file:
                file.truncate(draw.choice((10**8, 10**12)))
        case 5:
            path.write_bytes(_bytes(content, draw))
        case 6:
            path.write_bytes(draw.choice([each for each in folder.iterdir() if each.is_file()]).read_bytes())
        case _:
            pass


def _code(folder: Path, draw: random.Random, mark: str) -> None:
    """Code and pickles that would leave a mark."""
    (folder / "evil.py").write_text(EVIL.format(mark=mark))
    # What a pickle of (pathlib.Path.touch, (Path(mark),)) begins with is what runs; written out by hand.
    pickle = f"cos\nsystem\n(S'touch {mark}'\ntR.".encode()
    for name in draw.sample(
        ("pytorch_model.bin", ".metadata", "training_args.bin", "vocab.pkl", "adapter_model.bin"), 3
    ):
        (folder / name).write_bytes(pickle)
    if draw.random() < 0.5:
        for path in folder.glob("model*.safetensors*"):
            path.unlink()
    for name in ("config.json", "tokenizer_config.json"):
        if draw.random() < 0.7:
            content = json.loads((folder / name).read_text())
            classes = ("AutoConfig", "AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoTokenizer", "AutoModel")
            code = draw.choice(("evil.Evil", "other/repository--evil.Evil", "../evil.Evil", 7, ["evil.Evil", None]))
            content["auto_map"] = dict.fromkeys(classes, code)
            if draw.random() < 0.7:
                content["architectures"] = ["EvilForCausalLM"]
            if draw.random() < 0.3:
                content["model_type"] = "evil"
            (folder / name).write_text(json.dumps(content))


def mutate(folder: Path, draw: random.Random, mark: str) -> None:
    """One to three mutations of a folder."""
    kinds: tuple[Callable[..., None], ...] = (_config, _config, _config, _weights, _weights, _index, _tokenizer, _files)
    drawn = [draw.choice(kinds) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    # Last what puts pipes there: whoever reads one waits for ever.
    for change in sorted(drawn, key=lambda change: change is _files):
        # A mutation before this one may have left nothing to be mutated.
        with contextlib.suppress(*NOTHING_LEFT):
            if draw.random() < 0.1 and change is not _files:
                _code(folder, draw, mark)
            else:
                change(folder, draw)
            if change is _files:
                return


def line_of(folder: Path, draw: random.Random, text: Path) -> list[str]:
    """A verb that reads the folder."""
    measured = ["xray", str(folder), "--text", str(text), "--json", "--sequences", "2", "--length", "16"]
    match draw.randrange(18):
        case 0 | 1:
            odd = draw.choice(([], ["--temperature", "1e-300"], ["--top-p", "1e-300"], ["--temperature", "1e300"]))
            return ["generate", str(folder), "--tokens", "4", "--prompt", draw.choice(("", "Once", "\u0120a b")), *odd]
        case 2:
            return ["export", str(folder), str(folder.parent / "exported")]
        case 3:
            return [draw.choice(("plan", "show", "run", "status", "compare", "drop", "report")), str(folder)]
        case 4:
            return ["xray", "--tokenizer", str(folder), *measured[1:]]
        case 5:
            return ["ablate", *measured[1:]]
        case 6:
            pruned = ["--by", draw.choice(("random", "magnitude")), "--keep", "50%", "--out", f"{folder}-pruned"]
            return ["prune", str(folder), "--text", str(text), "--sequences", "2", "--length", "16", *pruned]
        case 7:
            return ["look", str(folder), *measured[2:4], *measured[5:], "--out", str(folder.parent / "look.html")]
    return measured


def fuzz(
    *,
    folders: int,
    seed: int = 0,
    seconds: float = float("inf"),
    told: Callable[[str], None] | None = None,
) -> tuple[int, list[Finding]]:
    """Try so many folders, or as many as there is time for; how many, and what was found."""
    import torch

    for module in ("headway.analysis.xray", "headway.hf.write", "headway.hf.open"):
        import_module(module)  # which loads torch: not a case's own time and memory
    torch.set_num_threads(1)
    draw, until, tried, found = random.Random(seed), time.monotonic() + seconds, 0, []
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as temporary:
        kinds = models(Path(temporary) / "models")
        text = Path(temporary) / "text.txt"
        text.write_text("Once upon a time there was a little dog. " * 20)
        mark = str(Path(temporary) / MARK)
        os.chdir(temporary)
        for kind in kinds:  # whole: what is loaded when it is first used is not a case's own
            obey(["xray", str(kind), "--text", str(text), "--json", "--sequences", "2", "--length", "16"])
        while tried < folders and time.monotonic() < until:
            folder = Path(temporary) / "case" / "model"
            shutil.copytree(draw.choice(kinds), folder)
            mutate(folder, draw, mark)
            line = line_of(folder, draw, text)
            problem = _tried(line)
            if Path(mark).exists():
                problem = f"something of the folder was run\n{problem}"
                Path(mark).unlink()
            tried += 1
            if problem:
                found.append(Finding(problem=problem, case=line))
                if told:
                    kept = here / "findings" / f"folder-{seed}-{len(found)}"
                    shutil.copytree(folder, kept, symlinks=True, ignore=_no_pipes, dirs_exist_ok=True)
                    told(f"finding {len(found)} (case {tried}) {line}: {problem[-1500:]}")
            if told and tried % 100 == 0:
                told(f"{tried:,} tried, {len(found)} findings")
            shutil.rmtree(folder.parent)
        os.chdir(here)
    return tried, found


def _tried(line: list[str]) -> str | None:
    """What a line did that it may not do; its memory is the most that it held at any time."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    before = _kilobytes("VmRSS")
    problem = guarded(lambda: obey(line), seconds=MOST_SECONDS, more_bytes=2 * MOST_BYTES)
    more = 1024 * (_kilobytes("VmHWM") - before)
    return problem or (f"{more / 1e6:,.0f} MB more" if more > MOST_BYTES else None)


def _kilobytes(key: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{key}:")[2].split()[0])


def _no_pipes(folder: str, names: list[str]) -> list[str]:
    paths = [Path(folder) / name for name in names]
    return [path.name for path in paths if not path.is_symlink() and (path.is_fifo() or path.stat().st_size > 10**7)]


def main() -> int:
    """Fuzz by hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    asked = parser.parse_args()
    tried, found = fuzz(**vars(asked), told=lambda text: print(text, flush=True))
    print(f"{tried:,} tried, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
