"""Seeds of the global random generators."""

from __future__ import annotations

import random
import secrets
import sys

from rlgauge import worker


def seed_all() -> None:
    """Seed the global random generators, so that every test has the same inputs on both sides.

    This includes NumPy's generators without a seed, even if NumPy is imported later. Gymnasium's environments use one
    unless ``reset`` gets a seed.
    """
    random.seed(worker.SEED)
    # where NumPy gets its entropy, if it is imported after this
    secrets.randbits = random.Random(worker.SEED).getrandbits  # type: ignore[assignment]
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(worker.SEED)
    if bit_generator := sys.modules.get("numpy.random.bit_generator"):  # where such a generator gets its entropy
        bit_generator.randbits = random.Random(worker.SEED).getrandbits  # type: ignore[attr-defined]
    if torch := sys.modules.get("torch"):
        torch.manual_seed(worker.SEED)
    if seed_faker := getattr(getattr(sys.modules.get("faker"), "Faker", None), "seed", None):
        seed_faker(worker.SEED)


def seed_of(text: str) -> int:
    """Return the number that ``--randomly-seed`` gives; like pytest-randomly's, it is always a number."""
    return int(text) if text.isdecimal() else worker.SEED
