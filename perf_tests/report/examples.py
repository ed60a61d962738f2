"""Put the output of ``rlgauge demo`` and ``make quick`` into the README: ``python -m perf_tests.report.examples``."""

from __future__ import annotations

import subprocess
import sys

from rlgauge.files import write_all

from .readme import README, ROOT, insert

DEMO = "<!-- demo: generated -->", "<!-- end of demo -->"
QUICK = "<!-- quick: generated -->", "<!-- end of quick -->"


def output_of(*command: str) -> list[str]:
    """Run a command in this repository; return the lines of its output, and raise CalledProcessError if it fails."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def fenced(lines: list[str]) -> str:
    """Return lines as a block of text in Markdown."""
    return "\n".join(["```text", *lines, "```"])


def gate_lines(demo: list[str]) -> list[str]:
    """Return what the gate prints in the demo, without pytest's own lines and the line per pair."""
    title = next(n for n, line in enumerate(demo) if line.startswith("=") and line.strip("=") == " gate ")
    end = next(n for n, line in enumerate(demo) if "; all measurements: " in line)
    skipped = "gate: screen", "gate: confirm"
    start = [line for line in demo[:title] if line.startswith("gate: ") and not line.startswith(skipped)]
    return [*start, *demo[title + 1 : end + 1]]


def table_lines(quick: list[str]) -> list[str]:
    """Return the rows of the smallest and of a larger batch in the table of a plain run."""
    start = next(n for n, line in enumerate(quick) if line.lstrip().startswith("form "))
    end = next(n for n, line in enumerate(quick) if line.startswith("pirl.forward batch_size 128"))
    return quick[start : end - 1]


def main() -> int:
    """Run both commands and write the README."""
    demo = fenced(gate_lines(output_of(sys.executable, "-m", "rlgauge", "demo")))
    quick = fenced(table_lines(output_of("make", "--silent", "quick")))
    text = insert(insert(README.read_text(), *DEMO, demo), *QUICK, quick)
    write_all({README: text.encode()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
