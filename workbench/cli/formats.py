"""``formats``: list number formats and their parameters, quantize an array."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DONE, add_json, print_json
from workbench.cli.question import add_batch, ask, perform
from workbench.errors import Place, failure
from workbench.targets.formats.parameters import ROLES, ParameterSpec
from workbench.targets.formats.schemes import SPECS

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("formats", help="list number formats, or quantize an array")
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list every format, its parameters and the differences to MASE")
    add_json(listing)
    listing.set_defaults(perform=_list)
    action = actions.add_parser("quantize", help="quantize an array to a number format")
    action.add_argument("--scheme", metavar="S", help="a format of `formats list`")
    action.add_argument(
        "--params", metavar="JSON", help='e.g. {"width": 8, "frac_width": 4}; also with MASE\'s names'
    )
    action.add_argument("--in", dest="in_", metavar="X.npy", help="float16, float32 or float64")
    action.add_argument("--out", metavar="Y.npy", help="output file, same shape and type")
    action.add_argument("--role", choices=ROLES, help="role of the array (default: data)")
    action.add_argument(
        "--mase-compatible",
        action="store_const",
        const=True,
        help="bit-exact as in MASE, instead of the textbook form",
    )
    add_batch(action)
    action.set_defaults(perform=_quantize)


def _quantize(options: argparse.Namespace) -> int:
    job = {
        "in": options.in_,
        "out": options.out,
        "scheme": options.scheme,
        "params": _params(options.params),
        "role": options.role,
        "mase_compatible": options.mase_compatible,
    }
    return perform(options, job, lambda jobs: ask("formats", {"jobs": jobs}))


def _params(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    place = Place(kind="option", id="params")
    try:
        params = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise failure(f"--params is not JSON: {error}.", where=place, code="params-not-json") from error
    if not isinstance(params, dict):
        raise failure(
            "--params is not an object.", 'Example: {"width": 8, ...}.', place, code="params-not-object"
        )
    return params


def _list(options: argparse.Namespace) -> int:
    if options.json:
        print_json({"formats": [_described(spec) for spec in SPECS]})
        return EXIT_DONE
    for spec in SPECS:
        print(f"{spec.name}: {spec.title}")
        for parameter in spec.parameters:
            print(f"    {parameter.name:<20}{_limits(parameter):<28}{parameter.meaning}")
        if not spec.mase:
            print("  Not in MASE.")
        elif not spec.differences:
            print("  Same in MASE.")
        for difference in spec.differences:
            print(f"  mase: {difference}")
        print(f"  source: {spec.source}\n")
    return EXIT_DONE


def _limits(parameter: ParameterSpec) -> str:
    words: list[str] = [parameter.kind]
    if parameter.least is not None or parameter.most is not None:
        words.append(f"{parameter.least}..{'' if parameter.most is None else parameter.most}")
    words.append("required" if parameter.required else f"default {json.dumps(parameter.default)}")
    return " ".join(words)


def _described(spec: Any) -> dict[str, Any]:
    return {
        "name": spec.name,
        "title": spec.title,
        "family": spec.family,
        "block": spec.block,
        "mase": spec.mase,
        "aliases": list(spec.aliases),
        "source": spec.source,
        "differences": list(spec.differences),
        "parameters": [
            {
                "name": p.name,
                "kind": p.kind,
                "meaning": p.meaning,
                "required": p.required,
                "default": p.default,
                "optional": p.optional,
                "least": p.least,
                "most": p.most,
                "choices": list(p.choices),
                "aliases": list(p.aliases),
            }
            for p in spec.parameters
        ],
    }
