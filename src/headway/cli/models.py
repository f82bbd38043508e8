"""The verbs on finished models: generate, export, xray, ablate, prune, patch, look."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.base.text import command_line
from headway.cli import options as opt
from headway.cli.options import app, check_out, check_writable, path_of, print_tables, say, tell, warn
from headway.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.heads.results import ModelOnText
    from headway.report.charts.page import Table
    from headway.report.models.page import ModelPage


def _page_folder(verb: str) -> Any:
    what = f"A folder that is made; by default results/{verb}-NAME."
    return typer.Option(callback=path_of, metavar="DIR", help=what)


LengthOf = Annotated[int | None, opt.whole_number(2, "Tokens of each; by default its context, at most 256.")]
SequencesOf = "The most sequences of each text; by default 8,192 tokens, and at least 32."
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Run code that comes with the folder, where it needs some.")
]


@app.command()
def generate(
    checkpoint: opt.Checkpoint,
    prompt: Annotated[str, typer.Option(help="How the text begins; nothing: at the start of a text.")] = "",
    tokens: Annotated[
        int | None, opt.whole_number(1, "The most tokens; by default 200, or what fits its training context.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Divides the logits; 0: always the likeliest token.")] = 0.9,
    top_k: Annotated[int | None, opt.whole_number(1, "Only the K likeliest tokens.", metavar="K")] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="Only the likeliest tokens up to this cumulative probability.")
    ] = None,
    seed: Annotated[int, opt.whole_number(0, "The same seed, the same text.", most=2**63 - 1)] = 0,
    tokenizer: opt.TokenizerOf = None,
) -> None:
    """Write text with a trained language model.

    Example: headway generate gpt2 --prompt "Once upon a time"
    """
    from headway.analysis.open import open_model

    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    say(open_model(checkpoint, tokenizer, for_="write").write(prompt, n_tokens=tokens, **sampling))


@app.command()
def export(
    checkpoint: opt.Checkpoint,
    directory: Annotated[Path, typer.Argument(callback=path_of, metavar="OUT", help="A folder that is made.")],
) -> None:
    """Write a language model as a folder that transformers loads.

    A model that is a GPT-Neo, GPT-2, Llama or Mistral becomes a stock folder; any other is exported with its code.

    Example: headway export results/head-progression/runs/constant-low/seed-0 OUT
    """
    from headway.analysis.open import open_model
    from headway.hf.write import export as write

    opened = open_model(checkpoint, for_="write")
    model = opened.own
    model_type = write(model.model, model.vocab_size, model.weights(), directory, opened.tokenizer)
    _say_written(model_type, directory)
    if opened.tokenizer is None:
        warn(f"{checkpoint} has no tokenizer, so {directory} has none")


def _say_written(model_type: str, folder: Path) -> None:
    code = "; load it with trust_remote_code=True, for its code goes along" if model_type == "headway" else ""
    say(f"{model_type}: {folder}{code}")


@app.command()
def xray(
    checkpoint: opt.Checkpoint,
    text: opt.TextOrOwn = None,
    decoder_text: Annotated[
        str | None,
        typer.Option(
            callback=path_of,
            metavar="FILE",
            help="The targets that the decoder of a T5, BART or Marian reads, one a line, for the sources that are the "
            "lines of --text; by default it reads the text of its encoder.",
        ),
    ] = None,
    out: Annotated[Path | None, _page_folder("xray")] = None,
    as_json: opt.AsJson = False,
    tokenizer: opt.TokenizerOf = None,
    sequences: Annotated[
        int | None, opt.whole_number(1, "The most sequences of the text; by default 4,096 tokens.")
    ] = None,
    length: Annotated[int | None, opt.whole_number(2, "Tokens of each; by default its context, at most 512.")] = None,
    draws: opt.Draws = None,
    plugin: opt.Plugins = None,
    device: opt.Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """Measure every attention head of a model on a text.

    Names heads that are special, alike or idle; draws the atlas of all heads and maps of their pairs.

    Example: headway xray gpt2 --text mine.txt
    """
    from headway.analysis.xray import xray as measure
    from headway.report.models.xray import layers, xray_page

    check_out(out, draws=out is not None or not as_json)
    switches = _run_plugins(plugin) + ["--trust-code"] * trust_code
    read: dict[str, Any] = {
        "tokenizer": tokenizer,
        "sequences": sequences,
        "length": length,
        "decoder_text": decoder_text,
    }
    found = measure(checkpoint, text=text, draws=draws, device=device, trust_code=trust_code, **read)
    command = command_line("xray", checkpoint, *switches, text=text, out=out, **read, null_draws=draws)
    look = command_line("look", checkpoint, *switches, text=text, tokenizer=tokenizer)
    show_model(found, layers(found), lambda: xray_page(found, look), checkpoint, out, command, as_json)


def _run_plugins(files: list[str] | None) -> list[str]:
    """Run files of a user's own metrics, and return the words of a command line that name them again."""
    from headway.config.plugins import load

    words = []
    for file in files or ():
        tell(load(file).sentence)
        words += ["--plugin", file]
    return words


@app.command()
def ablate(
    checkpoint: opt.Checkpoint,
    text: opt.TextOrOwn = None,
    circuit: Annotated[
        str | None,
        typer.Option(metavar="L0H0,L1H0", help="Also what these heads keep alone, beside random ones of their number."),
    ] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="FILE.npy", help="The target at each token of --text FILE.npy, -1 for none.")
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also what every pair does that was removed together.")
    ] = False,
    out: Annotated[Path | None, _page_folder("ablate")] = None,
    as_json: opt.AsJson = False,
    tokenizer: opt.TokenizerOf = None,
    sequences: Annotated[int | None, opt.whole_number(2, SequencesOf)] = None,
    length: LengthOf = None,
    device: opt.Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """Ablate each head, and measure how the loss changes.

    Every head is taken away in all three ways, with intervals; cheap estimates stand beside, and how far they agree.
    Heads are also taken away together, and those that stand in for each other are named.
    With --circuit, everything outside the given heads is ablated too.
    The model is checked first: masking a head must give the same result as removing it.

    Example: headway ablate gpt2 --text mine.txt
    """
    from headway.analysis.ablate import ablate as measure
    from headway.report.models.ablation import ablation_page, ways

    check_out(out, draws=out is not None or not as_json)
    read: dict[str, Any] = {"tokenizer": tokenizer, "sequences": sequences, "length": length}
    found = measure(
        checkpoint,
        text=text,
        targets=targets,
        pairs=pairs,
        circuit=None if circuit is None else [head.strip() for head in circuit.split(",") if head.strip()],
        device=device,
        trust_code=trust_code,
        tell=tell,
        **read,
    )
    command = command_line(
        "ablate", checkpoint, *["--pairs"] * pairs, text=text, targets=targets, out=out, circuit=circuit, **read
    )
    command += " --trust-code" * trust_code
    show_model(found, ways(found), lambda: ablation_page(found), checkpoint, out, command, as_json)


@app.command()
def prune(
    checkpoint: opt.Checkpoint,
    by: Annotated[
        Literal["taylor", "ablation", "gates", "budget", "alike", "alike-either", "output", "magnitude", "random"],
        typer.Option(
            help="taylor: gradients of gates; ablation: exact effects; gates: learned, with an L0 penalty; budget: "
            "learned, a relaxed top-k; alike: of the most alike two the one that adds less; alike-either: one of them "
            "that is drawn; output: what adds least; magnitude: the norm of what a head can write; random: the floor "
            "of all others."
        ),
    ],
    keep: Annotated[str, typer.Option(metavar="N|SHARE", help="Heads that stay: 24, 50% or 0.5.")],
    out: Annotated[Path, typer.Option(callback=path_of, metavar="FOLDER", help="A folder that is made.")],
    text: opt.TextOrExamples = None,
    steps: Annotated[int, opt.whole_number(1, "Importance is measured anew after each.", most=10_000)] = 1,
    tokenizer: opt.TokenizerOf = None,
    sequences: Annotated[int | None, opt.whole_number(1, SequencesOf)] = None,
    length: LengthOf = None,
    device: opt.Device = "auto",
    seed: Annotated[int, opt.whole_number(0, "Of what is drawn.", most=2**63 - 1)] = 0,
) -> None:
    """Write a model without some of its heads.

    Heads that share keys and values go together; a layer may lose all. What it costs in loss and saves in time and
    memory is measured.

    Example: headway prune gpt2 --by taylor --keep 0.5 --text mine.txt --out pruned
    """
    from headway.analysis.prune import prune as take_heads

    found = take_heads(
        checkpoint,
        by=by,
        keep=keep,
        text=text,
        out=out,
        steps=steps,
        tokenizer=tokenizer,
        sequences=sequences,
        length=length,
        device=device,
        seed=seed,
        tell=tell,
    )
    for sentence in found.sentences:
        say(f"* {sentence}")
    assert found.folder is not None
    folder, model_type = found.folder
    _say_written(model_type, folder)


def show_model(
    found: "ModelOnText",
    overview: "Table",
    drawn: "Callable[[], ModelPage]",
    checkpoint: Path,
    out: Path | None,
    command: str,
    as_json: bool,
) -> None:
    """Print the result of an analysis: sentences and a table, then its page; or all of it as JSON."""
    from headway.report.models.page import folder_of, terminal_table

    if as_json:
        import json

        if out is not None:
            drawn().write(out, checkpoint, command)
        say(json.dumps(found.to_json(), allow_nan=False))
        return
    for said in [finding.sentence for finding in found.findings] or [found.nothing]:
        say(f"* {said}")
    for finding in found.not_found:
        say(f"- {finding.sentence}")
    say()
    print_tables(terminal_table(overview))
    for note in found.notes:
        say(f"note: {note}")
    say(f"measured on {found.read}")
    tell("drawing ...")
    page = drawn()
    say(f"page: {page.write(out or folder_of(page.verb, found, checkpoint), checkpoint, command)}")


@app.command()
def patch(
    checkpoint: opt.Checkpoint,
    clean: Annotated[
        str, typer.Option(metavar="TEXT|FILE", help="A text after which the answer is right; or a file, one a line.")
    ],
    corrupted: Annotated[
        str, typer.Option(metavar="TEXT|FILE", help="One of as many tokens, after which it is not; as --clean.")
    ],
    answer: Annotated[
        str,
        typer.Option(
            metavar="WORD|FILE", help="What should follow, of several tokens the first; one for all, or one a line."
        ),
    ],
    wrong: Annotated[
        str | None,
        typer.Option(metavar="WORD|FILE", help="What should not; by default the answer's probability is asked about."),
    ] = None,
    sites: Annotated[
        str, typer.Option(metavar="A,B", help="What of a head is put back, in turn: z, q, k, v, pattern.")
    ] = "z,q,k,v,pattern",
    by_position: Annotated[bool, typer.Option("--by-position", help="Each position by itself.")] = False,
    paths: Annotated[bool, typer.Option(help="Direct effects between heads: through queries, keys, values.")] = True,
    out: Annotated[Path | None, _page_folder("patch")] = None,
    as_json: opt.AsJson = False,
    tokenizer: opt.TokenizerOf = None,
    device: opt.Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """Patch activations from a clean text into a corrupted one.

    Draws what comes back with each head's context, queries, keys, values and pattern, which head acts on which later
    one, and where the heads of the strongest path look. Of files with a text in each line there are intervals.

    Example: headway patch gpt2 --clean "He said that" --corrupted "She said that" --answer " he"
    """
    from headway.analysis.patch import patch_texts
    from headway.analysis.text_pairs import text_or_lines
    from headway.report.models.patching import most_restoring, patch_page

    check_out(out, draws=out is not None or not as_json)
    texts = {"clean": clean, "corrupted": corrupted, "answer": answer, "wrong": wrong}
    given = {name: None if text is None else text_or_lines(text, f"--{name}") for name, text in texts.items()}
    found = patch_texts(
        checkpoint,
        **given,  # type: ignore[arg-type]
        sites=tuple(site.strip() for site in sites.split(",") if site.strip()),
        by_position=by_position,
        paths=paths,
        tokenizer=tokenizer,
        device=device,
        trust_code=trust_code,
        tell=tell,
    )
    switches = ["--by-position"] * by_position + ["--no-paths"] * (not paths) + ["--trust-code"] * trust_code
    chosen = None if sites == "z,q,k,v,pattern" else sites
    command = command_line("patch", checkpoint, *switches, **texts, sites=chosen, out=out, tokenizer=tokenizer)
    show_model(found, most_restoring(found), lambda: patch_page(found), checkpoint, out, command, as_json)


def _paths_of(given: list[Path]) -> list[Path]:
    return [path_of(path) for path in given]


@app.command()
def look(
    models: Annotated[
        list[Path],
        typer.Argument(
            callback=_paths_of,
            metavar="MODEL...",
            help="A run's folder, a folder of Hugging Face, or a results directory with its arms; two stand side by "
            "side.",
        ),
    ],
    text: opt.TextOrOwn = None,
    heads: Annotated[
        str | None, typer.Option(metavar="L0H3,L2", help="Keep the patterns of these heads and layers; default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            callback=path_of, metavar="FILE", help="A page; by default results/look-NAME.html, or DIR/look.html."
        ),
    ] = None,
    tokenizer: opt.TokenizerOf = None,
    sequences: Annotated[
        int | None, opt.whole_number(1, "So many of the text, and of repeated tokens; by default 4.")
    ] = None,
    length: Annotated[int | None, opt.whole_number(2, "Tokens of each; by default its context, at most 128.")] = None,
    draws: opt.Draws = None,
    plugin: opt.Plugins = None,
    largest: Annotated[
        float, typer.Option(min=0.6, max=2000, metavar="MB", help="What would make the page larger is left out.")
    ] = 10,
    device: opt.Device = "auto",
    trust_code: TrustCode = False,
) -> None:
    """Write a page on which you pick a head and see its patterns.

    Patterns on a text and on repeated tokens, token by token; circuits in tokens; numbers beside what untrained heads
    show; similar and composed heads; of a run with probes also while it trained.

    Example: headway look gpt2 --text mine.txt
    """
    from headway.analysis.look import look as look_at
    from headway.analysis.look import models_in
    from headway.api import look_page_of
    from headway.report.models.look import look_page

    chosen, page = models_in(models), _page_of(out, models)
    switches = _run_plugins(plugin) + ["--trust-code"] * trust_code
    read: dict[str, Any] = {"tokenizer": tokenizer, "sequences": sequences, "length": length}
    n_bytes, views = int(largest * 1e6), []
    for path in chosen:
        if len(chosen) > 1:
            tell(f"looking at {path} ...")
        given = {"text": text, "heads": heads, "device": device, "trust_code": trust_code, **read}
        views.append(look_at(path, largest=n_bytes // len(chosen), draws=draws, **given))
    named = {"text": text, "heads": heads, "out": out, "largest": None if largest == 10 else largest, **read}
    command = command_line("look", *models, *switches, **named, null_draws=draws)
    draw = look_page if len(models) > 1 else partial(look_page_of, models=models[0])
    drawn = draw(views, command=command, largest=n_bytes)
    for cut in drawn.cuts:
        say(f"note: {cut}")
    drawn.write(page)
    say(f"page: {page} ({len(drawn.html.encode()) / 1e6:.1f} MB)")
    _link(page)


def _page_of(out: Path | None, models: list[Path]) -> Path:
    """Return the file of the page."""
    from headway.analysis.model import ModelFolder

    if out is not None:
        if out.is_dir():
            raise UserError(f"--out {out}: it is a folder; give a file, such as {out / 'look.html'}")
        check_writable(out.parent, f"--out {out}")
        return out
    if len(models) == 1 and (models[0] / "experiment.yaml").is_file():
        check_writable(models[0], f"the page would stand in {models[0]}, and")
        return models[0] / "look.html"
    names = [ModelFolder(asked=path, path=path, kind="other").name for path in models]
    return Path("results") / f"look-{'-beside-'.join(names[:2])}.html"


def _link(page: Path) -> None:
    """The report beside a page, if there is one, is written anew: it links to the page."""
    if page.name != "look.html" or not all((page.parent / f).is_file() for f in ("report.html", "experiment.yaml")):
        return
    from headway.api import finish
    from headway.store.directory import Store

    finish(Store.open(page.parent), figures=False, look=False)
    say(f"linked from {page.parent / 'report.html'}")
