"""The part of the script that calls the quantizer with the project's rules."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from workbench.escaping import filled
from workbench.project.configs import PluginConfig, QuantConfig, integers_of
from workbench.project.opened import OpenProject
from workbench.script.model_and_data import load_callable
from workbench.targets import target_of
from workbench.targets.ethos_u.checks import flags_of
from workbench.targets.ethos_u.corrections import enabled_corrections
from workbench.targets.ethos_u.devices import EXTERNAL_WEIGHTS
from workbench.targets.ethos_u.options import (
    CMSIS_NN_CPUS,
    CPU_KERNELS,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    changed_passes,
)
from workbench.targets.ethos_u.rewrites import enabled_rewrites
from workbench.targets.ethos_u.vela_ini import OWN_INI, ini_of, section_for_vela, text_for_vela

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.project.configs import AnyConfig
    from workbench.project.model import Project

_ETHOS_U = Path(__file__).parents[1] / "engine" / "ethos_u"
_BORDERS, _CPU_KERNELS = _ETHOS_U / "integer_io.py", _ETHOS_U / "cpu_kernels.py"
_OUT_VARIANTS = _ETHOS_U / "out_variants.py"
# The folder beside a script that has a copy of the corrections, and one of the rewrites in it.
_COPIED = "ethos_u_corrections"
_COPIED_REWRITES = f"{_COPIED}.rewrites"
_KEEPING_OFF = _ETHOS_U / "npu_exclusions.py"
_DONT_SUPPORT = """from collections.abc import Sequence

from executorch.exir.backend.operator_support import DontSupportBase"""
_PLUGIN_QUANTIZER = Path(__file__).parents[1] / "engine" / "quantization" / "plugin_quantizer.py"
_OBSERVERS = Path(__file__).parents[1] / "engine" / "fx" / "observers.py"
_FACTORIES = {
    ("int8", 8): "get_symmetric_quantization_config",
    ("int16", 8): "get_symmetric_a16w8_quantization_config",
    ("int8", 4): "get_symmetric_a8w4_quantization_config",
}
_EPS = {"int8": "2**-16", "int16": "2**-12", "uint8": "2**-16"}


def observers_part(project: Project, *, has_ranges: bool) -> list[str]:
    """Return the observers that torchao lacks, if a rule or a pinned range uses one."""
    kinds = {
        config.activation.observer.kind
        for _, _, config in project.quantizer_calls()
        if isinstance(config, QuantConfig)
    }
    if not kinds & {"percentile", "fixed"} and not has_ranges:
        return []
    text = _OBSERVERS.read_text()
    return [text[text.index("from torchao") :]]


def plugin_quantizer_part(project: Project) -> list[str]:
    """Return the adapter for a plug-in's quantizer, if one is used."""
    if all(kind != "quantizer" for kind, _, _ in project.quantizer_calls()):
        return []
    text = _PLUGIN_QUANTIZER.read_text()
    return [text[text.index("from executorch") :]]


def _config(assigned: AnyConfig | None, folder: Path) -> str:
    if isinstance(assigned, PluginConfig):
        return f"{load_callable(assigned.reference, folder, 'plugins')}(is_qat=False)"
    config = integers_of(assigned)
    if config is None:
        return "None"
    activation, per_channel = config.activation, config.weight.per_channel
    if activation.dtype == "uint8":
        stock = "get_uint8_io_quantization_config(is_qat=False)"
    else:
        factory = _FACTORIES[activation.dtype, config.weight.bits]
        stock = f"{factory}(is_per_channel={per_channel}, is_qat=False)"
    usual = activation.symmetric == (activation.dtype == "int16")
    if activation.observer.kind == "histogram" and usual:
        return stock
    scheme = "per_tensor_symmetric" if activation.symmetric else "per_tensor_affine"
    return f"with_observer({stock}, torch.{scheme}, {_observer(config, folder)})"


def _observer(config: QuantConfig, folder: Path) -> str:
    observer, eps = config.activation.observer, _EPS[config.activation.dtype]
    if observer.kind == "plugin":
        return f"{load_callable(observer.plugin, folder, 'plugins')}.with_args(eps={eps})"
    kinds: dict[str, Any] = {
        "histogram": "None",
        "minmax": f"MinMaxObserver.with_args(eps={eps})",
        "moving_average": "MovingAverageMinMaxObserver.with_args("
        f"averaging_constant={observer.averaging_constant!r}, eps={eps})",
        "percentile": f"PercentileObserver.with_args(percentile={observer.percentile!r}, eps={eps})",
        "fixed": f"FixedRangeObserver.with_args(minimum={observer.minimum!r}, "
        f"maximum={observer.maximum!r}, eps={eps})",
    }
    return str(kinds[observer.kind])


_WITH_OBSERVER = """
def with_observer(config, scheme, observer):
    spec = config.input_activation
    observer = observer or spec.observer_or_fake_quant_ctr
    spec = replace(spec, qscheme=scheme, observer_or_fake_quant_ctr=observer)
    return replace(config, input_activation=spec, output_activation=spec)
"""


_AT_HAND = """
OWN_INI = {text}


@contextlib.contextmanager
def own_ini_at_hand():
    # The program keeps Vela's flags: the name of the file must not depend on where it lies.
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / {name}).write_text(OWN_INI, encoding="utf-8")
        with contextlib.chdir(place):
            yield
"""


def own_ini_part(opened: OpenProject) -> list[str]:
    """Return the code that writes the project's own Vela .ini, if it has one.

    Raises:
        WorkbenchError: it is missing or invalid.
    """
    project = opened.project
    ini = ini_of(project.target, opened.folder)
    if ini is None:
        return []
    choice = target_of(project.target.id).complete(project.target, opened.folder)
    text = text_for_vela(ini, str(choice.options["system_config"]), choice.id)
    return [filled(_AT_HAND, {"text": repr(text), "name": repr(OWN_INI)})]


def rewrites_part(project: Project) -> str:
    """Return the imports of the copied rewrites that are on; "" if none is."""
    rows = sorted(enabled_rewrites(project.target.options), key=lambda row: (row.module, row.function))
    return "\n".join(f"from {_COPIED_REWRITES}.{row.module} import {row.function}" for row in rows)


def corrections_part(project: Project) -> str:
    """Return the imports of the copied corrections, and the tables of those that are on."""
    chosen: dict[str, list[str]] = {}
    for row in enabled_corrections(project.target.options):
        chosen.setdefault(row.module, []).append(row.id)
    modules = [f"from {_COPIED} import {module}" for module in sorted(chosen)]
    return "\n".join([_BESIDE, *modules, _IMPORTS.format(copied=_COPIED), *_table(chosen)])


# With PYTHONSAFEPATH Python does not look beside a script.
_BESIDE = "sys.path.insert(0, str(Path(__file__).resolve().parent))  # the corrections are beside"
_IMPORTS = """\
from {copied}.batch_norm_folding import made_foldable
from {copied}.decomposition_tracking import MadeOf, OfClass, root_of
from {copied}.lowering import corrected, corrected_compiler
from {copied}.partitioner import OrderedPartitioner
from {copied}.quantizer import CorrectingQuantizer
"""


def _table(chosen: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the lines of the table of corrections: functions by their module."""
    yield from ("", "# Faults of the tools, each with what is done instead in its docstring.")
    yield "CORRECTIONS = {"
    for module, names in chosen.items():
        yield f"    {module!r}: ("
        yield from (f"        {module}.{name}," for name in names)
        yield "    ),"
    yield "}"


def copied_corrections() -> dict[str, str]:
    """Return the files that a script imports from beside it, corrections and rewrites: texts by path."""
    package, copied = "workbench.engine.ethos_u", {}
    for name, copy in (("corrections", _COPIED), ("rewrites", _COPIED_REWRITES)):
        for file in sorted((_ETHOS_U / name).glob("*.py")):
            text = file.read_text(encoding="utf-8").replace(
                f"from {package}.corrections.", f"from {_COPIED}."
            )
            text = text.replace(f"from {package}.rewrites.", f"from {_COPIED_REWRITES}.")
            copied[f"{copy.replace('.', '/')}/{file.name}"] = text
    return copied


def cpu_only_part(project: Project) -> list[str]:
    """Return the check for rules that keep parts off the NPU, if there are any."""
    if not project.cpu_only_rules():
        return []
    text = _KEEPING_OFF.read_text()
    return [_DONT_SUPPORT, text[text.index("class KeptOff") :]]


def integer_borders_part(project: Project) -> list[str]:
    """Return the code for integer inputs and outputs, if the project uses them."""
    if not project.target.options.get("integer_io"):
        return []
    text = _BORDERS.read_text()
    return [text[text.index("from executorch") :]]


def out_variants_part() -> str:
    """Return what makes operators without an out variant of others that have one."""
    text = _OUT_VARIANTS.read_text()
    return text[text.index("import torch\n") :]


def cpu_kernels_part(project: Project) -> list[str]:
    """Return the code for other CPU kernels, if the project uses them."""
    if not project.target.options.get(CPU_KERNELS):
        return []
    text = _CPU_KERNELS.read_text()
    return [text[text.index("import copy") :]]


def cpu_kernels_call(project: Project) -> str:
    """Return the call that selects the CPU kernels; "" if not needed."""
    kernels = str(project.target.options.get(CPU_KERNELS) or "")
    if kernels in CMSIS_NN_CPUS:
        return f"\n    edge = with_cmsis_nn(edge, {CMSIS_NN_CPUS[kernels]!r})"
    return "\n    edge = with_border_kernels(edge)" if kernels else ""


_ENUMS = {
    "softmax": ("softmax", "SoftmaxDecompositionConfig"),
    "leaky_relu": ("leaky_relu", "LeakyReLULoweringConfig"),
    "sdpa_guard": ("sdpa_safe_softmax_guard", "SDPASafeSoftmaxGuardPolicy"),
}


def quantizer_part(
    opened: OpenProject, as_written: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> str:
    """Return the functions that create the compile spec and the quantizer.

    Args:
        opened: The project.
        as_written: By rewrite, the layers that it leaves as they are written.
    """
    project = opened.project
    complete = target_of(project.target.id).complete(project.target)
    options: dict[str, Any] = dict(complete.options)
    flags = flags_of(options)
    apart = ""
    if options.get(EXTERNAL_WEIGHTS):
        apart = (
            ',\n        external_block_placements=ethosu.VelaExternalBlockPlacements(weight_data="weights")'
        )
    own, system = "", str(options["system_config"])
    if options.get("config_ini"):
        own = f",\n        config_ini={OWN_INI!r}"
        system = section_for_vela(system, complete.id)
    faster = [f"{row.id!r}: {row.function}" for row in enabled_rewrites(options)]
    lines = [
        _WITH_OBSERVER,
        "",
        "def compile_spec():",
        "    # Always a new one: lowering changes the object it is given.",
        f"    made = EthosUCompileSpec({complete.id!r},",
        f"        system_config={system!r},",
        f"        memory_mode={options['memory_mode']!r},",
        f"        extra_flags={flags or None!r}{own}{apart})",
        *_transformations(options),
        "    return made",
        "",
        "",
        "def quantizer():",
        "    made = CorrectingQuantizer(compile_spec())",
        "    made.corrections = CORRECTIONS",
        f"    made.rewrites = {{{', '.join(faster)}}}",
        *([f"    made.as_written = {dict(as_written)!r}"] if as_written else []),
        *(f"    {_call(*call, opened.folder)}" for call in project.quantizer_calls()),
        "    return made",
    ]
    return "\n".join(lines)


def _transformations(options: Mapping[str, Any]) -> list[str]:
    """Return the lines that configure transformations before quantization and compilation."""
    passes = changed_passes(options)
    if not passes:
        return []
    lines = [
        "    # What transforms the program before it is quantized and compiled.",
        "    from executorch.backends.arm.common import pipeline_config as passes",
        "    config = passes.ArmPassPipelineConfig.from_dict(",
        "        made._get_pass_pipeline_config().to_dict())",
    ]
    for name, (field, kind) in _ENUMS.items():
        if name in passes:
            lines.append(f"    config.{field} = passes.{kind}[{passes[name]!r}]")
    usual = {"negative_infinity": NEGATIVE_INFINITY, "positive_infinity": POSITIVE_INFINITY}
    least, most = (float(str(passes.get(name, value))) for name, value in usual.items())
    lines.append(f"    config.quantize_inf = passes.QuantizeInfConfig({least!r}, {most!r})")
    return [*lines, "    made.set_pass_pipeline_config(config)"]


def _call(kind: str, match: str, config: AnyConfig | None, folder: Path) -> str:
    if kind == "quantizer":
        assert isinstance(config, PluginConfig)
        own = f"{load_callable(config.reference, folder, 'plugins')}()"
        return f"made.add_quantizer(PluginQuantizer({own}, {config.reference!r}))"
    value = _config(config, folder)
    if kind == "finder":
        return f"made.set_node_finder({value}, {load_callable(match, folder, 'plugins')}())"
    if kind in {"global", "io"}:
        return f"made.set_{kind}({value})"
    if kind == "module_type":
        return _for_class(match, value)
    if kind in {"node_target", "node_name"}:
        names = "operators" if kind == "node_target" else "names"
        one = (match.removeprefix("torch.ops."),)
        return f"made.set_node_finder({value}, MadeOf({names}={one!r}))"
    return f"made.set_{kind}({match!r}, {value})"


def _for_class(match: str, config: str) -> str:
    """Return the call for modules of a class, named in full or by its name alone."""
    module, _, name = match.rpartition(".")
    if not module:
        return f"made.set_node_finder({config}, OfClass({name!r}))"
    stand_in = f"type({name!r}, (), {{'__module__': {module!r}, '__qualname__': {name!r}}})"
    return f"made.set_module_type({stand_in}, {config})"
