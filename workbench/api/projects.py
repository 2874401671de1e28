"""Projects as values: open, create, change, check and save."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.deploy import boards
from workbench.errors import ErrorInfo, WorkbenchError, failure
from workbench.escaping import html_table
from workbench.pipeline import resolution
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import Plan
from workbench.pipeline.plan import plan as plan_of
from workbench.project import edits, store
from workbench.project.model import DataSource, Evaluation, ModelSource, Project, TargetChoice
from workbench.project.opened import OpenProject
from workbench.project.plugins import items_of
from workbench.project.project_code import Code
from workbench.project.sources import MODEL_SUFFIXES
from workbench.project.trust import TrustStore, demand, named_code
from workbench.results import ExportResult, load_result
from workbench.targets import target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.project.configs import Config, ImproverId, ImproverPresetId
    from workbench.results import ChannelLayer


def open(path: str | Path) -> OpenProject:  # noqa: A001 - as in PIL.Image.open and gzip.open
    """Open a project file.

    Raises:
        WorkbenchError: The file is missing or not a valid project; all problems at once.
    """
    file = Path(path)
    return OpenProject(store.load(file), file.absolute().parent, file)


def new(
    model: str | ModelSource,
    target: str | TargetChoice,
    *,
    folder: str | Path = ".",
    name: str = "",
    calibration: str | DataSource | None = None,
    evaluation: str | DataSource | None = None,
    metric: str | None = None,
    decode: str | None = None,
    board: str = "",
    config: str | Config = "",
) -> OpenProject:
    """Create a project in memory.

    Args:
        model: ``FILE.pt2``, ``FILE.onnx``, ``FILE.py:callable`` or ``package.module:callable``.
        target: A target with its options, or its id, such as ``ethos-u55-128``.
        folder: Where relative paths start.
        name: The name of the project and its deliverables; by default the model's.
        calibration: Calibration samples: a file, a folder of pictures or a callable.
        evaluation: Evaluation samples.
        metric: ``FILE.py:callable(outputs, labels)``, or ``detection``, ``segmentation`` or
            ``key_points``.
        decode: ``FILE.py:callable(outputs)``, what those three are computed from.
        board: The board that the target stands on; "" for none.
        config: The config of the whole model; by default the target's first.

    Raises:
        WorkbenchError: A value is invalid or a file is missing; all problems at once.
    """
    source = ModelSource(spec=model) if isinstance(model, str) else model
    choice = TargetChoice(id=target) if isinstance(target, str) else target
    project = Project(
        name=name or _name_of(source.spec),
        model=source,
        calibration=_data(calibration),
        evaluation=Evaluation(data=_data(evaluation), metric=metric, decode=decode),
        board=board,
        target=choice,
    )
    project = edits.assign(project, "global", "", config or target_of(choice.id).first_config)
    project = store.parse(store.dump(project).encode(), "")
    opened = OpenProject(project, Path(folder).absolute())
    require_valid(opened)
    return opened


def _name_of(spec: str) -> str:
    """Return the name of a model's file or module: ``net`` of ``a/net.py:f`` and of ``b.net:f``."""
    module = spec.partition(":")[0]
    path = Path(module)
    return path.stem if path.suffix in {".py", *MODEL_SUFFIXES} else path.name.rpartition(".")[2]


def _data(source: str | DataSource | None) -> DataSource | None:
    return DataSource(spec=source) if isinstance(source, str) else source


def save(opened: OpenProject, path: str | Path | None = None) -> OpenProject:
    """Write a project file and return the project with its path.

    Args:
        opened: The project.
        path: The file; by default the one that the project came from.

    Raises:
        WorkbenchError: There is no path, the project is not valid, or the file cannot be written.
    """
    file = Path(path) if path is not None else opened.path
    if file is None:
        raise failure("The project has no file yet.", "Pass a path.", code="project-without-path")
    project = store.parse(store.dump(opened.project).encode(), str(file))
    store.save(project, file)
    return replace(opened, project=project, path=file)


def update(opened: OpenProject, change: Callable[[OpenProject], OpenProject]) -> OpenProject:
    """Read the project's file again, change it and write it, with no other change in between.

    For what a long job ends with: edits that were saved in the meantime are kept.

    Raises:
        WorkbenchError: There is no file, or it cannot be read or written.
    """
    path = saved_path(opened)
    project = store.edit(path, lambda fresh: change(replace(opened, project=fresh)).project)
    return replace(opened, project=project)


def saved_path(opened: OpenProject) -> Path:
    """Return the project's file; raises WorkbenchError if it was never saved."""
    if opened.path is None:
        raise failure("The project has no file yet.", "Save it first.", code="project-without-path")
    return opened.path


def set_target(opened: OpenProject, target: str, options: Mapping[str, Any] | None = None) -> OpenProject:
    """Set the device and its options.

    Raises:
        WorkbenchError: There is no such target.
    """
    target_of(target)
    choice = TargetChoice(id=target, options=dict(options or {}))
    return opened.edited(lambda project: edits.set_target(project, choice))


def set_board(opened: OpenProject, board: str, device: str = "") -> OpenProject:
    """Set the board, and with it the device, its configuration, memory mode and SRAM limit.

    Args:
        opened: The project.
        board: The id of a board, or a .toml file beside the project.
        device: One of the board's NPUs; by default the project's if the board has it.

    Raises:
        WorkbenchError: There is no such board, or it has no such device.
    """
    return opened.edited(lambda project: boards.put(OpenProject(project, opened.folder), board, device))


def set_improver(opened: OpenProject, improver: ImproverId, *, on: bool = True) -> OpenProject:
    """Switch a transformation of the float weights (``workbench.project.configs.IMPROVERS``)."""
    return opened.edited(lambda project: edits.set_improver(project, improver, on=on))


def set_improving(opened: OpenProject, **settings: int | None) -> OpenProject:
    """Set what improvers work with: fields of ``workbench.project.configs.Improving``."""
    return opened.edited(lambda project: edits.set_improving(project, **settings))


def use_improver_preset(opened: OpenProject, preset: ImproverPresetId) -> OpenProject:
    """Use the improvers of a preset instead of others (``IMPROVER_PRESETS`` beside them)."""
    return opened.edited(lambda project: edits.use_improver_preset(project, preset))


def compress(
    opened: OpenProject, module: str, *, channels: int | None = None, clusters: int | None = None
) -> OpenProject:
    """Set how many output channels, and how many distinct weights, a layer keeps.

    Args:
        opened: The project.
        module: A convolution or linear; "" for every other layer, which takes clusters only.
        channels: The number of channels that stay; 0 for all, None for no change.
        clusters: The number of distinct weights; 0 for no limit, None for no change.

    Raises:
        WorkbenchError: A number is out of range, or channels are set for no module.
    """
    return opened.edited(
        lambda project: edits.compress(project, module, channels=channels, clusters=clusters)
    )


def clear_compression(opened: OpenProject) -> OpenProject:
    """Let every layer keep its channels and weights."""
    return opened.edited(lambda project: edits.revise(project, compressions=()))


def channel_layers(opened: OpenProject, cache: Cache | None = None) -> tuple[ChannelLayer, ...]:
    """Return the convolutions and linears of the exported model; empty before it was exported."""
    results = cache or Cache(default_root())
    exported = plan_of(opened, results).of("export")
    if exported.state != "cached":
        return ()
    return load_result(ExportResult, results.folder(exported.key)).layers


def add_plugin(opened: OpenProject, plugin: str) -> OpenProject:
    """Add a plug-in file; raises WorkbenchError if it is missing or offers nothing."""
    items_of(plugin, opened.folder)
    return opened.edited(lambda project: edits.offer_plugin(project, plugin))


def remove_plugin(opened: OpenProject, plugin: str) -> OpenProject:
    """Remove a plug-in file; rules that use it are kept."""
    return opened.edited(lambda project: edits.withdraw_plugin(project, plugin))


@dataclass(frozen=True)
class CheckResult:
    """What ``check`` found.

    Attributes:
        problems: Errors and warnings, each with its place and a hint.
        matches_checked: Whether the model was exported before, so that rules could be matched.
    """

    problems: tuple[resolution.Problem, ...]
    matches_checked: bool

    @property
    def errors(self) -> tuple[ErrorInfo, ...]:
        """The problems that make the project invalid."""
        return tuple(p.info for p in self.problems if p.level == "error")

    @property
    def warnings(self) -> tuple[ErrorInfo, ...]:
        """The problems that the project can run with."""
        return tuple(p.info for p in self.problems if p.level == "warning")

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def _repr_html_(self) -> str:
        rows = [(p.level, p.info.where or "", p.info.message, p.info.hint) for p in self.problems]
        return html_table("Valid" if self.valid else "Invalid", ("level", "where", "", "hint"), rows)


def check(opened: OpenProject, cache: Cache | None = None) -> CheckResult:
    """Validate a project: unmatched and shadowed rules, limits of the target, missing files.

    Runs no stage. Rules are matched against the exported graph where the cache has it.
    """
    store_ = cache or Cache(default_root())
    return check_planned(opened, plan(opened, store_), store_)


def check_planned(opened: OpenProject, planned: Plan, cache: Cache) -> CheckResult:
    """Validate a project with what a plan found in the cache.

    Args:
        opened: The project.
        planned: Its plan.
        cache: The cache that the plan was made for.
    """
    try:
        graph = resolution.float_graph(planned, cache)
        prepared = resolution.prepared_result(planned, cache)
    except WorkbenchError:
        graph = prepared = None
    problems = resolution.problems(opened, graph, prepared)
    return CheckResult(tuple(problems), graph is not None)


def allowed_code(opened: OpenProject, *, trust: bool = False) -> Code:
    """Return the Python code that the project names, which may run.

    Args:
        opened: The project.
        trust: Allow the code this time, whatever was granted before.

    Raises:
        TrustRequiredError: The code is not trusted.
        WorkbenchError: A file that the project names cannot be read, or the code is too large.
    """
    if trust:
        return named_code(opened)
    return demand(opened, TrustStore())


def require_valid(opened: OpenProject) -> None:
    """Check a project without its graph.

    Raises:
        WorkbenchError: The project has errors; all at once.
    """
    problems = resolution.problems(opened, None)
    errors = [problem.info for problem in problems if problem.level == "error"]
    if errors:
        raise WorkbenchError(errors)


def plan(opened: OpenProject, cache: Cache | None = None) -> Plan:
    """Return every stage with its key and state (cached, stale, blocked or unavailable)."""
    return plan_of(opened, cache or Cache(default_root()))
