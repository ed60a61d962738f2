"""Commands in a locale whose encoding is not UTF-8."""

from correctness_tests.repositories.made import Repository
from rlgauge.artifact import Artifact
from rlgauge.rule import Record, Rule

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_settings_are_read_as_utf_8(tmp_path):
    toy = Repository(tmp_path / "toy", {"pyproject.toml": "# größer\n[tool.rlgauge]\n"})
    code, text = toy.run("rlgauge", "gate", "-k", "kept", **ASCII)
    words = 'give one, for example main, or set against = "main" in [tool.rlgauge]'
    assert (code, text) == (2, f"rlgauge gate: no revision is given; {words}\n")


def test_verdicts_are_printed_with_escapes_for_other_letters(tmp_path):
    machine = {"cpu_model": "abacus"}
    records = {"test_größer": Record(state="gone")}
    artifact = Artifact(base="b", head="h", seed=0, seconds=9.0, machine=machine, rule=Rule(), records=records)
    toy = Repository(tmp_path / "toy", {"gate.json": artifact.to_json()})
    code, text = toy.run("rlgauge", "replay", "gate.json", **ASCII)
    assert (code, "Traceback" in text) == (1, False)
    assert "`test_gr\\xf6\\xdfer` | gone" in text
