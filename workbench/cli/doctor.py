"""``doctor``: what is installed, what is missing, why it matters, how to install it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DONE, EXIT_FAILED, add_json, print_json
from workbench.doctor import findings

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("doctor", help="show what is installed, what is missing, and how to install it")
    add_json(verb)
    verb.set_defaults(perform=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    checks = findings()
    missing = any(f.state == "missing" for f in checks)
    if options.json:
        print_json({"healthy": not missing, "findings": [f.model_dump() for f in checks]})
        return EXIT_FAILED if missing else EXIT_DONE
    marks = {"ok": "ok", "different": "!!", "missing": "NO", "optional": "--"}
    for finding in checks:
        print(f"{marks[finding.state]}  {finding.name:<32} {finding.version}")
        if finding.state != "ok":
            print(f"      {finding.why}".rstrip())
            print(f"      {finding.remedy}".rstrip())
    return EXIT_FAILED if missing else EXIT_DONE
