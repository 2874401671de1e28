"""``placement``: predict which operators each kind of device supports, without compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.cli.jobs import run_study
from workbench.cli.output import (
    EXIT_DONE,
    add_engine,
    add_project,
    open_project,
    opened_cache,
    print_json,
)
from workbench.studies.matrix import Placement, one_of_each_kind

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
    project, folder = open_project(options)
    one_of_each_kind(project.target)
    with opened_cache(options) as cache:
        found = run_study("placement", Placement, (project, folder), cache, options, {})
    if options.json:
        print_json(found.model_dump(mode="json"))
        return EXIT_DONE
    for device in found.devices:
        if device.problem:
            print(f"{device.kind}  {device.problem}")
            continue
        print(f"{device.kind}  {device.npu} operators on the NPU, {len(device.cpu)} on the CPU")
        for node in device.cpu:
            print(f"  {node.op}  {node.module or '(model)'}: {node.reason}")
    return EXIT_DONE
