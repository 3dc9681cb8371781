import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import BadInput, ResultsError
from labkit.telemetry import counters as columns
from labkit.telemetry.counters import counters, read

HEAD = '"(PDH-CSV 4.0) (UTC)(0)"'


def csv_of(rows, names=None, *, quote='"', end="\n", stamps=None):
    """What `esxtop -b` prints: everything in quotes, one line a moment."""
    names = names or [rf"\\esx1\Physical Cpu({n})\% Util Time" for n in range(len(rows[0]))]
    lines = [",".join([HEAD, *(f'"{name}"' for name in names)])]
    for n, row in enumerate(rows):
        stamp = stamps[n] if stamps else f"11/21/2026 09:{n // 60:02d}:{n % 60:02d}"
        lines.append(",".join([f"{quote}{stamp}{quote}", *(f"{quote}{x}{quote}" for x in row)]))
    return end.join(lines) + end


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "esxtop.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize("quote", ['"', ""], ids=["quoted", "bare"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_every_number_is_the_one_that_python_reads(file, quote, end):
    texts = [
        "0.00", "7", "12.34", "1048576.00", "12345678.90", "123456789012345", "9999999999999.99",
        "0.5", ".5", "5.", "1.234", "1234567890123456", "99999999999999999999", "-3", "-12.34",
        "+4", "1e3", "1.5E-7", "00012.30", "100.00", "0.07",
    ]  # fmt: skip
    found = read(file(csv_of([texts, texts[::-1]], quote=quote, end=end)))
    assert found.values.tolist() == [[float(x) for x in texts], [float(x) for x in texts[::-1]]]
    assert [str(t) for t in found.times] == [f"2026-11-21T09:00:0{n}.000000" for n in (0, 1)]
    assert found.cut == ""


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(
    ["", " ", " 7.5", "-1.50 ", "1e-300", "nan", "0" * 40 + "1.5", " " * 40, " " * 40 + "2"]),
    min_size=1, max_size=40))  # fmt: skip
def test_numbers_of_many_digits_are_read_as_python_reads_them(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("digits") / "file.csv"
    path.write_text(csv_of([texts]))
    expected = [float(text.strip() or "nan") for text in texts]
    assert np.array_equal(read(path).values[0], expected, equal_nan=True)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.text("0123456789.eE+- _n\0x", min_size=1, max_size=12), st.integers(0, 3))
def test_one_odd_field_is_read_or_refused_as_if_it_were_alone(tmp_path_factory, odd, at):
    texts = ["7.0625001143654654"] * 4
    texts[at] = odd
    path = tmp_path_factory.mktemp("odd") / "file.csv"
    path.write_text(csv_of([texts]))
    if columns.NUMBER.fullmatch(odd.encode()) or columns.NO_VALUE.fullmatch(odd.encode()):
        expected = [float(text.strip() or "nan") for text in texts]
        assert np.array_equal(read(path).values[0], expected, equal_nan=True)
    else:
        with pytest.raises(ResultsError, match=f"cannot read line 2, field {at + 2}"):
            read(path)


def wide(rows, columns):
    chosen = random.Random(1)
    return [[f"{chosen.randrange(10**6) / 100:.2f}" for _ in range(columns)] for _ in range(rows)]


def by_hand(monkeypatch):
    def odd(*_):
        raise columns._Odd

    monkeypatch.setattr(columns, "_as_it_lies", odd)


@pytest.fixture(params=["hand", "polars"])
def either_way(request, monkeypatch):
    if request.param == "hand":
        by_hand(monkeypatch)


def test_few_of_many_columns_are_the_same_as_in_all_of_them(file):
    rows = wide(40, 500)
    path = file(csv_of(rows))
    names = counters(path)
    whole, few = read(path), read(path, [names[499], names[0], names[123]])
    assert whole.values.tolist() == [[float(x) for x in row] for row in rows]
    assert few.values.tolist() == whole.values[:, [499, 0, 123]].tolist()
    assert few[names[0]].tolist() == whole[names[0]].tolist()
    assert few.times.tolist() == whole.times.tolist()


@pytest.mark.parametrize("quote", ['"', ""])
def test_few_of_many_columns_are_found_among_empty_ones(file, quote):
    texts = [
        ["7.25" if (row + place) % 50 == 0 else "" for place in range(200)] for row in range(9)
    ]
    path = file(csv_of(texts, quote=quote))
    names = [counters(path)[place] for place in (199, 0, 50, 49, 50)]
    expected = [[float(row[place] or "nan") for place in (199, 0, 50, 49, 50)] for row in texts]
    assert np.array_equal(read(path, names).values, expected, equal_nan=True)


def test_what_follows_the_last_line_end_is_no_row(file, either_way):
    rows = wide(200, 3)
    found = read(file(csv_of(rows) + "\0\0"))
    assert found.values.tolist() == [[float(x) for x in row] for row in rows]
    assert "the last line is not whole" in found.cut


def test_the_first_lines_may_be_longer_than_the_others(file):
    rows = [["1234567890.12"] * 5] * 10 + [["1"] * 5] * 300
    assert read(file(csv_of(rows, stamps=["11/21/2026 09:00:00"] * 310))).values.shape == (310, 5)


def test_what_a_counter_did_not_have_is_not_a_number(file):
    found = read(file(csv_of([["", " ", "nan", "NaN", "1"]])))
    assert np.isnan(found.values[0, :4]).all() and found.values[0, 4] == 1


def test_a_byte_order_mark_and_commas_in_names_are_taken(file):
    name = r"\\esx1\Group Cpu(7:web, second)\% Used"
    path = file(b"\xef\xbb\xbf" + csv_of([["1.50", "2"]], names=[name, "b"]).encode())
    assert counters(path) == (name, "b")
    assert read(path, [name])[name].tolist() == [1.5]


@pytest.mark.parametrize("few", [True, False], ids=["few", "all"])
def test_what_esxtop_puts_before_a_quoted_value_is_no_part_of_it(file, few, either_way):
    rows, names = wide(20, 40), tuple(f"n{n}" for n in range(40))
    text = csv_of(rows, names=names).replace(',"n7"', ',   -"n7"')
    for row in rows:
        text = text.replace(f',"{row[7]}","{row[8]}"', f',    73.1"{row[7]}","{row[8]}"')
    assert text.count('73.1"') == 20 and text.count('   -"') == 1
    path = file(text)
    assert counters(path) == names
    chosen = (7, 8, 6) if few else range(40)
    found = read(path, [f"n{n}" for n in chosen] if few else None)
    assert found.values.tolist() == [[float(row[n]) for n in chosen] for row in rows]


@pytest.mark.parametrize("odd", ['x"1"', '1"2"3"', ' 1"', ' 1"2', '1"2"'])
def test_other_text_before_a_quoted_value_is_refused(file, odd):
    with pytest.raises(ResultsError, match="cannot read line 2, field 3"):
        read(file(csv_of([["1", "@", "2"]]).replace('"@"', odd)))


def test_fractions_of_a_second_are_kept(file):
    stamps = ["11/21/2026 09:28:12.123", "11/21/2026 09:28:13.5"]
    times = read(file(csv_of([["1"], ["2"]], stamps=stamps))).times
    assert [str(t) for t in times] == ["2026-11-21T09:28:12.123000", "2026-11-21T09:28:13.500000"]


@pytest.mark.parametrize("left", [1, 2, 20, 30])
def test_a_last_line_that_was_cut_off_is_left_out_and_said(file, left):
    whole = csv_of([["12.34", "5.67"]] * 3)
    found = read(file(whole[:-left] if left > 1 else whole[:-2]))
    assert found.values.tolist() == [[12.34, 5.67]] * 2
    assert "the last line is not whole" in found.cut


def test_a_last_line_without_a_line_end_is_taken_when_its_quote_proves_it_whole(file):
    whole = csv_of([["12.34", "5.67"]] * 3)
    assert len(read(file(whole[:-1])).values) == 3
    # 5.67 without quotes may have been 5.678.
    assert len(read(file(whole[: -len('5.67"\n')])).values) == 2
    bare = read(file(csv_of([["12.34", "5.67"]] * 3, quote="")[:-1]))
    assert len(bare.values) == 2 and "3 of 3 fields" in bare.cut


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("few", [True, False], ids=["few", "all"])
def test_a_header_that_came_again_is_no_row(file, end, few, either_way):
    rows = [[f"{n}.50", "2"] for n in range(9)]
    header, *lines = csv_of(rows, end=end).split(end)[:-1]
    again = [header, *lines[:3], header, header, *lines[3:8], header, lines[8], header, ""]
    path = file("\ufeff" + end.join(again))
    found = read(path, counters(path)[:1] if few else None)
    assert found.values[:, 0].tolist() == [n + 0.5 for n in range(9)]
    assert [str(t)[17:19] for t in found.times] == [f"0{n}" for n in range(9)]


def test_words_between_rows_are_refused(file, either_way):
    header, *rows = csv_of([["1.50"]] * 4).split("\n")
    with pytest.raises(ResultsError, match=r"line 3 has 1 fields"):
        read(file("\n".join([header, rows[0], "Exiting: please wait...", *rows[1:]])))


def test_another_header_is_refused_with_its_place(file):
    first, second = csv_of([["1.50"]] * 2), csv_of([["1.50"]], names=["b"])
    with pytest.raises(ResultsError, match="line 4, which is neither a row nor the header again"):
        read(file(first + second))


@pytest.mark.parametrize("few", [True, False], ids=["few", "all"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[3].replace(b',"1.00"', b"", 1), "line 4 has 40 fields, the header 41"),
        (lambda lines: lines[3] + b',"9.00"', "line 4 has 42 fields"),
        (lambda lines: lines[3].replace(b'"1.00"', b'"1,00"', 1), "line 4 has 42 fields"),
        (lambda lines: lines[3].replace(b'"1.00"', b'"1\n00"', 1), "line 4 has 2 fields"),
        (lambda lines: b"", "line 4 has 1 fields"),
        (lambda lines: lines[3].replace(b'"1.00"', b'"up"', 1), "line 4, field 2\n  up"),
        (lambda lines: lines[3].replace(b'"1.00"', b'1.00"', 1), "cannot read line 4, field 2"),
        (lambda lines: lines[3].replace(b'"1.00"', b'"', 1), "cannot read line 4, field 2"),
        (lambda lines: lines[3].replace(b'"1.00"', b'"1_0"', 1), "cannot read line 4, field 2"),
        (lambda lines: lines[3].replace(b'"1.00"', b'"inf"', 1), "cannot read line 4, field 2"),
        (lambda lines: lines[3].replace(b"11/21", b"21.11", 1), "cannot read line 4, field 1"),
        (lambda lines: lines[3].replace(b"11/21", b"13/21", 1), "impossible time"),
        (lambda lines: lines[3].replace(b'"11/21/2026 09:00:02"', b'"x"', 1), "line 4, field 1"),
    ],
    ids=["short", "long", "comma", "break", "empty", "word", "quote", "lone", "underscore",
         "infinite", "stamp", "month", "stampless"],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_place(file, change, said, few):
    lines = csv_of([["1.00"] * 40] * 5).encode().split(b"\n")
    lines[3] = change(lines)
    path = file(b"\n".join(lines))
    with pytest.raises(ResultsError) as error:
        read(path, counters(path)[:1] if few else None)
    assert said in str(error.value)


def test_of_several_odd_lines_the_first_is_told_whatever_is_odd_of_it(file):
    lines = csv_of(wide(900, 4)).split("\n")
    for odd in (*range(301, 450), 899):
        lines[odd] = lines[odd].replace(",", ",x", 1)
    lines[310], lines[700] = lines[310] + ",1", "The end."
    with pytest.raises(ResultsError, match="cannot read line 302, field 2"):
        read(file("\n".join(lines)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "no whole header"),
        (HEAD.encode(), "no whole header"),
        (b"a,b\n1,2\n", "not the CSV of esxtop"),
        (HEAD.encode() + b"\n", "not the CSV of esxtop"),
        (b"\xff\xfe\x00\n", "header cannot be read\n.*\n.*UTF-8"),
        (csv_of([["1"]]).replace(",", ";").encode(), "header cannot be read\n.*\n.*commas"),
        (csv_of([["1"]]).split("\n")[0] + "\n", "holds no rows"),
        (b"\0" * 100_000, "no whole header"),
        (csv_of([["1"]]).replace("\n", "\r"), r"no whole header line\n.*`tr '\\r' '\\n'`"),
        (csv_of([["1"]], stamps=["9:00:05"]), "line 2, field 1\n.*9:00:05\n.*03/26/2026 22:42:05"),
    ],
    ids=["empty", "cut", "other", "no-counter", "utf16", "semicolons", "no-rows", "zeros", "cr",
         "no-date"],
)  # fmt: skip
def test_another_file_is_refused_in_plain_words(file, text, said):
    with pytest.raises(ResultsError, match=said):
        read(file(text))


def test_names_that_are_unknown_or_not_unique_are_refused(file, tmp_path):
    path = file(csv_of([["1", "2", "3"]], names=["Used", "Ready", "Ready"]))
    with pytest.raises(BadInput, match="2 counters have the name 'Ready'"):
        read(path, ["Ready"])
    with pytest.raises(BadInput, match=r"none of 3 counters is named 'use'\n.*did you mean 'Used'"):
        read(path, ["use"])
    with pytest.raises(BadInput, match="no counter is asked for"):
        read(path, [])
    with pytest.raises(BadInput, match="cannot be opened"):
        read(tmp_path / "missing.csv")
    with pytest.raises(BadInput, match="2 counters have the name 'Ready'"):
        read(path)["Ready"]
    assert read(path).values.tolist() == [[1, 2, 3]]


def test_an_endless_line_is_refused_before_memory_is_full(file, monkeypatch):
    monkeypatch.setattr("labkit.telemetry.counters.LONGEST_LINE", 10_000)
    with pytest.raises(ResultsError, match="a line is longer"):
        read(file(csv_of([["1"] * 5]) + "1," * 10_000))


@pytest.mark.slow
@settings(max_examples=150)
@given(st.binary(max_size=60), st.integers(0, 300), st.integers(0, 40))
def test_a_damaged_file_is_read_or_refused(tmp_path_factory, noise, at, lost):
    whole = csv_of([["12.34", "7"]] * 4).encode()
    path = tmp_path_factory.mktemp("damaged") / "file.csv"
    path.write_bytes(whole[:at] + noise + whole[at + lost :])
    try:
        found = read(path)
    except ResultsError:
        return
    assert found.values.shape == (found.times.size, len(found.names))


def test_a_file_that_cannot_be_read_to_its_end_says_so(file, monkeypatch):
    class Broken(columns.FileIO):
        def readinto(self, into):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(columns, "FileIO", Broken)
    with pytest.raises(ResultsError, match="cannot be read") as error:
        read(file(csv_of([["1.50"]])))
    assert "Input/output error" in error.value.said


@pytest.mark.slow
def test_20_of_2000_columns_use_memory_for_little_more_than_themselves(file):
    import tracemalloc

    path = file(csv_of(wide(100, 2000)))
    names = counters(path)[::100]
    tracemalloc.start()
    read(path, names)
    assert tracemalloc.get_traced_memory()[1] < 64e6
    tracemalloc.stop()
