"""What ``python -m perf_tests.claims`` writes: claims of others about speed, and what was measured of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from perf_tests.claims.catalogue import by_name, workloads
from perf_tests.claims.ledger import FORMAT, VERSION

from .runs import BadInput, first, parse

WANTED = "what python -m perf_tests.claims writes"
Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Context(BaseModel):
    """One comparison that a claim was judged by.

    Attributes:
        context: what else was on, as ``alone``.
        base: what is compared with.
        change: what is said to be faster.
        ratio: seconds of base over seconds of change; None where it was not measured.
        low, high: its interval.
        n: number of pairs.
        verdict: in a word.
        same_holds: whether both sides compute the same, as far as the claim wants that.
    """

    context: str
    base: str
    change: str
    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None
    n: Annotated[int, Field(ge=0)] = 0
    verdict: str
    same_holds: bool | None = None


class Figure(BaseModel):
    """A figure that was stated, and the same of this machine."""

    what: str
    ours: float | None = None
    unit: str = ""
    theirs: str = ""


class Claim(BaseModel):
    """A claim, in words and as the least ratio that was promised, None where nothing is judged."""

    id: str
    workload: str
    words: str
    source: str = ""
    promised: str = ""
    least: Ratio | None = None
    same: str | None = None
    note: str = ""
    contexts: list[Context] = []
    figures: list[Figure] = []


class Claims(BaseModel):
    """All claims, and where and when they were measured."""

    commit: str
    dirty: bool = False
    date: str
    machine: dict[str, Any] = {}
    threads: int | None = None
    claims: list[Claim]


def read(path: Path) -> Claims:
    """Return the claims of a file.

    Args:
        path: of the file.

    Raises:
        BadInput: it is something else, of a newer version, or one of its claims is about a case that does not exist.
    """
    found = parse(path, WANTED)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadInput(f"{path}: wanted {WANTED}, with the format {FORMAT!r}")
    version = found.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise BadInput(f"{path}: its version is {version!r}, wanted {VERSION} or older")
    try:
        claims = Claims.model_validate(found)
    except ValidationError as error:
        raise BadInput(f"{path}: wanted {WANTED}: {first(error)}") from error
    for claim in claims.claims:
        if claim.workload not in workloads():
            raise BadInput(f"{path}: claim {claim.id}: there is no workload {claim.workload!r}")
        for context in claim.contexts if version == VERSION else ():  # older ones have other names
            gone = [test for test in (context.base, context.change) if test not in by_name(claim.workload)]
            if gone:
                raise BadInput(f"{path}: claim {claim.id}: there is no benchmark {gone[0]}")
    return claims
