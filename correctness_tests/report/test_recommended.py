"""The recommendation at the top of the report."""

import pytest

from perf_tests.report.html.recommended import advice, section

from .made_up import ours

FEW = "jax or full torch at batch size 32: 64k and 32k samples/s, too few samples to tell which is faster"


def timed(backend="torch", seconds=1e-3, batch=32, **changed):
    """Return the row of a call on a batch; its items are the elements of the batch by default."""
    given = {"axes": {"batch_size": batch}, "items_per_second": batch / seconds} | changed
    return ours(backend=backend, seconds=seconds, **given)["extra_info"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([timed("torch", 1e-3, 1024), timed("jax", 5e-4, 1024), timed("numpy", 4e-3, 1024)],
         "jax at batch size 1,024: 2.05M samples/s, 2.00 to 8.00 times as fast as full torch and full numpy"),
        ([timed("torch", 1e-3), timed("jax", 1.01e-3), timed("numpy", 4e-3)],  # a tie of two
         "torch or full jax at batch size 32: 32k and 31.7k samples/s, no significant difference; full torch is 4.00 "
         "times as fast as full numpy"),
        ([timed("torch", 1e-3, width=0.5), timed("jax", 2e-3, width=0.5)],  # a tie of all
         "torch or full jax at batch size 32: 32k and 16k samples/s, no significant difference"),
        ([timed("torch", 1e-3), timed("jax", 5e-4, samples=5)], FEW),
        ([timed("torch", 1e-3, samples=5), timed("jax", 5e-4)], FEW),
        ([timed(form="naive", seconds=2e-3), timed()],  # forms of the only backend
         "torch at batch size 32: 32k samples/s, 2.00 times as fast as naive torch"),
        ([timed(axes={})], "torch: 32k samples/s, the only one measured"),
        ([timed(), timed("jax", 2e-3), timed(form="half", seconds=1e-4, precision="bfloat16")],  # not compared
         "torch at batch size 32: 32k samples/s, 2.00 times as fast as full jax"),
    ],
)  # fmt: skip
def test_an_order_is_claimed_only_where_intervals_support_it(rows, words):
    assert advice(rows) == f"Use full {words}."


@pytest.mark.parametrize(
    ("rows", "batch"),
    [
        ([timed(batch=32, seconds=1e-3), timed(batch=1024, seconds=16e-3)], "1,024"),
        ([timed(batch=32, seconds=1e-3), timed(batch=1024, seconds=32e-3)], "32"),
        ([timed(batch=32), timed("jax", batch=32), timed(batch=1024)], "32"),
        ([timed(batch=batch, seconds=1e-5 * batch, items_per_second=1e5 / batch) for batch in (32, 256)], "256"),
    ],
    ids=["highest rate", "smallest of equal rates", "most backends", "largest for updates"],
)
def test_the_recommended_batch_size(rows, batch):
    assert f" at batch size {batch}: " in advice(rows)


def test_the_op_with_most_backends_comes_first():
    rows = [timed(op="act"), timed(op="loss"), timed("jax", op="loss"), timed(op="<act>", workload="snake")]
    html = section(rows)
    assert html.index("pirl.loss") < html.index("Other ops: 1") < html.index("pirl.act")
    assert html.count('<div data-workload="') == 2
    assert "snake.&lt;act&gt;" in html
