"""Configurations as YAML: every value of its type, every mistake with its line."""

from __future__ import annotations

import pytest

from rl_impls.common.config_file import NOTHING, Chosen, read

TYPES = {"game": str, "envs": int, "rate": float, "layers": tuple[int, ...]}


def reading(tmp_path, text):
    path = tmp_path / "it.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(path, TYPES)


def test_values_are_of_their_types_and_lines_are_known(tmp_path):
    found = reading(tmp_path, "# words\ngame: coinrun\n\nenvs: 4\nrate: 1\nlayers: [3, 4]\n")
    assert found.values == {"game": "coinrun", "envs": 4, "rate": 1.0, "layers": (3, 4)}
    assert type(found.values["rate"]) is float
    assert found.lines == {"game": 2, "envs": 4, "rate": 5, "layers": 6}


@pytest.mark.parametrize("text", ["5e-4", "5.0e-4", "0.0005", "+5E-4", ".5e-3"])
def test_a_number_may_be_written_as_python_writes_it(tmp_path, text):
    assert reading(tmp_path, f"rate: {text}\n").values == {"rate": 5e-4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("game: coinrun\nenvs: many\n", "line 2: envs: got 'many', wanted an integer"),
        ("envs: 4.0\n", "line 1: envs: got 4.0, wanted an integer"),
        ("envs: true\n", "line 1: envs: got True, wanted an integer"),
        ("\nrate: true\n", "line 2: rate: got True, wanted a number"),
        ("rate: e-4\n", "line 1: rate: got 'e-4', wanted a number"),
        ("game: 4\n", "line 1: game: got 4, wanted a word"),
        ("game:\n", "line 1: game: got None, wanted a word"),
        ("layers: 4\n", "line 1: layers: got 4, wanted a list of integers"),
        ("layers: [4, x]\n", "line 1: layers: got [4, 'x'], wanted a list of integers"),
        ("game: a\nenvs: 1\ngame: b\n", "line 3: got game again, it stands on line 1 already"),
        ("game: a\nbatsch: 7\n", "line 2: got the unknown name 'batsch'; known: game, envs, rate, layers"),
        ("game: a\n? [1, 2]\n: 3\n", "line 2: got the unknown name ["),
        ("- game\n", "line 1: got no names with values, wanted lines like 'game: coinrun'"),
        ("", "line 1: got no names with values"),
        ("game: a\nenvs: [1\n", "line 3: got no YAML"),
        ("game: !!python/object:os.system x\n", "line 1: could not determine a constructor"),
        (b"\xff\xfe\xff", "got no YAML"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path, text, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the message is compared below)
        reading(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "it.yaml"))
    assert message in str(caught.value)


def test_an_error_about_a_value_gets_its_line():
    chosen = Chosen("it.yaml", {"envs": 0}, {"envs": 3})
    assert str(chosen.located(ValueError("envs: got 0, wanted 1 or more"))) == (
        "it.yaml, line 3: envs: got 0, wanted 1 or more"
    )
    other = ValueError("rate: got 0, wanted more")
    assert chosen.located(other) is other
    assert NOTHING.located(other) is other
