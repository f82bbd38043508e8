"""Train a small GPT-2 on the characters of a text, and store it in the format of transformers.

It knows nothing of Headway: it reads arguments, writes metrics.jsonl where it is started, and goes on from state.pt
where an earlier start has left one.
"""

import argparse
import json
import signal
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

STATE = Path("state.pt")
RECORDS = Path("metrics.jsonl")


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--n-head", type=int, default=4)
    parser.add_argument("--n-layer", type=int, default=2)
    parser.add_argument("--n-embd", type=int, default=64)
    parser.add_argument("--n-ctx", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--eval-every", type=int, default=50)
    return parser.parse_args()


def read_text(path: Path) -> tuple[torch.Tensor, torch.Tensor, dict[str, int]]:
    """Return the first 90 % and the rest of a text as numbers of characters, and the number of each character."""
    text = path.read_text(encoding="utf-8")
    numbers = {character: at for at, character in enumerate(sorted(set(text)))}
    data = torch.tensor([numbers[character] for character in text])
    at = int(0.9 * len(data))
    return data[:at], data[at:], numbers


def store(model: GPT2LMHeadModel, numbers: dict[str, int], folder: Path) -> None:
    """Store a model and its characters in the format of transformers."""
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=min(numbers)))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def windows(data: torch.Tensor, starts: torch.Tensor, length: int) -> torch.Tensor:
    """Return the windows of a text that begin at some places, a row each."""
    return torch.stack([data[start : start + length] for start in starts.tolist()])


def batch_of(data: torch.Tensor, step: int, options: argparse.Namespace) -> torch.Tensor:
    """Return the batch of a step, which is the same after a restart."""
    generator = torch.Generator().manual_seed(options.seed * 1_000_003 + step)
    starts = torch.randint(len(data) - options.n_ctx, (options.batch_size,), generator=generator)
    return windows(data, starts, options.n_ctx)


@torch.no_grad()
def evaluate(model: GPT2LMHeadModel, data: torch.Tensor, options: argparse.Namespace) -> float:
    """Return the mean loss on windows that are the same for every model."""
    model.eval()
    starts = torch.linspace(0, len(data) - options.n_ctx - 1, 64).long()
    tokens = windows(data, starts, options.n_ctx)
    loss = model(tokens, labels=tokens).loss.item()
    model.train()
    return loss


def record(content: dict[str, float]) -> None:
    """Write a line of the records."""
    with RECORDS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(content) + "\n")


def main() -> None:
    """Train, evaluate and store a model."""
    options = arguments()
    torch.manual_seed(options.seed)
    train, held_out, numbers = read_text(options.text)
    shape = {"n_head": options.n_head, "n_layer": options.n_layer, "n_embd": options.n_embd}
    config = GPT2Config(vocab_size=len(numbers), n_positions=options.n_ctx, bos_token_id=0, eos_token_id=0, **shape)
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    first = 0
    if STATE.exists():
        state = torch.load(STATE)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        print(f"goes on from step {first}")

    asked_to_stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_stop.append(number))
    for step in range(first, options.steps + 1):
        if step % options.eval_every == 0 or step == options.steps:
            record({"step": step, "val_loss": evaluate(model, held_out, options)})
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, STATE.with_suffix(".new"))
            STATE.with_suffix(".new").replace(STATE)
        if asked_to_stop:
            sys.exit(f"stopped at step {step}")
        if step == options.steps:
            break
        tokens = batch_of(train, step, options)
        loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    store(model, numbers, Path("model"))
    STATE.unlink()


if __name__ == "__main__":
    main()
