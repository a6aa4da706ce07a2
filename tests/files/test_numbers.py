"""Numbers have as many decimals as the design says, and the text of an output is a function of it alone."""

import math
import re
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.tables import columns as arrow
from understudy.tables import columns as numbers
from understudy.tables.columns import MARK_IN_NUMBER, ArrowColumn, NumberFormat, Values, numbers_of

WHOLE = st.integers(-99_999, 99_999)


@given(st.lists(WHOLE, min_size=1), st.integers(0, 6))
def test_numbers_of_so_many_decimals_come_back_letter_by_letter(counts, decimals):
    """What has d decimals is written with d decimals, zeros at the end included, and no zero has a sign."""
    texts = [f"{count / 10**decimals:.{decimals}f}" for count in counts]
    texts = [text if float(text) else text.removeprefix("-") for text in texts]
    assert NumberFormat(decimals).texts(float(text) for text in texts) == texts


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_the_text_is_the_nearest_of_its_form(value, decimals):
    """A text is within half a last decimal of its number, an oracle by decimals; its form is that of all others."""
    form = NumberFormat(decimals)
    (text,) = form.texts([value])
    near = Decimal(value).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN)
    assert Decimal(text) == near
    assert re.fullmatch(r"-?[0-9]+" + (rf"\.[0-9]{{{decimals}}}" if decimals else ""), text)
    assert not text.startswith("-") or float(text) < 0.0
    assert form.whole == ("." not in text)
    # a product that is rounded may tip a tie, and nothing more
    assert abs(float(text) - form.round(np.array([value]))[0]) <= 1.0000001 * 10.0**-decimals


@given(
    st.lists(st.integers(-(2**40), 2**40), min_size=1), st.sampled_from([(2.0**-11, 4), (0.01, 2), (0.5, 1), (1.0, 0)])
)
def test_numbers_on_a_lattice_are_what_their_texts_say(counts, lattice):
    """Outputs of a typed column and of a text are the same number, ties included; missing ones stay missing."""
    step, decimals = lattice
    values, form = np.array(counts) * step, NumberFormat(decimals)
    np.testing.assert_array_equal(form.round(values), [float(text) for text in form.texts(values)])
    np.testing.assert_array_equal(form.round(np.array([np.nan, 1e300])), [np.nan, 1e300])


def test_noise_of_the_arithmetic_is_left_out():
    """The texts of which a user complained; repr has the noise."""
    noisy = [432.90000000000003, -1e-15]
    assert NumberFormat(3).texts(noisy) == ["432.900", "0.000"]
    assert NumberFormat(0).texts([432.5, 433.5, -0.2]) == ["432", "434", "0"]
    assert repr(noisy[0]) == "432.90000000000003"


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
    plain, faults = Values(texts).numbers()
    pa = arrow.require_pyarrow("this test")
    quick, quick_faults = ArrowColumn(pa.array(texts, pa.string())).numbers()
    assert faults == quick_faults
    np.testing.assert_array_equal(plain, quick)


def test_what_is_a_number():
    """Python's underscores, hexadecimal numbers and commas are none; infinities are told apart."""
    found, faults = numbers_of(["1.5", "1_0", "0x1", "1,5", "-inf", "1e400", "NULL", ".5", "5."])
    assert faults == {
        1: "is not a number",
        2: "is not a number",
        3: MARK_IN_NUMBER,
        4: "is infinite",
        5: "is infinite",
    }
    assert found[[0, 7, 8]].tolist() == [1.5, 0.5, 5.0]
    assert math.isnan(found[6])
    assert numbers.no_infinities(np.array([1.0, np.inf]), {})[1] == {1: "is infinite"}


@settings(deadline=None)
@given(st.lists(st.decimals(-9999, 9999, places=4), min_size=1))
def test_decimals_of_a_typed_column_are_those_of_their_texts(given_numbers):
    """The nearest double, as for a text; a product with a power of ten is one ulp off now and then."""
    pa = arrow.require_pyarrow("this test")
    found, faults = ArrowColumn(pa.array(given_numbers, pa.decimal128(9, 4))).numbers()
    assert found.tolist() == [float(str(number)) for number in given_numbers]
    assert faults == {}
