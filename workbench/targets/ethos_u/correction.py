"""One correction of a fault of the tools: what it is made of, and the ids of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

# Which stage a correction changes, as the facets of the target: "quantizer" or "compile".
Facet = Literal["quantizer", "compile"]

# When its function runs. module: on the float program's module. rewrites: on its graph, before
# ExecuTorch takes operators apart. patches: a context manager, while it does. refinements: on the
# annotated graph. lowering: a context manager, while the quantized program is lowered. compiling: a
# context manager, while Vela compiles; it is entered before those that watch Vela.
Step = Literal["module", "rewrites", "patches", "refinements", "lowering", "compiling"]
GROUP = "Corrections"
# The code of a problem that a correction would prevent, which is switched off.
SWITCHED_OFF = "correction-switched-off"


@dataclass(frozen=True)
class Correction:
    """One defect of the tools, and what is done instead.

    Attributes:
        id: The name of the option that switches it.
        title: What it does, in a few words.
        fault: What is wrong with the stock tools.
        link: Where the defect is reported; "" where it is not.
        proven: Versions it was proven with, by package.
        network: The smallest network that shows the defect.
        instead: What is done instead.
        why_right: Why the corrected program computes what the quantized model does.
        step: When its function runs.
        function: The name of its function in ``workbench.engine.toolchain_patches``.
    """

    id: str
    title: str
    fault: str
    link: str
    proven: Mapping[str, str]
    network: str
    instead: str
    why_right: str
    step: Step
    function: str

    @property
    def facet(self) -> Facet:
        """Which stage it changes."""
        return "compile" if self.step in {"lowering", "compiling"} else "quantizer"


CLAMPS, FACTORS, TABLES = "keep_relu_clamps", "fine_factors", "fine_tables"
STEPS, ROUNDED, RELEASED = "fine_steps", "rounded_convolutions", "release_passthrough"
QUANTIZED, MOVED = "quantized_where_computed", "layouts_moved_to_values"
TRANSPOSED, SUMS = "zeros_for_transposed", "sums_in_8_bits"
CONSTANTS, OWN_WEIGHTS, MASKS = "folded_constants", "own_weights", "bounded_masks"
MINIMA, ONES, ONE_TABLE = "minima_from_maxima", "drop_reductions_of_one", "one_table_in_chain"
OUTPUTS, REARRANGED, SLICES = "outputs_kept", "constants_rearranged", "slices_computed"
TURNED, LAYOUTS = "clamps_before_transposes", "activations_before_layouts"
JOINED, FLIPPED = "joined_computed", "flips_of_copies"
RESCALED, POOLS, ROWS = "rescales_joined", "padded_pools", "clamps_over_rows"
NEGATED, PIXELS = "negations_rescaled", "repeated_pixels"
CELLS, LINEARS, SCALARS = "written_out_cells", "linears_from_addmm", "scalars_beside_parameters"
PLAIN, NORMS = "plain_operators", "foldable_norms"
COMPUTED, ZEROS = "computed_weights_on_cpu", "pool_zero_points"
SIZES, RESHAPED, ONE_TYPE = "static_sizes", "views_reshaped", "written_in_one_type"
SINGLE = "loops_of_single_numbers"
EXECUTORCH, VELA = {"executorch": "1.5.1"}, {"ethos-u-vela": "5.1.0"}
