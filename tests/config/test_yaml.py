"""YAML as Headway reads and merges it."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config.yaml import merge, read_yaml, write_yaml
from headway.errors import DeclarationError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000),
        ("1E-3", 0.001),
        ("50_000_000", 50_000_000),
        ("0x1F", 31),
        ("0o17", 15),
        ("012", 12),
        ("+1", 1),
        ("0X1F", "0X1F"),
        ("0b11", "0b11"),
        ("1:30", "1:30"),
        ("-.INF", -math.inf),
        ("inf", "inf"),
        ("tRUE", "tRUE"),
        ("NULL", None),
        ("off", "off"),
        ("2024-11-01", "2024-11-01"),
        ("yes", "yes"),
        ("true", True),
        ("~", None),
        ("1/d_x", "1/d_x"),
        (".5", 0.5),
        ("'7'", "7"),
        ("3-6-12-24", "3-6-12-24"),
    ],
)
def test_scalars_follow_yaml_1_2(text, value):
    got = read_yaml(text)
    assert got == value
    assert type(got) is type(value)
    assert read_yaml(write_yaml({"value": got})) == {"value": value}
    assert read_yaml(write_yaml({"text": text})) == {"text": text}


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_what_is_no_number_is_read_and_written_back(text):
    (value,) = read_yaml(write_yaml({"value": read_yaml(text)})).values()
    assert math.isnan(value)


def test_json_is_read_as_json():
    text = r'{"a": 1.5e3, "b": [true, null, "x\/y", "\u00e9"], "c": -1E5, "d": "0x1F"}'
    assert read_yaml(text) == json.loads(text)


def test_a_key_that_stands_twice_is_an_error_with_its_line():
    with pytest.raises(DeclarationError, match=r"mine.yaml: line 3: 'steps' appears twice \(first in line 1\)"):
        read_yaml("steps: 1\nrate: 2\nsteps: 3\n", "mine.yaml")


def test_a_value_that_contains_itself_is_an_error():
    with pytest.raises(DeclarationError, match="contains itself"):
        read_yaml("a: &x [*x]")


def test_a_syntax_error_names_its_line():
    with pytest.raises(DeclarationError, match=r"mine.yaml: line 3: this is not YAML"):
        read_yaml("a: 1\nb: [1, 2\nc: 3", "mine.yaml")


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("abe1.-_: 3x0o"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=12,
)


@given(plain)
def test_what_is_written_reads_back_the_same(value):
    assert read_yaml(write_yaml(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-323, 308).map(lambda n: float(f"1e{n}")))
def test_a_float_is_written_and_read_back_as_that_float(value):
    (read,) = read_yaml(write_yaml({"rate": value})).values()
    assert type(read) is float
    assert read.hex() == value.hex()


def test_lists_are_replaced_and_mappings_merged():
    base = {"a": {"x": [1, 2], "y": 1}, "b": 1}
    assert merge(base, {"a": {"x": [3]}}) == {"a": {"x": [3], "y": 1}, "b": 1}
    assert base == {"a": {"x": [1, 2], "y": 1}, "b": 1}


@pytest.mark.parametrize("chooser", ["kind", "family", "optimizer"])
def test_a_mapping_that_changes_what_it_is_is_replaced_whole(chooser):
    base = {"part": {chooser: "one", "size": 1}}
    assert merge(base, {"part": {chooser: "two"}}) == {"part": {chooser: "two"}}
    assert merge(base, {"part": {chooser: "one", "more": 2}}) == {"part": {chooser: "one", "size": 1, "more": 2}}
    assert merge(base, {"part": {"more": 2}}) == {"part": {chooser: "one", "size": 1, "more": 2}}


@pytest.mark.parametrize("text", ["a:\n\tb: 1\n", "a:\n  b: 1\n\tc: 2\n", "\ta: 1"])
def test_a_tab_before_a_key_is_named(text):
    with pytest.raises(DeclarationError, match="a tab; indent with spaces"):
        read_yaml(text)


@pytest.mark.parametrize("text", ["a: [1,\t2\n", "a: b\tc: d\n", "x: 1\nb: 'open\tquote\n"])
def test_a_tab_within_a_line_is_not_blamed_for_another_mistake(text):
    with pytest.raises(DeclarationError, match="this is not YAML: ") as raised:
        read_yaml(text)
    assert "tab" not in str(raised.value)
