"""A model written for a compiler that runs elsewhere, and what that compiler will make of it."""

from __future__ import annotations

from workbench.project.frozen import Frozen

MODEL_FILE, CONFIG_FILE = "model.onnx", "model.json"


class ExportedProduct(Frozen):
    """A matrix product of the file: predicted to be quantized, or the reason why not.

    ``node`` is its name in the file, ``origin`` the operation of the exported graph it is.
    """

    node: str
    op: str
    origin: str
    module: str
    quantized: bool
    reason: str = ""


class CompilerCheck(Frozen):
    """What the compiler itself said, where it is on this machine.

    ``compiler`` is its version, or "" where there is none; ``quantized`` the products it made int8,
    None where it did not run; ``sentence`` says it in words.
    """

    compiler: str = ""
    command: str = ""
    quantized: int | None = None
    sentence: str


class ExportedModel(Frozen):
    """The file and how to compile it.

    ``rewritten`` counts products that were changed so that the compiler quantizes them; ``config``
    is the compiler's file with exclusions, "" where nothing is excluded; ``commands`` are titles
    and command lines; ``notes`` say what they do not do.
    """

    opset: int
    ir_version: int
    nodes: int
    bytes: int
    rewritten: int
    products: tuple[ExportedProduct, ...]
    commands: tuple[tuple[str, str], ...]
    config: str = ""
    notes: tuple[str, ...] = ()
    check: CompilerCheck

    @property
    def quantized(self) -> int:
        """How many products are predicted to become int8."""
        return sum(product.quantized for product in self.products)
