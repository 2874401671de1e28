"""Projects and graphs for tests, small enough to read."""

from __future__ import annotations

from itertools import pairwise

from workbench.graph.snapshot import Edge, GraphSnapshot, Module, Node, TensorInfo
from workbench.project import store
from workbench.project.model import ModelSource, Project, Rule, TargetChoice

MODULES = (
    Module("", "torch.nn.modules.container.Sequential", "", 420),
    Module("stem", "net.Block", "", 176),
    Module("stem.conv", "torch.nn.modules.conv.Conv2d", "stem", 144),
    Module("stem.bn", "torch.nn.modules.batchnorm.BatchNorm2d", "stem", 32),
    Module("stem.relu", "torch.nn.modules.activation.ReLU", "stem", 0),
    Module("head", "torch.nn.modules.linear.Linear", "", 244),
)
_CHAIN = (
    ("x", "placeholder", "input", ""),
    ("conv2d", "aten.conv2d.default", "call", "stem.conv"),
    ("batch_norm", "aten.batch_norm.default", "call", "stem.bn"),
    ("relu", "aten.relu.default", "call", "stem.relu"),
    ("linear", "aten.linear.default", "call", "head"),
    ("output", "output", "output", ""),
)


def snapshot(level="float"):
    """Return a chain: convolution, normalisation, activation, linear."""
    tensor = (TensorInfo((1, 8, 8, 8), "float32"),)
    nodes = tuple(
        Node(i, op, kind, m, 0, tuple(m.split(".")) if m else (), tensor) for i, op, kind, m in _CHAIN
    )
    edges = tuple(Edge(a.id, b.id) for a, b in pairwise(nodes))
    return GraphSnapshot(level, nodes, edges, MODULES)


def make_project(*rules, **fields):
    """Return a project of a .pt2 model with these rules, or one rule for everything."""
    given = rules or (Rule(id="r1", kind="global", config="a8w8"),)
    return Project(
        name="net",
        model=ModelSource(spec="net.pt2"),
        target=TargetChoice(
            id="ethos-u55-128",
            options={"system_config": "Ethos_U55_High_End_Embedded", "memory_mode": "Shared_Sram"},
        ),
        rules=tuple(given),
        **fields,
    )


def write_project(folder, project=None):
    """Write a project with its model file; return the project's path."""
    import zipfile

    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "net.pt2", "w") as archive:
        archive.writestr("net/archive_format", "pt2")
    path = folder / "net.qwb"
    store.save(project or make_project(), path)
    return path
