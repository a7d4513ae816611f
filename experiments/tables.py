"""Samples from a file: Parquet, CSV or JSONL; what is wrong in it is named by file, row and column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from packing import EvenstepError, InvalidSamples, Samples
from packing.arrays import SUM_LIMIT, Int64

from .workload import Workload

__all__ = ["BadTable", "read_samples"]

REQUIRED = ("tokens", "image_tokens")
OPTIONAL = ("images", "source")
WHOLE = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")
DIGITS = "^[0-9]+$"  # what arrow may convert by itself


class BadTable(EvenstepError, ValueError):
    """A file that holds no table of samples. Rows are data rows, counted from 1: a CSV's header is none."""


class _Column(Protocol):
    """A column of any file format; arrow's chunked arrays are such."""

    def __len__(self) -> int: ...
    def to_pylist(self) -> list[object]: ...


_Columns: TypeAlias = Mapping[str, _Column]


def read_samples(path: str | Path) -> Workload:
    """Return the samples of a ``.parquet``, ``.csv`` or ``.jsonl`` file, or raise `BadTable`.

    Columns: ``tokens`` (all tokens of a sample) and ``image_tokens`` (those of them that come from images; 0 for text),
    whole numbers >= 0; optionally ``images`` (how many) and ``source`` (any name). Others are ignored.
    """
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise BadTable(f'{path}: the ending must be {" or ".join(READERS)}; it is "{path.suffix}".')
    if not path.is_file():
        raise BadTable(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}.")
    try:
        columns = reader(path)
    except UnicodeDecodeError as error:
        raise BadTable(f"{path}: not UTF-8 text: {error}.") from error
    except OSError as error:  # arrow's too: some damage to a Parquet file reads as an input error
        raise BadTable(f"{path}: cannot be read: {error.strerror or _first_line(error)}.") from error
    except pa.ArrowException as error:
        raise BadTable(f"{path}: damaged, or not a {path.suffix[1:]} file: {_first_line(error)}.") from error
    if not len(columns["tokens"]):
        raise BadTable(f"{path}: the table is empty; it needs one row per sample.")
    amounts = {name: _whole_numbers(path, name, columns[name]) for name in columns if name != "source"}
    try:
        source = _texts(columns["source"]) if "source" in columns else None
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise BadTable(f"{path}: source must be text: {_first_line(error)}.") from error
    return Workload(_samples(path, amounts), source)


def _samples(path: Path, amounts: dict[str, Int64]) -> Samples:
    tokens = amounts.pop("tokens")
    above = amounts["image_tokens"] > tokens
    if above.any():
        row = int(np.argmax(above))
        raise BadTable(
            f"{path}: image_tokens must be <= tokens, which count text and images; data row {row + 1} has "
            f"{amounts['image_tokens'][row]} of {tokens[row]}."
        )
    try:
        return Samples(tokens, amounts)
    except InvalidSamples as error:
        raise BadTable(f"{path}: {error}") from error


def _read_parquet(path: Path) -> _Columns:
    with pq.ParquetFile(path) as file:
        return _arrow_columns(file.read(_present(path, file.schema_arrow.names)))


def _read_csv(path: Path) -> _Columns:
    ragged: list[pa.csv.InvalidRow] = []

    def note(row: pa.csv.InvalidRow) -> str:
        ragged.append(row)
        return "skip"

    if not path.read_bytes().strip():
        raise BadTable(f"{path}: the file is empty; it needs a header and one row per sample.")
    table = pa.csv.read_csv(
        path,
        pa.csv.ReadOptions(use_threads=False),  # with threads the rows have no numbers
        pa.csv.ParseOptions(invalid_row_handler=note),
        pa.csv.ConvertOptions(column_types=dict.fromkeys((*REQUIRED, *OPTIONAL), pa.string())),
    )
    if ragged:
        row = ragged[0]
        raise BadTable(
            f"{path}: every row must have the {row.expected_columns} fields of the header; data row {row.number - 1} "
            f"has {row.actual_columns}."
        )
    return _arrow_columns(table.select(_present(path, table.column_names)))


def _read_jsonl(path: Path) -> _Columns:
    rows: list[dict[str, object]] = []
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                rows.append(_json_object(path, len(rows) + 1, line))
    names = _present(path, dict.fromkeys(name for row in rows for name in row)) if rows else REQUIRED
    return {name: _Values(row.get(name) for row in rows) for name in names}


READERS: Mapping[str, Callable[[Path], _Columns]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
}


class _Values(list[object]):
    """A column of a JSONL file."""

    def to_pylist(self) -> list[object]:
        return self


def _json_object(path: Path, row: int, line: bytes) -> dict[str, object]:
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # broken UTF-8 is a ValueError too
        reason = error.msg if isinstance(error, json.JSONDecodeError) else _first_line(error)
        raise BadTable(f"{path}: every line must be a JSON object; data row {row} is not one: {reason}.") from error
    if not isinstance(value, dict):
        raise BadTable(f"{path}: every line must be a JSON object; data row {row} is a {type(value).__name__}.")
    return value


def _arrow_columns(table: pa.Table) -> _Columns:
    return dict(zip(table.column_names, table.columns, strict=True))


def _present(path: Path, found: Iterable[str]) -> list[str]:
    """Return the columns to read of those ``found``, or raise `BadTable` if a required one is not there once."""
    found = list(found)
    for name in (*REQUIRED, *OPTIONAL):
        if found.count(name) > 1:
            raise BadTable(f'{path}: column "{name}" appears {found.count(name)} times.')
    for name in REQUIRED:
        if name not in found:
            remedy = "Add it; it is 0 for samples without images." if name == "image_tokens" else "Rename or add it."
            raise BadTable(f'{path}: column "{name}" is missing; found {", ".join(found) or "none"}. {remedy}')
    return [name for name in (*REQUIRED, *OPTIONAL) if name in found]


def _whole_numbers(path: Path, name: str, column: _Column) -> Int64:
    """Return a column as int64; the first value that is no count is named with its row."""
    numbers = _converted(column)
    if numbers is None:
        numbers = np.array(
            [_whole_number(path, name, row, value) for row, value in enumerate(column.to_pylist(), start=1)], np.int64
        )
    if (numbers < 0).any():
        row = int(np.argmax(numbers < 0))
        raise BadTable(f"{path}: {name} must be >= 0; data row {row + 1} is {numbers[row]}.")
    return numbers


def _converted(column: _Column) -> Int64 | None:
    """The fast way, for arrow's columns without anything odd; None: look at the values one by one."""
    if not isinstance(column, pa.ChunkedArray) or column.null_count:
        return None
    if not (pa.types.is_integer(column.type) or pa.types.is_string(column.type)):
        return None
    if pa.types.is_string(column.type) and not pc.all(pc.match_substring_regex(column, DIGITS)).as_py():
        return None  # arrow would read hexadecimal too
    try:
        return np.asarray(pc.cast(column, pa.int64()).to_numpy(), dtype=np.int64)
    except pa.ArrowInvalid:
        return None


def _whole_number(path: Path, name: str, row: int, value: object) -> int:
    number = int(value) if isinstance(value, str) and WHOLE.fullmatch(value) else value
    if isinstance(number, float) and number.is_integer():
        raise BadTable(f"{path}: {name} must be integers; data row {row} is {number!r}, a float. Cast the column.")
    if type(number) is not int:
        shown = "empty" if value is None or value == "" else repr(value)[:40]
        raise BadTable(f"{path}: {name} must be whole numbers; data row {row} is {shown}.")
    if abs(number) >= SUM_LIMIT:
        raise BadTable(f"{path}: {name} must be below 2**62; data row {row} is {str(number)[:40]}.")
    return number


def _texts(column: _Column) -> NDArray[np.str_]:
    if isinstance(column, pa.ChunkedArray) and not pa.types.is_nested(column.type):  # few names: convert each once
        encoded = pc.dictionary_encode(pc.fill_null(pc.cast(column, pa.string()), "")).combine_chunks()
        names: NDArray[np.str_] = np.array(encoded.dictionary.to_pylist(), dtype=np.str_)
        return names[np.asarray(encoded.indices.to_numpy(), dtype=np.int64)]
    return np.array(["" if value is None else str(value) for value in column.to_pylist()], dtype=np.str_)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
