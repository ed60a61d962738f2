"""What to train with on a machine."""

from __future__ import annotations

import pytest

from rl_impls.procgen import advice
from rl_impls.procgen.__main__ import main
from rl_impls.procgen.agent import Config


@pytest.mark.parametrize(
    ("cores", "words", "wanted"),
    [
        (1, (), {"threads": 1, "form": "full", "actors": 0, "envs": 32}),
        (7, ("avx512f",), {"threads": 7, "form": "full", "actors": 0, "envs": 32}),
        (8, ("avx512_bf16",), {"threads": 8, "form": "bfloat16", "actors": 2, "envs": 32}),
        (28, ("amx_bf16",), {"threads": 28, "form": "bfloat16", "actors": 7, "envs": 112}),
    ],
)
def test_options_are_for_the_processor(cores, words, wanted):
    assert advice.options(cores, frozenset(words)) == wanted | {"batch": 1024}


@pytest.mark.parametrize("cores", range(1, 129))
def test_options_make_a_configuration(cores):
    found = advice.options(cores, frozenset())
    del found["threads"]
    assert Config(**found).frames % found["batch"] == 0


def test_they_are_printed_as_on_a_command_line(monkeypatch, capsys):
    monkeypatch.setattr(advice.os, "sched_getaffinity", lambda process: set(range(28)))
    monkeypatch.setattr(advice, "flags", lambda: {"amx_bf16"})
    main(["advise"])
    assert capsys.readouterr().out == ("28 cores: --threads 28 --form bfloat16 --actors 7 --envs 112 --batch 1024\n")


def test_where_the_processor_is_not_described_nothing_is_known_of_it(monkeypatch, tmp_path):
    monkeypatch.setattr(advice, "Path", lambda name: tmp_path / "nowhere")
    assert advice.flags() == frozenset()
    (tmp_path / "nowhere").write_text("model name: it\nflags\t\t: fpu amx_bf16\nflags: other\n")
    assert advice.flags() == {"fpu", "amx_bf16"}
