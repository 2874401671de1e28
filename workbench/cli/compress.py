"""``compress``: fewer channels and fewer distinct weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_project, print_json, print_table
from workbench.errors import Place, failure
from workbench.text import whole_number

if TYPE_CHECKING:
    import argparse

    from workbench.project.model import Compression
    from workbench.results import ChannelLayer


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "compress",
        help="remove channels, and make weights alike, so that the NPU takes less time and memory",
        description="Without an option: list the layers of the exported model with their channels. "
        "'run' measures the effect, 'train' restores accuracy, 'search --widths' looks for numbers "
        "of channels.",
    )
    add_project(verb)
    verb.add_argument(
        "--channels",
        action="append",
        default=[],
        metavar="MODULE=N",
        help="how many output channels of a layer stay; 0 for all",
    )
    verb.add_argument(
        "--clusters",
        action="append",
        default=[],
        metavar="[MODULE=]N",
        help="how many distinct weights a layer has, or every layer; 0 for no limit",
    )
    verb.add_argument("--clear", action="store_true", help="remove all entries first")
    verb.set_defaults(perform=_perform, edits=True)


def _perform(options: argparse.Namespace) -> int:
    opened = changed = api.open(options.project)
    if options.clear:
        changed = api.clear_compression(changed)
    for text in options.channels:
        module, number = _parts(text, "channels")
        if not module:
            raise _unreadable(text, "channels")
        changed = api.compress(changed, module, channels=number)
    for text in options.clusters:
        module, number = _parts(text, "clusters")
        changed = api.compress(changed, module, clusters=number)
    if changed != opened:
        api.save(changed)
    layers = api.channel_layers(changed)
    entries = changed.project.compressions
    if options.json:
        print_json(
            {
                "compressions": [entry.model_dump(mode="json") for entry in entries],
                "layers": [layer.model_dump(mode="json") for layer in layers],
            }
        )
        return EXIT_DONE
    rows = list(_rows(layers, entries))
    print_table(("module", "channels", "weights", "goes with"), rows)
    if not layers:
        print("The model was not exported yet. Run: workbench run PROJECT --until export")
    return EXIT_DONE


def _parts(text: str, option: str) -> tuple[str, int]:
    module, _, number = text.rpartition("=")
    if (kept := whole_number(number)) is None:
        raise _unreadable(text, option)
    return module, kept


def _unreadable(text: str, option: str) -> Exception:
    return failure(
        f"--{option} {text} is not MODULE=N.",
        f"Example: --{option} body.0.conv=16",
        Place(kind="option", id=option),
        code="compression-unreadable",
    )


def _rows(layers: tuple[ChannelLayer, ...], entries: tuple[Compression, ...]) -> list[tuple[str, ...]]:
    by_module = {entry.module: entry for entry in entries}
    general = by_module.pop("", None)
    rows: list[tuple[str, ...]] = []
    for layer in layers:
        entry = by_module.pop(layer.module, None)
        kept = f"{layer.channels}"
        if entry is not None and entry.channels is not None:
            kept = f"{layer.channels} -> {entry.channels}"
        clusters = (entry and entry.clusters) or (general and general.clusters)
        notes = ", ".join(layer.partners) or (f"stays: it {layer.fixed}" if layer.fixed else "")
        rows.append((layer.module, kept, str(clusters or ""), notes))
    rows += [
        (entry.module, str(entry.channels or ""), str(entry.clusters or ""), "")
        for entry in by_module.values()
    ]
    if general is not None and not layers:
        rows.append(("every layer", "", str(general.clusters), ""))
    return rows
