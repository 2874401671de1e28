"""``firmware``: make firmware that runs a program, check it, and prove it on an emulated processor."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DIFFERS, EXIT_DONE, add_json, print_json

if TYPE_CHECKING:
    import argparse

    from workbench.deploy.before_flashing import FirmwareFit
    from workbench.deploy.emulation.findings import Proof
    from workbench.deploy.emulation.proofs import KeptProof


_WORDS = {True: "passed", False: "failed", None: "not checked"}


def add_firmware(verbs: Any) -> None:
    """Add the verb with its actions."""
    verb = verbs.add_parser(
        "firmware",
        help="check or prove firmware before it is flashed, or make the shortest that runs a program",
        description="Firmware runs under QEMU with Arm's own NPU driver; the functional simulator "
        "answers the NPU's registers. Emulated: nothing is timed or measured.",
    )
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_check(actions)
    _add_prove(actions)
    _add_new(actions)
    _add_build(actions)


def _number(text: str) -> int:
    return int(text, 0)


def _add_prove(actions: Any) -> None:
    verb = actions.add_parser(
        "prove",
        help="run firmware, and check what it does with the NPU",
        description="Checks memories, cache, interrupt, driver and exit of firmware for a "
        "Cortex-M55 linked to the memories of the AN547. Ends with 4 if a check fails.",
    )
    verb.add_argument("elf", type=Path, metavar="ELF", help="the linked firmware, with symbols")
    verb.add_argument("program", type=Path, metavar="PROGRAM.pte", help="the program it runs")
    verb.add_argument("--target", default="", metavar="T", help="the NPU; default: the program's")
    verb.add_argument("--base", type=_number, default=0x48102000, metavar="A",
                      help="address of the NPU's registers (0x48102000)")  # fmt: skip
    verb.add_argument("--irq", type=int, default=56, metavar="N", help="its interrupt (56)")
    verb.add_argument("--cache", action="store_true", help="also check the maintenance of the data cache")
    verb.add_argument("--delay", type=float, default=0.0, metavar="S",
                      help="let the processor run S seconds while the NPU works")  # fmt: skip
    verb.add_argument("--limit", type=float, default=60.0, metavar="S",
                      help="end the firmware after S seconds (60)")  # fmt: skip
    verb.add_argument("--folder", type=Path, metavar="DIR",
                      help="folder that the firmware reads and writes by semihosting")  # fmt: skip
    verb.add_argument("--arg", action="append", default=[], metavar="WORD",
                      help="a word of the firmware's command line, by semihosting")  # fmt: skip
    verb.add_argument("--trust", action="store_true",
                      help="let the firmware write files elsewhere and start programs, by semihosting; "
                      "needed where the system cannot keep it from that")  # fmt: skip
    add_json(verb)
    verb.set_defaults(perform=_prove)


def _add_check(actions: Any) -> None:
    verb = actions.add_parser(
        "check",
        help="compare the contents of firmware with what a program needs, without running it",
        description="Pools, kernels and backend by the symbols and the content of the linked "
        "firmware; how long outputs are valid. Ends with 4 if something is missing.",
    )
    verb.add_argument("elf", type=Path, metavar="ELF", help="the linked firmware, with symbols")
    verb.add_argument("program", type=Path, metavar="PROGRAM.pte", help="the program it shall run")
    verb.add_argument(
        "--pool", action="append", default=[], metavar="KIND=SYMBOL",
        help="array of a pool: method, scratch, fast scratch, planned fast memory or files; "
        "default: those of ExecuTorch's runner",
    )  # fmt: skip
    add_json(verb)
    verb.set_defaults(perform=_check)


def _add_new(actions: Any) -> None:
    verb = actions.add_parser(
        "new",
        help="write the shortest firmware that runs a program's delegates",
        description="Sources, linker script, the delegates, and drawn inputs with their outputs.",
    )
    verb.add_argument("program", type=Path, metavar="PROGRAM.pte")
    verb.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    verb.add_argument("--seed", type=int, default=1, metavar="N", help="of the inputs (1)")
    add_json(verb)
    verb.set_defaults(perform=_new)


def _add_build(actions: Any) -> None:
    verb = actions.add_parser(
        "build",
        help="compile what `firmware new` wrote, with your driver and CMSIS",
        description="Uses arm-none-eabi-gcc and your checkouts; nothing of them is copied.",
    )
    verb.add_argument("project", type=Path, metavar="DIR", help="folder of `firmware new`")
    verb.add_argument(
        "--driver", type=Path, required=True, metavar="DIR", help="checkout of Arm's ethos-u-core-driver"
    )
    verb.add_argument("--cmsis", type=Path, required=True, metavar="DIR", help="checkout of CMSIS")
    verb.add_argument("--cache", action="store_true", help="switch the data cache on")
    add_json(verb)
    verb.set_defaults(perform=_build)


def _check(options: argparse.Namespace) -> int:
    from workbench.cli.fvp import read_program
    from workbench.deploy.before_flashing import fit_of, pool_symbols

    fit = fit_of(options.elf, read_program(options.program), pool_symbols(options.pool))
    if options.json:
        print_json(
            {
                "verdict": "lacks" if fit.problems else "holds",
                "pools": [{**asdict(row), "holds": row.holds} for row in fit.pools],
                "linked": dict(fit.linked),
                "problems": [info.model_dump(mode="json") for info in fit.problems],
                "notes": list(fit.notes),
                "outputs": [asdict(life) for life in fit.outputs],
            }
        )
    else:
        _print_fit(fit)
    return EXIT_DIFFERS if fit.problems else EXIT_DONE


def _print_fit(fit: FirmwareFit) -> None:
    for row in fit.pools:
        room = row.available
        has = "that of the firmware is not known" if room is None else f"firmware has {room:,}"
        print(f"Pool       {row.name}: needs {row.needed:,} bytes, {has}")
    for name, is_linked in fit.linked.items():
        print(f"{'Linked' if is_linked else 'Missing':<10} {name}")
    for life in fit.outputs:
        print(f"Output     {life.sentence}")
    for note in fit.notes:
        print(f"Note       {note}")
    for info in fit.problems:
        print(f"Lacks      {info.message}\n           {info.hint}")
    if not fit.problems:
        print("Holds      what the program needs, as far as it can be checked without running it")


def _prove(options: argparse.Namespace) -> int:
    from workbench.cli.fvp import terminated_as_interrupted
    from workbench.deploy.emulation.proofs import keep_proof
    from workbench.deploy.emulation.prover import Board, prove

    board = Board(
        target=options.target,
        base=options.base,
        irq=options.irq,
        cached=options.cache,
        delay_s=options.delay,
        limit_s=options.limit,
        arguments=tuple(options.arg),
        folder=options.folder,
        is_trusted=options.trust,
    )
    with terminated_as_interrupted():
        proof = prove(options.elf, options.program, board)
        kept = keep_proof(options.elf, options.program, proof)
    if options.json:
        print_json(_document(proof, kept))
    else:
        _print(proof, kept)
    return EXIT_DONE if proof.verdict == "proven" else EXIT_DIFFERS


def _document(proof: Proof, stored: KeptProof | None) -> dict[str, Any]:
    from workbench.deploy.emulation.findings import CHECKS, NOT_PROVEN

    return {
        "verdict": proof.verdict,
        "kind": "emulated",
        "target": proof.target,
        "driver": proof.driver,
        "program_sha256": proof.program_sha256,
        "firmware_sha256": proof.firmware_sha256,
        "kept": stored is not None,
        "qemu": proof.qemu,
        "checks": [
            {"id": name, "group": check.group, "title": check.title, "held": proof.held(name)}
            for name, check in CHECKS.items()
        ],
        "findings": [{**asdict(f), "remedy": f.remedy} for f in proof.findings],
        "jobs": proof.jobs,
        "exit_code": proof.exit_code,
        "output": proof.output,
        "register_accesses": proof.accesses,
        "elapsed_s": proof.elapsed_s,
        "npu_s": proof.npu_s,
        "not_proven": list(NOT_PROVEN),
    }


def _print(proof: Proof, stored: KeptProof | None) -> None:
    from workbench.deploy.emulation.findings import CHECKS, NOT_PROVEN

    for line in proof.output.splitlines():
        print(f"  {line}")
    for name, check in CHECKS.items():
        held = proof.held(name)
        if held is not None:
            print(f"{check.group:<10} {check.title}: {_WORDS[held]}")
    for finding in proof.findings:
        print(f"Found      {finding.message}")
        print(f"           {finding.remedy}")
    code = "ended" if proof.exit_code is None else f"exit code {proof.exit_code}"
    print(
        f"Ran        {len(proof.jobs)} times the NPU, {proof.accesses} register accesses, "
        f"{proof.elapsed_s:.2f} s, {code}, QEMU {proof.qemu}"
    )
    print(f"Emulated   not shown: {'; '.join(NOT_PROVEN)}")
    verdict = "Proven" if proof.verdict == "proven" else "Not proven"
    driver = f"driver {proof.driver}" if proof.driver else "a driver of unknown version"
    print(f"{verdict:<10} on an emulated Cortex-M55 with {proof.target} and {driver}")
    if stored is not None:
        print("Kept       notes, manifests and reports that are exported for this program from now on say so")


def _new(options: argparse.Namespace) -> int:
    from workbench.deploy.emulation.firmware_project import write_project

    files = write_project(options.program, options.out, seed=options.seed)
    if options.json:
        print_json({"folder": str(options.out), "files": [file.name for file in files]})
        return EXIT_DONE
    print(f"Firmware   {options.out}: {', '.join(f.name for f in files if f.suffix != '.bin')}")
    print(f"Next       workbench firmware build {options.out} --driver DIR --cmsis DIR")
    return EXIT_DONE


def _build(options: argparse.Namespace) -> int:
    from workbench.deploy.emulation.firmware_project import build_project, sources

    checkouts = sources(options.driver, options.cmsis)
    elf = build_project(options.project, checkouts, cached=options.cache)
    if options.json:
        print_json({"elf": str(elf), "driver": checkouts.driver_version})
        return EXIT_DONE
    print(f"Firmware   {elf}, with driver {checkouts.driver_version or 'of unknown version'}")
    print(f"Next       workbench firmware prove {elf} PROGRAM.pte")
    return EXIT_DONE
