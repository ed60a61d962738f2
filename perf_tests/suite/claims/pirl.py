"""What was published of the physics-informed Q-agent: what a Neuron device, batches and gradients cost or bring."""

from __future__ import annotations

from ..claim import Claim, Comparison, Figure, Side, between

SOURCE = "pirl-neuron.md"
SPEEDUPS = {1: 0.35, 32: 0.66, 128: 0.91, 512: 1.37, 1024: 1.71, 2048: 1.87}  # by batch, Neuron over CPU
RATES = {  # samples a second by batch: CPU, Neuron, Neuron sustained
    1: ("18K", "6K", None),
    32: ("316K", "210K", None),
    128: ("917K", "836K", None),
    512: ("2.3M", "3.2M", "2.6M"),
    1024: ("3.6M", "6.1M", "4.3M"),
    2048: ("5.8M", "10.8M", "6.5M"),
}
ACCELERATED = ("torch-trace", "torch-compile", "onnx", "jax", "neuron")


def forward(batch: int, backend: str = "torch", form: str = "full") -> str:
    """Return the id of a forward pass, NumPy arrays in and out.

    Args:
        batch: rows.
        backend: its name.
        form: its name.
    """
    return f"pirl.forward[{form}-{backend}-batch{batch}-iohost-hidden32]"


def on_neuron(batch: int, promised: float) -> Claim:
    """Return the claim about a Neuron device at one batch size.

    Args:
        batch: rows.
        promised: times as fast as the CPU.
    """
    return Claim(
        f"pirl-neuron-b{batch}",
        f"a traced net on a Neuron device answers batches of {batch} {promised} times as fast as the CPU",
        f"{SOURCE}, actual performance results on Neuron hardware",
        f"{promised} x",
        promised,
        {"from full": between(forward(batch), forward(batch, "neuron"))},
    )


def precision(backend: str) -> Claim:
    """Return the claim about the answers of a compiled net.

    Args:
        backend: that computes it.
    """
    reference = Side(forward(2048))
    return Claim(
        f"pirl-precision-{backend}",
        f"{backend} answers as eager torch does, within 1e-7",
        f"{SOURCE}, key findings",
        "difference below 1e-7",
        1.0,
        {"from full": Comparison(reference, Side(forward(2048, backend)), "difference")},
        note="The ratio is 1e-7 over the largest difference of a batch of 2,048; the source says it of Neuron alone. "
        "Values are near 1, where float32 has steps of 6e-8 to 1.2e-7.",
    )


def rates() -> list[Figure]:
    """Return the throughput by batch size."""
    found = []
    for batch, (cpu, neuron, sustained) in RATES.items():
        found.append(Figure(f"batch {batch}, CPU", Side(forward(batch)), f"{cpu} samples/s"))
        found.append(Figure(f"batch {batch}, Neuron", Side(forward(batch, "neuron")), f"{neuron} samples/s"))
        if sustained:
            for backend, theirs in (("torch", "not stated"), ("neuron", f"{sustained} samples/s")):
                side = Side(f"pirl.sustained[full-{backend}-batch{batch}]")
                found.append(Figure(f"batch {batch}, {backend}, sustained", side, theirs))
    return found


GRADIENT = "pirl.pde_loss[{}-torch-order1]"

CLAIMS = (
    *(on_neuron(batch, promised) for batch, promised in SPEEDUPS.items()),
    Claim(
        "pirl-batching",
        "batches of 32 bring three times the throughput of single rows",
        f"{SOURCE}, immediate actions",
        "more than 3 x",
        3.0,
        {
            "alone": between(forward(1, form="naive"), forward(32, form="naive")),
            "from full": between(forward(1), forward(32)),
        },
    ),
    *(precision(backend) for backend in ACCELERATED),
    Claim(
        "pirl-grad-dominates",
        "differentiating the PDE's loss takes 112 times as long as a forward pass of 32 rows",
        f"{SOURCE}, computational intensity analysis",
        "112 x (10.74 ms over 0.096 ms)",
        112.0,
        {
            "alone": Comparison(Side(GRADIENT.format("naive"), work=1), Side(forward(32, form="naive"), work=1)),
            "from full": Comparison(Side(GRADIENT.format("full"), work=1), Side(forward(32), work=1)),
        },
        figures=[Figure("gradient, naive", Side(GRADIENT.format("naive")), "10.740 ms, elsewhere 1.455 ms", "seconds")],
        note="Two parts of the source state the gradient's time, and differ by seven times.",
    ),
    Claim(
        "pirl-latency-forward",
        "of an update the gradient costs most and the forward pass less",
        f"{SOURCE}, computational intensity analysis",
        "gradient, then forward",
        1.02,
        {
            "alone": Comparison(Side(GRADIENT.format("naive"), work=1), Side(forward(32, form="naive"), work=1)),
            "from full": Comparison(Side(GRADIENT.format("full"), work=1), Side(forward(32), work=1)),
        },
        figures=[Figure("forward pass", Side(forward(32)), "0.087 ms", "seconds")],
    ),
    Claim(
        "pirl-latency-b1",
        "a forward pass of one row takes 0.052 ms",
        f"{SOURCE}, performance baseline",
        "0.052 ms",
        figures=[Figure("forward pass of one row", Side(forward(1)), "0.052 ms", "seconds")],
    ),
    Claim(
        "pirl-throughput-b32",
        "the CPU answers 333,000 rows a second in batches of 32",
        f"{SOURCE}, performance baseline",
        "333K samples/s",
        figures=[Figure("batches of 32", Side(forward(32)), "333K samples/s")],
    ),
    Claim(
        "pirl-throughput-peak",
        "in batches of 2,048 the CPU answers 5.8 million rows a second, a Neuron device 10.8, or 6.5 sustained",
        f"{SOURCE}, actual performance results on Neuron hardware",
        "5.8M, 10.8M and 6.5M samples/s",
        figures=[
            Figure("CPU", Side(forward(2048)), "5.8M samples/s"),
            Figure("Neuron", Side(forward(2048, "neuron")), "10.8M samples/s"),
            Figure("Neuron, sustained", Side("pirl.sustained[full-neuron-batch2048]"), "6.5M samples/s"),
        ],
    ),
    Claim(
        "pirl-throughput-table",
        "throughput of both by batch size",
        f"{SOURCE}, actual performance results on Neuron hardware",
        "18K to 5.8M and 6K to 10.8M samples/s",
        figures=rates(),
    ),
)
