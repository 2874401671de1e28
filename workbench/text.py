"""Words that sentences of every room are made of."""


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. ``1 sample`` or ``2,000 operators``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: list[str], most: int = 4) -> str:
    """Return some names in a row, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - most
    return ", ".join(distinct[:most]) + (f" and {more} more" if more > 0 else "")
