"""``nnpa``: the int8 arithmetic of IBM Telum II's accelerator, applied to arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.cli.question import add_batch, ask, perform

if TYPE_CHECKING:
    import argparse

_MODES = ("asym", "sym")


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("nnpa", help="int8 arithmetic of IBM NNPA on arrays")
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_quantize(actions)
    _add_matmul(actions)


def _add_quantize(actions: Any) -> None:
    action = actions.add_parser("quantize", help="print codes, scale and zero point of an array")
    action.add_argument("--mode", choices=_MODES)
    action.add_argument("--role", choices=("activation", "weight"), help="default: activation")
    action.add_argument("--in", dest="in_", metavar="X.npy")
    action.add_argument("--out", metavar="Q.npz", help="q (int8), scale, zero_point, reciprocal")
    add_batch(action)
    action.set_defaults(perform=_quantize)


def _add_matmul(actions: Any) -> None:
    action = actions.add_parser("matmul", help="compute the quantized product of two arrays")
    action.add_argument("--mode", choices=_MODES, help="range of the activations")
    action.add_argument("--a", metavar="A.npy", help="activations")
    action.add_argument("--b", metavar="B.npy", help="constant weights, always symmetric")
    action.add_argument("--bias", metavar="C.npy")
    action.add_argument(
        "--numerics",
        choices=("document", "nnpa"),
        help="the documented equations, or a model of the accelerator with dlfloat16",
    )
    action.add_argument("--out", metavar="Y.npy", help="float32")
    add_batch(action)
    action.set_defaults(perform=_matmul)


def _quantize(options: argparse.Namespace) -> int:
    job = {"in": options.in_, "out": options.out, "mode": options.mode, "role": options.role}
    return _perform(options, "quantize", job)


def _matmul(options: argparse.Namespace) -> int:
    keys = ("a", "b", "bias", "out", "mode", "numerics")
    return _perform(options, "matmul", {key: getattr(options, key) for key in keys})


def _perform(options: argparse.Namespace, operation: str, job: dict[str, Any]) -> int:
    return perform(options, job, lambda jobs: ask("nnpa", {"operation": operation, "jobs": jobs}))
