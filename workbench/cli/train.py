"""``train``: quantization-aware training for the project's precisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from workbench import api
from workbench.cli.jobs import job_options
from workbench.cli.output import EXIT_DONE, add_engine, add_project, opened_cache, print_json, print_table
from workbench.project import edits
from workbench.studies.training import LossId, OptimizerId, TrainingOptions, TrainingResult, options_of
from workbench.text import plural

if TYPE_CHECKING:
    import argparse

_HEADER = ("epoch", "loss", "SQNR, predicted [dB]", "learning rate", "")
_NUMBERS = (
    ("epochs", "N", int, "number of epochs"),
    ("learning_rate", "X", float, "halved if the SQNR does not improve"),
    ("batch", "N", int, "batch size"),
    ("observe", "N", int, "epochs in which activation ranges are updated"),
    ("batch_norm", "N", int, "epochs in which batch-norm statistics are updated"),
    ("patience", "N", int, "stop after this many epochs without a better SQNR"),
    ("halve_after", "N", int, "return to the best weights after this many epochs without a better SQNR"),
    ("seed", "N", int, "seed of the sample order"),
)


def add(verbs: Any) -> None:
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
    for name, metavar, kind, meaning in _NUMBERS:
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
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
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
        _print(result)
    return EXIT_DONE


def _print(result: TrainingResult) -> None:
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
    print_table(_HEADER, rows)
    apart = f"{plural(result.held_out, 'sample')} held out"
    measured = apart if result.held_out else "the training samples"
    print(
        f"Before training {result.start_db:.2f} dB, best {result.best_db:.2f} dB, "
        f"predicted on {measured}. Measure with 'run'."
    )
