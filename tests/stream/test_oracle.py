"""Any sequence of operations, against a plain oracle."""

import numpy as np
import pytest
import stream_worker as worker
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_helpers import played, released_as

import understudy as us
from understudy.stream import inspection

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(1, 6)),
        st.tuples(st.just("apply"), st.integers(1, 60)),
        st.tuples(st.just("missing"), st.integers(1, 3)),
        st.tuples(st.just("again"), st.integers(1, 50)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("epoch"), st.sampled_from([0, 1])),
        st.tuples(st.just("theta"), st.sampled_from([0, 1])),
        st.tuples(st.just("becomes"), st.sampled_from([0, 1])),
        st.tuples(st.just("bad"), st.just(0)),
    ),
    max_size=25,
)


@given(operations=OPERATIONS, epoch=st.sampled_from([None, 7]), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_any_sequence_of_operations_agrees_with_a_plain_oracle(design, tmp_path_factory, operations, epoch, seed):
    """The outputs are those of one `disguise` along the paths of both values, whatever came between; charges add up."""
    folder = tmp_path_factory.mktemp("oracle")
    rng = np.random.default_rng(seed)

    def begun():
        return us.Ledger(folder / "a", rollback_guard=folder / "w")

    stream = design.stream(1, begun(), "a", epoch=epoch)
    Y, sources, draws, released = [], [], [], []
    theta = 1

    def note(values, outs):
        for y, out in zip(values, np.atleast_1d(outs), strict=True):
            Y.append(np.nan if y is None else y)
            sources.append(theta)
            released.append(out)
        numbers = range(len(draws), len(Y))
        if epoch is None:
            draws.extend([played(stream)] * len(numbers))
        else:  # by the number of the reading: what each epoch drew is in the ledger
            found = dict(stream._setup.ledger.rows("SELECT epoch, draw FROM epochs"))
            draws.extend(found[ticks[held[k]]] for k in numbers)

    ticks = {}  # the number of the ledger's epoch for each tick of the clock
    held = []  # the tick of each reading; a missing one stays in the tick before
    for name, value in operations:
        if name == "restart":
            stream.close()
            stream = us.Stream.open(begun(), design, "a")
        elif name == "epoch":
            if epoch is None:
                theta = value
                stream.new_epoch(value)
        elif name == "becomes":
            theta = value
            stream.becomes(value)
        elif name == "again":
            if released:
                first = max(0, len(Y) - value)
                outs = stream.apply(rng.normal(size=len(Y) - first), keys=range(first, len(Y)))
                assert np.array_equal(outs, released[first:], equal_nan=True)
        elif name == "bad":
            for call in (
                lambda s: s.apply([100.0, np.inf], keys=[len(Y), len(Y) + 1]),
                lambda s: s.step(100.0, key=len(Y), theta="nobody"),
                lambda s: s.step(100.0, key="x"),
            ):
                with pytest.raises(us.errors.UnderstudyError):
                    call(stream)
        else:
            if name == "theta":
                theta, value = value, 2
            values = [None] * value if name == "missing" else (100.0 + rng.normal(size=value)).tolist()
            keys = range(len(Y), len(Y) + value)
            if epoch is not None:  # epochs are counted from the first reading on
                for key in keys:
                    held.append(held[-1] if name == "missing" and held else key // epoch)
                    ticks.setdefault(held[-1], len(ticks))
            if name == "step":
                outs = [stream.step(y, key=k, theta=theta) for y, k in zip(values, keys, strict=True)]
            else:
                outs = stream.apply(values, keys=keys, theta=theta)
            note(values, outs)
        assert stream.count == len(Y)
    expected_charges = 1 + stream.epoch
    assert stream._setup.ledger.rows("SELECT count(*) FROM charges WHERE kind = 'draw'") == [(expected_charges,)]
    stream.close()
    assert all(f.passed for f in inspection.verify(folder / "a"))
    if Y:
        family = us.Family(worker.room, values=[0, 0.5, 1])
        path = family.along([design.pseudo[c] for c in draws])
        expected = us.disguise(Y, family.along(sources), path)
        assert released_as(released, expected, design.resolution)
