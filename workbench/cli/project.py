"""Verbs on a project file: ``new``, ``check``, ``plan``, ``settings``, ``target``, ``samples``."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_USAGE,
    add_json,
    add_project,
    print_infos,
    print_json,
    print_next,
    print_table,
)
from workbench.deploy import boards
from workbench.deploy.boards import load
from workbench.errors import ErrorInfo, Place, failure
from workbench.project import edits, store
from workbench.project.model import (
    BUILT_IN_METRICS,
    DataSource,
    Evaluation,
    ModelSource,
    Preprocess,
    Project,
    TargetChoice,
    Tokenization,
)
from workbench.project.preprocessing import EXAMPLE, preprocess_of, preprocess_text
from workbench.project.recipes import Choice, begin, recipes
from workbench.project.sources import TEXT_SUFFIX, is_folder
from workbench.samples import SAMPLES, copy_sample
from workbench.targets import target_of
from workbench.text import listed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def add_project_verbs(verbs: Any) -> None:
    """Add the verbs."""
    _add_new(verbs)
    check = verbs.add_parser("check", help="validate a project and print warnings")
    add_project(check)
    check.set_defaults(perform=_check)
    show = verbs.add_parser("plan", help="show which stages are cached and which would run")
    add_project(show)
    show.set_defaults(perform=_plan)


def _add_new(verbs: Any) -> None:
    new = verbs.add_parser("new", help="create a project file")
    new.add_argument("project", type=Path, metavar="PROJECT", help="the .qwb file to create")
    new.add_argument(
        "--model",
        default="",
        metavar="SPEC",
        help="FILE.pt2, FILE.onnx, FILE.py:callable or package.module:callable",
    )
    new.add_argument(
        "--aot", default="", metavar="COMMAND",
        help="import a command line of ExecuTorch's aot_arm_compiler, in quotes",
    )  # fmt: skip
    _add_recipe(new)
    new.add_argument("--target", default="", metavar="T", help="e.g. ethos-u55-128")
    new.add_argument(
        "--board", default="", metavar="BOARD", help="also sets the target; see workbench boards"
    )
    _add_data(new)
    new.add_argument("--weights", metavar="FILE", help=".safetensors, or a saved state dict")
    new.add_argument("--inputs", metavar="FILE.npz", help="example inputs")
    new.add_argument(
        "--input-shape",
        action="append",
        default=[],
        metavar="1x3x224x224",
        help="shape of an example input; once per input",
    )
    new.add_argument("--system-config", metavar="NAME", help="Vela system configuration")
    new.add_argument("--memory-mode", metavar="NAME", help="Vela memory mode")
    new.add_argument("--option", action="append", default=[], metavar="NAME=VALUE",
                     help="a target option; see workbench target")  # fmt: skip
    new.add_argument("--config", help="config of the whole model (a8w8; formats: integer-8)")
    new.add_argument("--name", help="name of the project and its deliverables")
    new.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_json(new)
    new.set_defaults(perform=_new)  # fmt: skip


def _add_recipe(new: argparse.ArgumentParser) -> None:
    new.add_argument(
        "--recipe",
        default="",
        choices=["", *recipes()],
        metavar="R",
        help=f"start from a complete project: {', '.join(recipes())}",
    )
    for name, means, given in (
        ("mode", "pt2e_quantize", "ethosu_16a8w, ethosu_8a8w"),
        ("scope", "quantize_scope", "full, linear"),
        ("caches", "static_quantize_kv_cache", "float, int8"),
    ):
        words = f"for decoder recipes, as export_llm's {means}: {given}"
        new.add_argument(f"--{name}", default="", metavar=name.upper(), help=words)
    new.add_argument(
        "--prompt-tokens",
        type=int,
        default=1,
        metavar="N",
        help="for decoder recipes whose caches are inputs and outputs: the program for prompts, "
        "which reads N tokens in one call",
    )


def _add_data(new: argparse.ArgumentParser) -> None:
    new.add_argument("--calibration", metavar="SPEC", help="calibration samples: file, folder or callable")
    new.add_argument("--evaluation", metavar="SPEC", help="evaluation samples")
    new.add_argument(
        "--preprocess",
        metavar="SETTINGS",
        help=f"for folders of pictures: {EXAMPLE}; names: {', '.join(Preprocess.model_fields)}",
    )
    new.add_argument(
        "--tokenizer",
        default="",
        metavar="SPEC",
        help="for texts (.txt): tokenizer.json or FILE.py:callable; default: bytes",
    )
    new.add_argument("--sequence", type=int, metavar="N", help="sequence length of a text in tokens")
    new.add_argument(
        "--labels",
        metavar="FILE",
        help="one class per evaluation sample, a COCO file, or a folder of YOLO texts or masks",
    )
    new.add_argument(
        "--metric",
        metavar="SPEC",
        help=f"FILE.py:callable(outputs, labels), or {listed([*BUILT_IN_METRICS])}",
    )
    new.add_argument(
        "--decode",
        metavar="SPEC",
        help="FILE.py:callable(outputs), for those metrics; see workbench decoders",
    )


def _new(options: argparse.Namespace) -> int:
    path: Path = options.project
    store.require_folder(path)
    if options.aot:
        return _take_over(options)
    if options.recipe:
        return _begin(options)
    if os.path.exists(path) and not options.force:
        raise failure(f"{path} already exists.", "Add --force to overwrite it.", code="file-exists")
    if not options.model:
        raise failure(
            "No model given.", "Add --model, --recipe, or --aot with a command line.", code="model-not-given"
        )
    project = _new_project(options, path)
    opened = api.OpenProject(project, path.absolute().parent, path)
    api.require_valid(opened)
    api.save(opened)
    if options.json:
        print_json({"project": str(path), "target": project.target.model_dump(mode="json")})
    else:
        print(f"Wrote {path}. Next: workbench run {shlex.quote(str(path))} --out dist")
    return EXIT_DONE


def _begin(options: argparse.Namespace) -> int:
    path: Path = options.project
    recipe = recipes()[options.recipe]
    choice = Choice(options.mode, options.scope, options.caches, options.prompt_tokens)
    project = begin(recipe, path.absolute(), choice, overwrite=options.force)
    code = project.model.spec.rpartition(":")[0]
    if options.json:
        texts = [d.spec for d in (project.calibration, project.evaluation.data) if d]
        tokens = project.calibration and project.calibration.tokens
        named = [code, project.model.weights, *texts, tokens and tokens.tokenizer]
        files = list(dict.fromkeys(n for n in named if n and ":" not in n))
        print_json({"project": str(path), "files": files})
        return EXIT_DONE
    print(f"Wrote {path} and {code}. They contain {recipe.begins_with}: replace them.")
    print(f"Next: workbench run {shlex.quote(str(path))} --trust --out dist")
    return EXIT_DONE


def _take_over(options: argparse.Namespace) -> int:
    from workbench.script.aot_arm_compiler import take_command, write_taken

    path: Path = options.project
    taken = take_command(options.aot, path.absolute().parent, options.name or path.stem)
    write_taken(taken, path, overwrite=options.force)
    if options.json:
        print_json({"project": str(path), "files": [*taken.files], "notes": [*taken.notes]})
        return EXIT_DONE
    print(f"Wrote {path} and {', '.join(taken.files)}.")
    print(f"Next: workbench run {shlex.quote(str(path))} --out dist")
    for note in taken.notes:
        print(f"  {note}")
    return EXIT_DONE


def _new_project(options: argparse.Namespace, path: Path) -> Project:
    calibration = _data(options, options.calibration)
    data = _data(options, options.evaluation)
    if options.preprocess and not any(d and d.preprocess for d in (calibration, data)):
        raise failure(
            "--preprocess needs a folder of pictures.",
            "Give one with --calibration or --evaluation.",
            Place(kind="option", id="preprocess"),
            code="pictures-missing",
        )
    if data is not None:
        data = data.model_copy(update={"labels": options.labels})
    project = Project(
        name=options.name or path.stem,
        model=ModelSource(
            spec=options.model,
            input_shapes=tuple(_shape(text) for text in options.input_shape),
            inputs=options.inputs,
            weights=options.weights,
        ),
        calibration=calibration,
        evaluation=Evaluation(data=data, metric=options.metric, decode=options.decode),
        board=options.board,
        target=_target(options, path.absolute().parent),
    )
    config = options.config or target_of(project.target.id).first_config
    return store.parse(store.dump(edits.assign(project, "global", "", config)).encode(), "")


def _data(options: argparse.Namespace, spec: str | None) -> DataSource | None:
    """Return the data source at a path, with tokens for a text."""
    if not spec:
        return None
    if not spec.endswith(TEXT_SUFFIX):
        source = DataSource(spec=spec)
        if options.preprocess and is_folder(spec, options.project.absolute().parent):
            return source.model_copy(update={"preprocess": preprocess_of(options.preprocess)})
        return source
    if options.sequence is not None and options.sequence < 1:
        where = Place(kind="option", id="calibration.tokens.length")
        raise failure(
            "A sequence needs at least one token.",
            "Example: --sequence 64.",
            where,
            code="sequence-too-short",
        )
    length = {"length": options.sequence} if options.sequence is not None else {}
    return DataSource(spec=spec, tokens=Tokenization(tokenizer=options.tokenizer, **length))


def _target(options: argparse.Namespace, folder: Path) -> TargetChoice:
    """Return the given target, or the target of the given board."""
    named = {"system_config": options.system_config, "memory_mode": options.memory_mode}
    options_set = {name: value for name, value in named.items() if value}
    if options.board:
        board = load(options.board, folder)
        chosen = boards.choice_for(options.board, board, folder, device=options.target)
    elif options.target:
        chosen = TargetChoice(id=options.target)
    else:
        raise failure("No target or board given.", "Add --target or --board.", code="target-not-given")
    choice = TargetChoice(id=chosen.id, options={**chosen.options, **options_set})
    return api.set_options(choice, assignments(options.option, "target-option-invalid"), folder)


def _shape(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in text.lower().replace(",", "x").split("x"))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        where = Place(kind="option", id="model.input_shapes")
        raise failure(f"{text!r} is not a shape.", "Example: 1x3x224x224.", where, code="shape-invalid")
    return sizes


def _check(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    result = api.check(opened)
    if options.json:
        problems = [{"level": p.level, **p.info.model_dump(mode="json")} for p in result.problems]
        print_json(
            {
                "project": opened.project.name,
                "valid": result.valid,
                "matches_checked": result.matches_checked,
                "problems": problems,
            }
        )
        return EXIT_DONE if result.valid else EXIT_USAGE
    print_infos(result.errors)
    print_infos(result.warnings, "warning")
    if not result.matches_checked:
        note = ErrorInfo(
            message="Rules are not matched: the model has not been exported yet.",
            hint=f"Run: workbench run {shlex.quote(str(options.project))} --until export",
            code="rules-not-matched",
        )
        print_infos([note], "note")
    name, target = opened.project.name, opened.project.target.id
    print(f"Valid: {name} for {target}." if result.valid else "Invalid.")
    if result.valid:
        print_next(f"workbench run {shlex.quote(str(options.project))} --out dist")
    return EXIT_DONE if result.valid else EXIT_USAGE


def _plan(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    planned = api.plan(opened)
    if options.json:
        print_json(
            {
                "project": opened.project.name,
                "stages": [
                    {"id": s.id, "key": s.key, "state": s.state, "reason": s.reason} for s in planned.stages
                ],
            }
        )
        return EXIT_DONE
    rows = ((s.id, s.state, s.key[:12], s.reason) for s in planned.stages)
    print_table(("stage", "state", "key", ""), rows)
    if any(s.state == "stale" for s in planned.stages):
        print_next(f"workbench run {shlex.quote(str(options.project))} --out dist")
    return EXIT_DONE


def add_settings(verbs: Any) -> None:
    """Add the verbs."""
    verb = verbs.add_parser(
        "settings",
        help="show or change the settings of a project",
        description="Without KEY=VALUE: list every key with its value. Keys are the paths of the "
        "project file. KEY= restores the default. All changes are checked together; a change that "
        "makes the project invalid writes nothing.",
    )
    add_project(verb)
    verb.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="e.g. calibration=pics gate.lsb=2")
    verb.set_defaults(perform=_settings, edits=True)
    _add_preprocess(verbs)
    verb = verbs.add_parser("target", help="show or set the options of the target")
    add_project(verb)
    verb.add_argument("options", nargs="*", metavar="NAME=VALUE", help="e.g. activations=sym")
    verb.set_defaults(perform=_set_target, edits=True)


def _add_preprocess(verbs: Any) -> None:
    verb = verbs.add_parser(
        "preprocess",
        help="show or set how pictures become inputs",
        description="Without SETTINGS: show those of the calibration and the evaluation data.",
    )
    add_project(verb)
    verb.add_argument("settings", nargs="?", metavar="SETTINGS", help=EXAMPLE)
    verb.add_argument(
        "--data",
        choices=("calibration", "evaluation"),
        help="only this data; default: every folder of pictures of the project",
    )
    verb.set_defaults(perform=_preprocess, edits=True)


def assignments(texts: Sequence[str], code: str = "setting-invalid") -> dict[str, str]:
    """Return the values of ``KEY=VALUE`` texts by their keys.

    Args:
        texts: The texts.
        code: The code of the problem of a wrong one.

    Raises:
        WorkbenchError: A text has no equals sign, or a key is given twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        key, is_set, value = text.partition("=")
        if not is_set or key.strip() in values:
            reason = "is given twice" if is_set else "is not written as KEY=VALUE"
            raise failure(
                f"{text!r} {reason}.",
                "Example: calibration.limit=100.",
                Place(kind="option", id=key),
                code=code,
            )
        values[key.strip()] = value
    return values


_OPTION = "target-option-invalid"


def _settings(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.settings:
        opened = api.save(api.set_settings(opened, assignments(options.settings)))
    current = api.settings(opened)
    if options.json:
        print_json({"project": opened.project.name, "settings": current.values})
        return EXIT_DONE
    settings = assignments(options.settings)
    shown = [row for row in current.rows if not settings or _is_named(row.key, settings)]
    print_table(
        ("key", "value", "takes"),
        [(row.key, "" if row.value is None else _text(row.value), row.takes) for row in shown],
    )
    return EXIT_DONE


def _is_named(key: str, texts: dict[str, str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in texts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _preprocess(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.settings is not None:
        data = (options.data,) if options.data else ("calibration", "evaluation")
        opened = api.save(api.set_preprocess(opened, options.settings or None, data))
    sources = {"calibration": opened.project.calibration, "evaluation": opened.project.evaluation.data}
    if options.json:
        document = {name: _plain(source) for name, source in sources.items()}
        print_json({"project": opened.project.name, **document})
        return EXIT_DONE
    rows = [
        (name, source.spec, preprocess_text(source.preprocess) if source.preprocess else "-")
        for name, source in sources.items()
        if source is not None
    ]
    print_table(("data", "source", "preprocess"), rows)
    return EXIT_DONE


def _plain(source: DataSource | None) -> Any:
    if source is None or source.preprocess is None:
        return None
    return source.preprocess.model_dump(mode="json")


def _set_target(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.options:
        settings = {f"target.options.{k}": v for k, v in assignments(options.options, _OPTION).items()}
        opened = api.save(api.set_settings(opened, settings))
    project, folder = opened.project, opened.folder
    target = target_of(project.target.id)
    complete = target.complete(project.target, folder)
    if options.json:
        print_json({"id": complete.id, "options": complete.options})
        return EXIT_DONE
    rows = (
        (
            spec.name,
            json.dumps(complete.options.get(spec.name, spec.default)),
            spec.title,
            ", ".join(str(choice.value) for choice in spec.choices),
        )
        for spec in target.options(project.target, folder)
    )
    print_table(("option", "value", "", "choices"), rows)
    return EXIT_DONE


def add_samples(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "samples",
        help="list the sample projects, or copy one",
        description="Without a name: lists the samples. With one: copies its folder.",
    )
    verb.add_argument("name", nargs="?", default="", help="the sample to copy")
    verb.add_argument("--to", type=Path, default=Path(), metavar="DIR", help="where (default: this folder)")
    add_json(verb)
    verb.set_defaults(perform=_samples)


def _samples(options: argparse.Namespace) -> int:
    if options.name:
        sample = next((candidate for candidate in SAMPLES if candidate.name == options.name), None)
        if sample is None:
            raise failure(
                f"There is no sample {options.name}.",
                f"The samples are {', '.join(candidate.name for candidate in SAMPLES)}.",
                Place(kind="option", id="name"),
                code="sample-unknown",
            )
        path = copy_sample(sample, options.to)
        if options.json:
            print_json({"project": str(path)})
        else:
            print(path)
        return EXIT_DONE
    if options.json:
        listed = [{"name": s.name, "title": s.title, "purpose": s.purpose} for s in SAMPLES]
        print_json({"samples": listed})
        return EXIT_DONE
    print_table(("name", "purpose"), ((s.name, s.purpose) for s in SAMPLES))
    return EXIT_DONE
