"""Files of samples: what is read, and what is said of those that cannot be."""

import re
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments import BadTable, read_samples

Content: TypeAlias = str | bytes | pa.Table


def write(path: Path, content: Content) -> Path:
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


GOOD: dict[str, Content] = {
    "a.parquet": pa.table({"source": ["x", None], "tokens": pa.array([5, 9], pa.int32()), "image_tokens": [1, 0]}),
    "a.csv": "image_tokens,note,tokens,source\r\n1,?,5,x\r\n0,?,9,\r\n",
    "a.jsonl": '{"tokens": 5, "image_tokens": 1, "source": "x"}\n\n{"image_tokens": 0, "tokens": 9}\n',
}


@pytest.mark.parametrize("name", GOOD)
def test_the_three_formats_give_the_same_samples(tmp_path: Path, name: str) -> None:
    workload = read_samples(write(tmp_path / name, GOOD[name]))
    assert workload.samples.tokens.tolist() == [5, 9]
    assert {key: values.tolist() for key, values in workload.samples.columns.items()} == {"image_tokens": [1, 0]}
    assert workload.source is not None
    assert workload.source.tolist() == ["x", ""]


def test_optional_columns_may_be_absent_or_there(tmp_path: Path) -> None:
    assert read_samples(write(tmp_path / "a.csv", "tokens,image_tokens\n5,1\n")).source is None
    samples = read_samples(write(tmp_path / "b.CSV", "tokens,image_tokens,images\n5,1,2\n")).samples
    assert samples.columns["images"].tolist() == [2]


REFUSED: list[tuple[str, Content, str]] = [
    ("a.txt", "", 'the ending must be .parquet or .csv or .jsonl; it is ".txt".'),
    ("a.csv", "", "the file is empty; it needs a header and one row per sample."),
    ("a.csv", "tokens,image_tokens\n", "the table is empty; it needs one row per sample."),
    ("a.jsonl", "\n", "the table is empty; it needs one row per sample."),
    ("a.parquet", pa.table({"tokens": pa.array([], pa.int64()), "image_tokens": pa.array([], pa.int64())}),
     "the table is empty; it needs one row per sample."),
    ("a.csv", "length,image_tokens\n5,1\n",
     'column "tokens" is missing; found length, image_tokens. Rename or add it.'),
    ("a.csv", "tokens\n5\n",
     'column "image_tokens" is missing; found tokens. Add it; it is 0 for samples without images.'),
    ("a.parquet", pa.table({"x": [1]}), 'column "tokens" is missing; found x. Rename or add it.'),
    ("a.jsonl", '{"image_tokens": 1}', 'column "tokens" is missing; found image_tokens. Rename or add it.'),
    ("a.csv", "tokens,tokens,image_tokens\n5,5,1\n", 'column "tokens" appears 2 times.'),
    ("a.csv", "tokens,image_tokens\n5,1\n6,2,3\n",
     "every row must have the 2 fields of the header; data row 2 has 3."),
    ("a.csv", "tokens,image_tokens\n5,1\n6\n", "every row must have the 2 fields of the header; data row 2 has 1."),
    ("a.csv", "tokens,image_tokens\n5,1\n-6,0\n", "tokens must be >= 0; data row 2 is -6."),
    ("a.jsonl", '{"tokens": 5, "image_tokens": -1}', "image_tokens must be >= 0; data row 1 is -1."),
    ("a.csv", "tokens,image_tokens\n5,1\nsix,1\n", "tokens must be whole numbers; data row 2 is 'six'."),
    ("a.csv", "tokens,image_tokens\n5,1\n6,1.0\n", "image_tokens must be whole numbers; data row 2 is '1.0'."),
    ("a.csv", "tokens,image_tokens\n5,1\n6,\n", "image_tokens must be whole numbers; data row 2 is empty."),
    ("a.parquet", pa.table({"tokens": [5.0, 6.0], "image_tokens": [1, 1]}),
     "tokens must be integers; data row 1 is 5.0, a float. Cast the column."),
    ("a.parquet", pa.table({"tokens": [5, None], "image_tokens": [1, 1]}),
     "tokens must be whole numbers; data row 2 is empty."),
    ("a.parquet", pa.table({"tokens": ["5", "x"], "image_tokens": [1, 1]}),
     "tokens must be whole numbers; data row 2 is 'x'."),
    ("a.parquet", pa.table({"tokens": [True], "image_tokens": [1]}),
     "tokens must be whole numbers; data row 1 is True."),
    ("a.jsonl", '{"tokens": 5, "image_tokens": 1}\n{"tokens": true, "image_tokens": 1}',
     "tokens must be whole numbers; data row 2 is True."),
    ("a.jsonl", '{"tokens": 5, "image_tokens": 1}\n{"tokens": 5}',
     "image_tokens must be whole numbers; data row 2 is empty."),
    ("a.jsonl", '{"tokens": NaN, "image_tokens": 1}', "tokens must be whole numbers; data row 1 is nan."),
    ("a.jsonl", '{"tokens": 4611686018427387904, "image_tokens": 1}',
     "tokens must be below 2**62; data row 1 is 4611686018427387904."),
    ("a.csv", "tokens,image_tokens\n99999999999999999999,1\n",
     "tokens must be below 2**62; data row 1 is 99999999999999999999."),
    ("a.csv", "tokens,image_tokens\n5,1\n6,7\n",
     "image_tokens must be <= tokens, which count text and images; data row 2 has 7 of 6."),
    ("a.csv", "tokens,image_tokens\n4611686018427387900,1\n4611686018427387900,1\n",
     "the sum of tokens must be below 2**62; it is 9223372036854775800. Lengths are counts: whole numbers >= 0 "
     "whose sum is below 2**62."),
    ("a.jsonl", '{"tokens": 5, "image_tokens": 1}\n{"tokens": 6,\n',
     "every line must be a JSON object; data row 2 is not one: "
     "Expecting property name enclosed in double quotes."),
    ("a.jsonl", "[1, 2]\n", "every line must be a JSON object; data row 1 is a list."),
    ("a.parquet", b"", "damaged, or not a parquet file: Parquet file size is 0 bytes."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "text"), REFUSED, ids=range(len(REFUSED)))
def test_one_line_says_what_is_wrong_and_where(tmp_path: Path, name: str, content: Content, text: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(BadTable, match=f"^{re.escape(f'{path}: {text}')}$"):
        read_samples(path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match=r"none\.csv: no such file\.$"):
        read_samples(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(BadTable, match=r"folder\.csv: a folder, not a file\.$"):
        read_samples(tmp_path / "folder.csv")


def test_damaged_parquet_is_named_in_one_line(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.parquet", pa.table({"tokens": [*range(1, 5_000)], "image_tokens": [0] * 4_999}))
    content = bytearray(whole.read_bytes())
    with pytest.raises(BadTable, match=r"short\.parquet: damaged, or not a parquet file: .+\.$"):
        read_samples(write(tmp_path / "short.parquet", bytes(content[: len(content) // 2])))
    content[8:200] = bytes(192)
    with pytest.raises(
        BadTable, match=r"^[^\n]*broken\.parquet: (damaged, or not a parquet file|cannot be read): [^\n]+$"
    ):
        read_samples(write(tmp_path / "broken.parquet", bytes(content)))


def test_broken_utf8_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match=r"every line must be a JSON object; data row 1 is not one: .*utf-8.*\.$"):
        read_samples(write(tmp_path / "a.jsonl", b"\xff\xfe{}\n"))
    with pytest.raises(BadTable, match=r"damaged, or not a csv file: .*UTF8.*\.$"):
        read_samples(write(tmp_path / "a.csv", b"tokens,image_tokens\n\xff\xfe,1\n"))


@pytest.mark.parametrize(("name", "n_samples", "mean"), [("vlm-clients", 186_611, 1_604), ("vqa-tiles", 60_495, 1_080)])
def test_real_files_are_read_whole(data_folder: Path, name: str, n_samples: int, mean: float) -> None:
    path = data_folder / f"{name}.parquet"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    workload = read_samples(path)
    assert len(workload.samples) == n_samples
    assert round(workload.samples.tokens.mean()) == mean
    assert workload.source is not None
    assert len(workload.source) == n_samples


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("latin.csv", b"tokens,image_tokens,gr\xf6\xdfe\n5,1,2\n", "not UTF-8 text"),
        ("utf16.csv", "tokens,image_tokens\n5,1\n".encode("utf-16"), "data row 2 has 1"),
        ("zipped.csv", b"\x1f\x8b\x08\x00\xff\xfe\xfd" * 9, "damaged, or not a csv file"),
        (
            "names.parquet",
            pa.table({"tokens": [5], "image_tokens": [1], "source": pa.array([b"\xff"], pa.binary())}),
            "source must be text",
        ),
        ("hex.csv", "tokens,image_tokens\n0x10,1\n", "tokens must be whole numbers; data row 1 is '0x10'"),
    ],
)
def test_other_encodings_are_named(tmp_path: Path, name: str, content: Content, text: str) -> None:
    with pytest.raises(BadTable, match=re.escape(text)):
        read_samples(write(tmp_path / name, content))
