"""Suggested options for a machine."""

from __future__ import annotations

import pytest

from rl_impls.procgen import advice
from rl_impls.procgen.__main__ import main
from rl_impls.procgen.agent import Config


@pytest.mark.parametrize(
    ("cores", "words", "wanted"),
    [
        (7, ("avx512f",), {"threads": 7, "form": "full", "actors": 0, "num_envs": 32}),
        (8, ("avx512_bf16",), {"threads": 8, "form": "bfloat16", "actors": 2, "num_envs": 32}),
        (28, ("amx_bf16",), {"threads": 28, "form": "bfloat16", "actors": 7, "num_envs": 112}),
    ],
)
def test_options_suit_the_processor(cores, words, wanted):
    assert advice.options(cores, frozenset(words)) == wanted | {"batch_size": 1024}


def test_options_are_a_valid_configuration_on_any_number_of_cores():
    for cores in range(1, 129):
        found = advice.options(cores, frozenset())
        del found["threads"]
        assert Config(**found).num_envs == found["num_envs"]


def test_advise_prints_the_options_of_a_command_line(monkeypatch, capsys):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(28)))
    monkeypatch.setattr(
        "pathlib.Path.read_text", lambda path: "model name: it\nflags\t\t: fpu amx_bf16\nflags: other\n"
    )
    main(["advise"])
    words = "--threads 28 --form bfloat16 --actors 7 --num-envs 112 --batch-size 1024"
    assert capsys.readouterr().out == f"28 cores: {words}\n"
