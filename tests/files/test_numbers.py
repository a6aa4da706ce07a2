"""Numbers keep the form of their column, and the form tells nothing about a single reading."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.files import arrow, numbers
from understudy.files.arrow_columns import ArrowColumn
from understudy.files.columns import Texts
from understudy.files.numbers import NumberFormat, learned, parsed

WHOLE = st.integers(-99_999, 99_999)


@given(st.lists(WHOLE, min_size=1), st.integers(0, 6))
def test_fixed_decimals_come_back_as_they_were(counts, decimals):
    """A column written to d decimals is written to d decimals: every text comes back letter by letter."""
    texts = [f"{count / 10**decimals:.{decimals}f}" for count in counts]
    texts = [text if float(text) else text.removeprefix("-") for text in texts]
    form = learned(texts)
    assert form == NumberFormat(decimals, decimals)
    assert form.texts(float(text) for text in texts) == texts


@given(st.lists(WHOLE, min_size=1), st.integers(0, 6))
def test_trimmed_zeros_come_back_trimmed(counts, decimals):
    """Where zeros at the end are left out, they are left out again; and "7.0" beside "7.25" keeps one decimal."""
    plain = [f"{count / 10**decimals:.{decimals}f}" for count in counts]
    short = [text.rstrip("0").rstrip(".") if "." in text else text for text in plain]
    short = ["0" if text == "-0" else text for text in short]
    assert learned(short).texts(map(float, short)) == short
    like_python = [repr(float(text) + 0.0) for text in plain]
    assert learned(like_python).texts(map(float, like_python)) == like_python


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15), min_size=1))
def test_all_digits_come_back(values):
    """Numbers with all their digits are written with all their digits."""
    form = NumberFormat(0, None)
    assert [float(text) for text in form.texts(values)] == values


@given(st.floats(-1e6, 1e6), st.integers(0, 4), st.integers(0, 4))
def test_the_text_is_the_nearest_of_its_form(value, a, b):
    """A text is within half a last decimal of its number, and between least and most decimals long."""
    form = NumberFormat(min(a, b), max(a, b))
    (text,) = form.texts([value])
    assert abs(float(text) - value) <= 0.5000001 * form.step
    assert form.least <= len(text.partition(".")[2]) <= form.most
    assert not text.startswith("-") or float(text) < 0.0
    assert float(text) == pytest.approx(form.rounded(np.array([value]))[0], abs=1.0000001 * form.step)


def test_the_form_does_not_follow_a_single_reading():
    """Outputs of round readings look like those of others: the same output has the same text, whatever came in."""
    form = learned(["431", "431.25", "430.5"])
    assert form.texts([400.0, 400.25]) == ["400", "400.25"]
    assert learned(["431.25", "430.5", "431"]) == form


def test_exponents_and_long_numbers_keep_all_digits():
    """Scientific notation, or 16 digits and more, are numbers with all their digits."""
    for text in ("4.31e2", "431.0000000000001", "0.1234567890123456"):
        assert learned([text, "1.5"]) == NumberFormat(0, None), text


def test_a_column_without_numbers_has_no_form():
    """Nothing is learned from empty fields."""
    assert learned(["", "NA"]) == NumberFormat(0, None)


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["", "NA", "nan", "NaN", "null", "+5", " 7 ", "1_000", "0x10", "inf", "-Infinity", "1e999", "1,5"]),
    st.text(alphabet="0123456789.eE+-n ai", max_size=6),
)


@settings(deadline=None)  # the first call loads pyarrow
@given(st.lists(NUMBERS, max_size=20))
def test_both_readers_take_the_same_texts_for_numbers(texts):
    """Plain Python and pyarrow agree on which texts are numbers, which are missing, and which are wrong."""
    plain, faults = Texts(texts).numbers()
    pa = arrow.needed("this test")
    quick, quick_faults = ArrowColumn(pa.array(texts, pa.string())).numbers()
    assert faults == quick_faults
    np.testing.assert_array_equal(plain, quick)


def test_what_is_a_number():
    """Python's underscores, hexadecimal numbers and commas are none; infinities are told apart."""
    found, faults = parsed(["1.5", "1_0", "0x1", "1,5", "-inf", "1e400", "NULL", ".5", "5."])
    assert faults == {
        1: "is not a number",
        2: "is not a number",
        3: "is not a number",
        4: "is infinite",
        5: "is infinite",
    }
    assert found[[0, 7, 8]].tolist() == [1.5, 0.5, 5.0]
    assert math.isnan(found[6])
    assert numbers.no_infinities(np.array([1.0, np.inf]), {})[1] == {1: "is infinite"}


@given(st.integers(-(10**7), 10**7), st.sampled_from([0.1, 0.3, 1 / 3, 1 / 15, 2.5e-3]), st.sampled_from([None, 12]))
def test_values_on_a_grid_have_no_noise(k, step, most):
    """At most 12 digits, which lie within half a unit of the last of them; an oracle by decimals."""
    value = k * step
    form = NumberFormat(0, most, 12)
    (text,) = form.texts([value])
    exact = Decimal(value)
    last = exact.adjusted() - 11
    near = exact.quantize(Decimal(1).scaleb(last if most is None else max(last, -most))) if k else Decimal(0)
    assert Decimal(text) == near
    np.testing.assert_array_equal(form.rounded(np.array([value, np.nan, value])), [float(text), np.nan, float(text)])


def test_noise_is_left_out():
    """The texts of which a user complained; without the limit they have it."""
    noisy = [432.90000000000003, 428289.8333333333]
    assert NumberFormat(0, None, 12).texts(noisy) == ["432.9", "428289.833333"]
    assert NumberFormat(0, 12, 12).texts(noisy) == ["432.9", "428289.833333"]
    assert NumberFormat(3, 12, 12).texts([432.5, -1e-15]) == ["432.500", "0.000"]
    assert "432.90000000000003" in NumberFormat(0, None).texts(noisy)
