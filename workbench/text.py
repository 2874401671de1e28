"""Number and list formatting for messages."""


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. ``1 sample`` or ``2,000 operators``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: list[str], most: int = 4) -> str:
    """Return some names separated by commas, and the number of further ones."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - most
    return ", ".join(distinct[:most]) + (f" and {more} more" if more > 0 else "")
