"""The tokenizer of stories260K as one of the library `tokenizers`, so that it fits into a folder of Hugging Face."""

from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, processors

from headway.data.tokenizer import Tokenizer
from support.stories260k import Tokenizer as Published

SPECIAL = ("<unk>", "<s>", "</s>")


def tokenizer(file: Path) -> Tokenizer:
    """llama2.c merges the pair with the best-scored whole first: merges in the order of the scores of their wholes."""
    published = Published(file)
    pieces = [piece.decode(errors="replace").replace(" ", "▁") for piece in published.pieces]
    for token in range(len(SPECIAL)):
        pieces[token] = SPECIAL[token]
    for token in range(3, 259):
        pieces[token] = f"<0x{token - 3:02X}>"
    ids = {piece: token for token, piece in reversed(list(enumerate(pieces)))}
    merges = sorted(
        (-published.scores[token], piece[:at], piece[at:])
        for piece, token in ids.items()
        if token >= 259
        for at in range(1, len(piece))
        if piece[:at] in ids and piece[at:] in ids
    )
    inner = tokenizers.Tokenizer(
        models.BPE(vocab=ids, merges=[(a, b) for _, a, b in merges], unk_token="<unk>", byte_fallback=True)
    )
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    inner.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return Tokenizer.of(inner, str(file))
