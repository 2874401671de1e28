"""Verbs that change weights: ``improve``, ``compress``, ``train``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from workbench import api
from workbench.cli.output import (
    EXIT_DONE,
    add_engine,
    add_project,
    job_options,
    opened_cache,
    print_json,
    print_table,
)
from workbench.errors import Place, failure
from workbench.project import edits
from workbench.project.configs import IMPROVER_PRESETS, IMPROVERS
from workbench.studies.training import LossId, OptimizerId, TrainingOptions, TrainingResult, options_of
from workbench.text import plural, whole_number

if TYPE_CHECKING:
    import argparse

    from workbench.project.model import Compression
    from workbench.results import ChannelLayer


def add_improve(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "improve",
        help="enable or disable weight transforms",
        description=(
            "Without an option: list all weight transforms. 'run' measures their effect, 'runs' compares. "
            "Of gptq and rounding, the one switched on last counts."
        ),
    )
    add_project(verb)
    ids = [improver.id for improver in IMPROVERS]
    verb.add_argument("--on", action="append", default=[], choices=ids, metavar="ID")
    verb.add_argument("--off", action="append", default=[], choices=ids, metavar="ID")
    verb.add_argument(
        "--preset",
        choices=[preset.id for preset in IMPROVER_PRESETS],
        metavar="ID",
        help="use the weight transforms of a preset instead of others: " + _presets(),
    )
    verb.add_argument("--seed", type=int, metavar="N", help="choose other calibration samples for them")
    verb.add_argument("--samples", type=int, metavar="N", help="use at most so many calibration samples")
    verb.add_argument(
        "--time-limit",
        type=int,
        metavar="S",
        help="stop after so many seconds and keep what was changed by then; 0: no limit",
    )
    verb.set_defaults(perform=_improve, edits=True)


def _presets() -> str:
    return "; ".join(f"{preset.id} ({' and '.join(preset.improvers)})" for preset in IMPROVER_PRESETS)


def _settings(options: argparse.Namespace) -> dict[str, int | None]:
    """Return the settings that were given."""
    settings = {"seed": options.seed, "samples": options.samples, "time_limit_s": options.time_limit}
    return {
        name: None if name == "time_limit_s" and value == 0 else value
        for name, value in settings.items()
        if value is not None
    }


def _improve(options: argparse.Namespace) -> int:
    opened = changed = api.open(options.project)
    if options.preset:
        changed = api.use_improver_preset(changed, options.preset)
    for on, names in ((True, options.on), (False, options.off)):
        for name in names:
            changed = api.set_improver(changed, name, on=on)
    if settings := _settings(options):
        changed = api.set_improving(changed, **settings)
    if changed != opened:
        api.save(changed)
    improvers = changed.project.improvers
    if options.json:
        settings = changed.project.improving.model_dump(mode="json")
        print_json({"improvers": list(improvers), "settings": settings})
        return EXIT_DONE
    rows = [("on" if i.id in improvers else "off", i.id, i.description) for i in IMPROVERS]
    print_table(("", "id", "what it does"), rows)
    return EXIT_DONE


def add_compress(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "compress",
        help="remove channels, and cluster weights, so that the NPU takes less time and memory",
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
        help="number of output channels that a layer keeps; 0: all",
    )
    verb.add_argument(
        "--clusters",
        action="append",
        default=[],
        metavar="[MODULE=]N",
        help="number of distinct weights of a layer, or of every layer; 0: off",
    )
    verb.add_argument("--clear", action="store_true", help="remove all entries first")
    verb.set_defaults(perform=_compress, edits=True)


def _compress(options: argparse.Namespace) -> int:
    opened = changed = api.open(options.project)
    if options.clear:
        changed = api.clear_compression(changed)
    for text in options.channels:
        module, number = _module_and_number(text, "channels")
        if not module:
            raise _unreadable(text, "channels")
        changed = api.compress(changed, module, channels=number)
    for text in options.clusters:
        module, number = _module_and_number(text, "clusters")
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
    rows = list(_layer_rows(layers, entries))
    print_table(("module", "channels", "weights", "goes with"), rows)
    if not layers:
        print("The model was not exported yet. Run: workbench run PROJECT --until export")
    return EXIT_DONE


def _module_and_number(text: str, option: str) -> tuple[str, int]:
    module, _, number = text.rpartition("=")
    if (count := whole_number(number)) is None:
        raise _unreadable(text, option)
    return module, count


def _unreadable(text: str, option: str) -> Exception:
    return failure(
        f"--{option} {text} is not MODULE=N.",
        f"Example: --{option} body.0.conv=16",
        Place(kind="option", id=option),
        code="compression-unreadable",
    )


def _layer_rows(layers: tuple[ChannelLayer, ...], entries: tuple[Compression, ...]) -> list[tuple[str, ...]]:
    by_module = {entry.module: entry for entry in entries}
    general = by_module.pop("", None)
    rows: list[tuple[str, ...]] = []
    for layer in layers:
        entry = by_module.pop(layer.module, None)
        channels = f"{layer.channels}"
        if entry is not None and entry.channels is not None:
            channels = f"{layer.channels} -> {entry.channels}"
        clusters = (entry and entry.clusters) or (general and general.clusters)
        notes = ", ".join(layer.partners) or (f"stays: it {layer.fixed}" if layer.fixed else "")
        rows.append((layer.module, channels, str(clusters or ""), notes))
    rows += [
        (entry.module, str(entry.channels or ""), str(entry.clusters or ""), "")
        for entry in by_module.values()
    ]
    if general is not None and not layers:
        rows.append(("every layer", "", str(general.clusters), ""))
    return rows


_TRAINING_HEADER = ("epoch", "loss", "SQNR, predicted [dB]", "learning rate", "")
_TRAINING_NUMBERS = (
    ("epochs", "N", int, "number of epochs"),
    ("learning_rate", "X", float, "halved if the SQNR does not improve"),
    ("batch", "N", int, "batch size"),
    ("observe", "N", int, "epochs in which activation ranges are updated"),
    ("batch_norm", "N", int, "epochs in which batch-norm statistics are updated"),
    ("patience", "N", int, "stop after this many epochs without a better SQNR"),
    ("halve_after", "N", int, "return to the best weights after this many epochs without a better SQNR"),
    ("seed", "N", int, "seed of the sample order"),
)


def add_train(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "train",
        help="quantization-aware training for the project's precisions, without labels",
        description="Trains the quantized model to match the float model on the calibration "
        "data, a fifth of which is held out for measurement. Ctrl-C keeps the best "
        "weights; run again to continue.",
    )
    add_project(verb)
    standard = TrainingOptions()
    verb.add_argument("--optimizer", choices=get_args(OptimizerId), default=standard.optimizer)
    verb.add_argument("--loss", choices=get_args(LossId), default=standard.loss)
    for name, metavar, kind, meaning in _TRAINING_NUMBERS:
        default = getattr(standard, name)
        verb.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            default=default,
            metavar=metavar,
            help=f"{meaning} ({default:g})",
        )
    verb.add_argument(
        "--function", metavar="FILE.py:NAME", help="your own training function; '' for the built-in one"
    )
    verb.add_argument("--apply", action="store_true", help="use the best weights in the project")
    add_engine(verb)
    verb.set_defaults(perform=_train)


def _train(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    training = options_of({name: getattr(options, name) for name in TrainingOptions.model_fields})
    trained = opened
    if options.function is not None:
        trained = opened.edited(lambda project: edits.train_by(project, options.function))
    with opened_cache(options) as cache:
        result = api.train(trained, training, **job_options(options, cache))
        if options.apply:
            opened = api.update(
                opened, lambda fresh: api.use_trained_weights(fresh, trained, result, training, cache)
            )
    if options.json:
        used = {"best_db": result.best_db, "trained_weights": opened.project.trained_weights}
        print_json({**result.model_dump(mode="json"), **used})
    else:
        _print_training(result)
    return EXIT_DONE


def _print_training(result: TrainingResult) -> None:
    rows = [
        (
            str(e.number),
            f"{e.loss:.4g}",
            f"{e.sqnr_db:.2f}",
            f"{e.learning_rate:.3g}",
            "best" if e.number == result.best else "",
        )
        for e in result.epochs
    ]
    print_table(_TRAINING_HEADER, rows)
    apart = f"{plural(result.held_out, 'sample')} held out"
    measured = apart if result.held_out else "the training samples"
    print(
        f"Before training {result.start_db:.2f} dB, best {result.best_db:.2f} dB, "
        f"predicted on {measured}. Measure with 'run'."
    )
