"""Corrections of the cycles that Vela estimates: what it counts wrong, and what is counted instead.

The estimate alone is corrected; the schedule and every byte of the program are Vela's.
``engine/ethos_u/corrected_cycles`` computes them.
"""

from __future__ import annotations

from dataclasses import dataclass

# Ids of the rows, as in results and JSON.
NO_ACTIVATION, POOLING, WEIGHTS_LOADED = "no_activation", "pooling", "weights_loaded"
TRANSPOSED_READS = "transposed_reads"


@dataclass(frozen=True)
class CycleCorrection:
    """One fault of Vela's estimate.

    ``fault`` is what Vela counts and ``instead`` what is counted here; ``source`` is where the
    fault can be read and where the right figure comes from; ``example`` is a measured pair.
    """

    id: str
    title: str
    fault: str
    instead: str
    source: str
    example: str


CYCLE_CORRECTIONS: tuple[CycleCorrection, ...] = (
    CycleCorrection(
        NO_ACTIVATION,
        "Output without activation",
        "On U55 and U65 an operation without fused activation is charged as one with a table "
        "look-up: a cycle for each output element (half a cycle on U65-512). Programs from TOSA "
        "have few fused activations, so that nearly every convolution, sum and pool pays.",
        "The cycles per output element of the operation alone.",
        "Vela 5.1.0, regor/architecture/ethosu55/ethos_u55_performance.cpp, "
        "EstimateAOCyclesPerElement; mended by Arm after this release (MLBEDSW-11756).",
        "MobileNetV2 for U55-128 in SRAM: 8.2 million cycles as Vela says, 5.9 corrected; an FVP "
        "counts 5.5 (pytorch/executorch, pull request 9830).",
    ),
    CycleCorrection(
        POOLING,
        "Pooling of 8 and 16 bits",
        "Except on U55-32, pooling is charged half a cycle per bit of the input instead of an "
        "eighth: four times too much. On U85 so are maxima over dimensions, copies and transposes.",
        "The steps of the kernel for 8 bits, twice as many for 16.",
        "Vela 5.1.0, regor/architecture/ethosu55/ethos_u55_performance.cpp, "
        "EstimateMacCyclesPerBlock, against vela/npu_performance.py of the same release; the "
        "estimate for U85 has the same factor.",
        "An average over 25 x 5 pixels of 64 channels, RA8P1: 5,629 cycles as Vela says, 2,197 corrected.",
    ),
    CycleCorrection(
        WEIGHTS_LOADED,
        "Weights that are loaded already",
        "Where Vela writes one operation in parts, such as a convolution with a stride above "
        "three, every part is charged the transfer of the weights into SRAM.",
        "The transfer is counted for the parts before which the command stream has one.",
        "Vela 5.1.0, regor/compiler/network_performance.cpp, EstimateFullOpPerformance; the "
        "command stream of the same program.",
        "The patch convolution of DeiT-Tiny for U85-256 is charged 196 transfers and has one.",
    ),
    CycleCorrection(
        TRANSPOSED_READS,
        "Transposed input read once",
        "On U85 every block of the output of a transpose is charged a read of the input over its "
        "whole depth, although it takes its own part: a tensor with few columns and much depth "
        "is read hundreds of times.",
        "One read of the input, with the overhead of bursts that Vela states.",
        "Vela 5.1.0, regor/architecture/ethosu85/ethos_u85_performance.cpp, MeasureElementAccess.",
        "A transpose of 14 x 9408 bytes in MobileNetV3-Large for U85-256 is charged 77 MB of reads "
        "and 2.4 million cycles; it takes 75,389.",
    ),
)
CYCLE_CORRECTIONS_BY_ID = {row.id: row for row in CYCLE_CORRECTIONS}
