"""``placement``: predict which operators each kind of device supports, without compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.jobs import job_options
from workbench.cli.output import EXIT_DONE, add_engine, add_project, opened_cache, print_json

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "placement",
        help="predict which operators each kind of device supports",
        description="Runs ExecuTorch's partitioner as in lowering, without compiling: rejections "
        "by Vela itself are not predicted (see blame).",
    )
    add_project(verb)
    add_engine(verb)
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    with opened_cache(options) as cache:
        placement = api.placement(api.open(options.project), **job_options(options, cache))
    if options.json:
        print_json(placement.model_dump(mode="json"))
        return EXIT_DONE
    for device in placement.devices:
        if device.problem:
            print(f"{device.kind}  {device.problem}")
            continue
        print(f"{device.kind}  {device.npu} operators on the NPU, {len(device.cpu)} on the CPU")
        for node in device.cpu:
            print(f"  {node.op}  {node.module or '(model)'}: {node.reason}")
    return EXIT_DONE
