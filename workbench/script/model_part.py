"""The part of the script that loads the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workbench.project import sources

if TYPE_CHECKING:
    from workbench.project.model import Project

_BRANCH_MODULES = Path(__file__).parents[1] / "engine" / "branch_modules.py"


def load_callable(spec: str, folder: Path, option: str) -> str:
    """Return the expression that gives the user's callable."""
    reference = sources.callable_reference(spec, folder, option)
    if reference.kind == "package":
        return f"getattr(importlib.import_module({reference.module!r}), {reference.attribute!r})"
    file = spec.rpartition(":")[0]
    return f"from_file({file!r}, {reference.attribute!r})"


_FROM_FILE = """
import importlib
import importlib.util


def from_file(name, attribute):
    path = HERE / name
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, attribute)


def as_tuple(value):
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)
"""


def model_part(project: Project, folder: Path, *, branches: bool) -> str:
    """Return the functions that load the model and its example inputs.

    With ``branches`` rules for modules reach what is inside of them too.
    """
    model = project.model
    body = []
    if model.spec.endswith(".pt2"):
        body.append(f"    program = torch.export.load(str(HERE / {model.spec!r}))")
        body.append("    inputs = program.example_inputs[0]")
    else:
        maker = load_callable(model.spec, folder, "model.spec")
        body.append(f"    made = {maker}()")
        body.append("    model, inputs = made if isinstance(made, tuple) else (made, None)")
        if model.weights and model.weights.endswith(".safetensors"):
            body.append("    from safetensors.torch import load_file")
            body.append(f"    model.load_state_dict(load_file(HERE / {model.weights!r}))")
        elif model.weights:
            read = f"torch.load(HERE / {model.weights!r}, map_location='cpu', weights_only=True)"
            body.append(f"    model.load_state_dict({read})")
        body.append("    model.eval()")
    if model.inputs:
        body.append(f"    arrays = np.load(HERE / {model.inputs!r})")
        body.append("    inputs = tuple(torch.from_numpy(arrays[n]) for n in arrays.files)")
    elif model.input_shapes:
        body.append("    generator = torch.Generator().manual_seed(0)")
        shapes = f"{[list(s) for s in model.input_shapes]}"
        body.append(f"    inputs = tuple(torch.randn(s, generator=generator) for s in {shapes})")
    body.append("    inputs = tuple(v.detach().cpu() for v in as_tuple(inputs))")
    if not model.spec.endswith(".pt2"):
        body.append("    with torch.no_grad():")
        body.append(
            f"        program = torch.export.export(model, inputs, strict={model.strict_export})"
        )
    named = ""
    if branches and any(
        k in {"module_name", "module_type"} for k, _, _ in project.quantizer_calls()
    ):
        text = _BRANCH_MODULES.read_text()
        named = "\n" + text[text.index("from collections") :]
        known = "None" if model.spec.endswith(".pt2") else "model"
        body.append(f"    name_modules(program, {known})")
    body.append("    return program, inputs")
    return named + _FROM_FILE + "\n\ndef load_model():\n" + "\n".join(body)
