"""Show: numbers in the words of a sentence."""


def duration(seconds: float) -> str:
    """Seconds as people say them.

    Examples:
        >>> duration(8.2), duration(95), duration(7320)
        ('8 s', '1 min 35 s', '2 h 02 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def join(*sentences: str) -> str:
    """Sentences that are not empty, as one caption."""
    return " ".join(sentence for sentence in sentences if sentence)


def counted(n: int, noun: str) -> str:
    """A number and its noun.

    Examples:
        >>> counted(1, "seed"), counted(2, "seed")
        ('1 seed', '2 seeds')
    """
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"
