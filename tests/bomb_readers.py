"""Readers of foreign files, each called as a verb or the engine calls it."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.project.opened import OpenProject

DATA = Path(__file__).parent / "data"


def read_project(path: Path) -> None:
    from workbench.pipeline.cache import Cache
    from workbench.pipeline.plan import plan
    from workbench.project import sources, store

    project = store.load(path)
    sources.missing(OpenProject(project, path.parent))
    plan(OpenProject(project, path.parent), Cache(path.parent / "cache"))


def read_history(path: Path) -> None:
    from workbench.history.store import History

    history = History(path)
    history.runs()
    history.close()


def read_outcome(path: Path) -> None:
    from workbench.history.outcomes import read_outcome

    read_outcome(path)


def read_program(path: Path) -> None:
    from workbench.files import MAX_PROGRAM_BYTES, read_limited
    from workbench.npu.program import load
    from workbench.pte.description import describe

    program = load(path)
    del program
    describe(read_limited(path, MAX_PROGRAM_BYTES), whole=True)


def read_viewer(path: Path) -> None:
    from ui.features.program_viewer.program_contents import read

    found = read(path)
    if isinstance(found, WorkbenchError):
        raise found


def read_weights_beside(path: Path) -> None:
    from workbench.npu.program import load

    load(DATA / "programs" / "u55_external.pte", data=[path])


def read_simulator_inputs(path: Path) -> None:
    from workbench.npu.inputs import read_samples
    from workbench.npu.program import Tensor

    read_samples(path, [Tensor("float32", (1,))])


def read_fvp_inputs(path: Path) -> None:
    from workbench.deploy.simulators.run import _arrays

    _arrays(path)


def read_array(path: Path) -> None:
    from workbench.engine.jobs.array_jobs import load

    load(path)


def read_data(path: Path) -> None:
    from workbench.engine.data.arrays import read_arrays, read_labels
    from workbench.project.model import DataSource
    from workbench.project.sources import data_reference
    from workbench.results import TensorSpec

    spec = TensorSpec(name="x", shape=(1, 3), dtype="float32")
    source = DataSource(spec=path.name)
    read_labels(source, path.parent, "calibration")
    reference = data_reference(source.spec, path.parent, "calibration")
    for _ in read_arrays(reference, source, [spec], "calibration"):
        pass


def read_pictures(path: Path) -> None:
    from workbench.engine.data.pictures import read_pictures
    from workbench.project.model import DataSource
    from workbench.project.preprocessing import Preprocess
    from workbench.project.sources import data_reference
    from workbench.results import TensorSpec

    settings = Preprocess(size=(8, 8), mean=(0.0,), std=(1.0,))
    spec = TensorSpec(name="x", shape=(1, 1, 8, 8), dtype="float32")
    source = DataSource(spec=path.name, preprocess=settings)
    reference = data_reference(source.spec, path.parent, "calibration")
    for _ in read_pictures(reference, source, [spec], "calibration"):
        pass


def read_text_data(path: Path) -> None:
    from workbench.engine.data.text import read_text
    from workbench.project.model import DataSource, Tokenization
    from workbench.project.sources import data_reference
    from workbench.results import TensorSpec

    source = DataSource(spec=path.name, tokens=Tokenization())
    reference = data_reference(source.spec, path.parent, "calibration")
    spec = TensorSpec(name="x", shape=(1, 8), dtype="int64")
    for _ in read_text(reference, source, [spec], "calibration", path.parent):
        pass


def read_weights(path: Path) -> None:
    from workbench.engine.loading.checkpoint_reading import read_checkpoint

    read_checkpoint(path)


def read_model(path: Path) -> None:
    from workbench.engine.loading.models import load_model
    from workbench.project.model import ModelSource, Project, TargetChoice
    from workbench.project.trust import named_code

    source = ModelSource(spec=path.name)
    project = Project(name="a", model=source, target=TargetChoice(id="ethos-u55-128"))
    if named_code(OpenProject(project, path.parent)).places:
        raise WorkbenchError([])
    load_model(source, path.parent)


def read_etdump(path: Path) -> None:
    from workbench.deploy.simulators.counters import recorded
    from workbench.deploy.simulators.etdump import events_of

    folder = path.parent / "run"
    folder.mkdir()
    path.rename(folder / "etdump.bin")
    try:
        events_of(recorded(folder, folder / "log"))
    except ValueError as error:
        raise WorkbenchError([]) from error


def read_npu_trace(path: Path) -> None:
    from workbench.deploy.simulators.counters import read_trace

    read_trace(path)


def read_log(path: Path) -> None:
    from workbench.deploy.simulators.log_parser import UartReader

    reader = UartReader()
    with path.open("rb") as file:
        while data := file.read(1 << 16):
            reader.feed(data.decode(errors="replace"))
    reader.close()


def read_board_file(path: Path) -> None:
    from workbench.deploy.boards import load

    load(path.name, path.parent)


def read_ini(path: Path) -> None:
    from workbench.targets.ethos_u.vela_ini import load

    load(path)


def read_pass_args(path: Path) -> None:
    from workbench.targets.formats.pass_args import read_args

    read_args(path)


def read_plugin(path: Path) -> None:
    from workbench.project.plugins import items_of

    items_of(f"{path.stem}", path.parent)


def read_source(path: Path) -> None:
    from workbench.project.model import ModelSource, Project, TargetChoice
    from workbench.project.trust import named_code

    source = ModelSource(spec=f"{path.name}:net")
    project = Project(name="a", model=source, target=TargetChoice(id="ethos-u55-128"))
    named_code(OpenProject(project, path.parent))


def read_new_project(path: Path) -> None:
    from ui.features.project.draft import callables_of

    callables_of(path)


def read_numbers_file(path: Path) -> None:
    from workbench.graph.numbers_file import read_numbers

    read_numbers(path)


def read_runner_file(path: Path) -> None:
    from workbench.deploy.simulators.compatibility import read_runner

    read_runner(path)


def read_trust(path: Path) -> None:
    from workbench.project.trust import TrustStore

    TrustStore(path).granted()


def read_machine(path: Path) -> None:
    from unittest import mock

    from workbench.deploy.simulators import discovery

    with mock.patch.object(discovery, "settings_path", return_value=path):
        discovery.load_settings()


def read_study(path: Path) -> None:
    from unittest import mock

    from workbench.studies import documents
    from workbench.studies.search import SearchResult

    # Inputs lie in the folder for temporary files, where all users may write.
    with (
        mock.patch.object(documents, "DOCUMENT_FILE", path.name),
        mock.patch.object(documents, "is_foreign", return_value=False),
    ):
        documents.load_study(SearchResult, path.parent)


def read_command(path: Path) -> None:
    from workbench.script.aot_arm_compiler import take_command

    take_command(path.read_text(), path.parent, "a")


def read_jobs(path: Path) -> None:
    from workbench.cli.arrays import read_jobs

    read_jobs(path)
