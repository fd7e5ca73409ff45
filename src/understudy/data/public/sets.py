"""The known public sets that are files: where each comes from and how it becomes records."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd

from understudy.data.codes import from_long, icd9_category
from understudy.data.formats import read_table_file
from understudy.data.pictures import read_idx_array
from understudy.data.places import Place
from understudy.data.public import schemas as public_schemas
from understudy.data.public.bundled import split
from understudy.data.public.fetch import Source
from understudy.data.records import Records
from understudy.errors import MissingDataset
from understudy.records.images import Images

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.schema import CodeSchema, Schema

__all__ = ["PUBLIC_SETS", "PublicSet"]

_Paths: TypeAlias = "tuple[Path, ...]"
_Load: TypeAlias = Callable[["tuple[Path, ...]"], tuple[Records, Records]]


@dataclass(frozen=True)
class PublicSet:
    """A known set: its schema, its files in the order that `load` expects, and how to read them."""

    schema: Schema
    sources: tuple[Source, ...]
    load: _Load


def _load_idx(paths: _Paths) -> tuple[Records, Records]:
    arrays = [read_idx_array(path) for path in paths]
    train = Images(arrays[0][..., None], arrays[1].astype(np.int64))
    return Records(train), Records(Images(arrays[2][..., None], arrays[3].astype(np.int64)))


def _load_adult(paths: _Paths) -> tuple[Records, Records]:
    names = [column.name for column in public_schemas.ADULT.columns]
    frames = [
        pd.read_csv(
            path, names=names, comment="|", skipinitialspace=True, na_values=["?"], keep_default_na=False
        )
        for path in paths
    ]
    for frame in frames:
        frame["income"] = frame["income"].str.rstrip(".")
    return Records(frames[0]), Records(frames[1])


def _load_thyroid(paths: _Paths) -> tuple[Records, Records]:
    names = [column.name for column in public_schemas.THYROID.columns]
    frames = [pd.read_csv(path, names=names, sep=" ", usecols=range(len(names))) for path in paths]
    return Records(frames[0]), Records(frames[1])


def _load_usps(paths: _Paths) -> tuple[Records, Records]:
    try:
        import h5py
    except ImportError as cause:
        raise MissingDataset("usps is an HDF5 file; install h5py to read it (pip install h5py)") from cause
    parts = []
    with h5py.File(paths[0], "r") as file:
        for part in ("train", "test"):
            pixels = np.rint(file[part]["data"][:].reshape(-1, 16, 16, 1) * 255).astype(np.uint8)
            parts.append(Records(Images(pixels, file[part]["target"][:].astype(np.int64))))
    return parts[0], parts[1]


def _load_acs(paths: _Paths) -> tuple[Records, Records]:
    frame = read_table_file(Place(str(paths[0])), public_schemas.ACS).frame
    first, second = (frame.iloc[part].reset_index(drop=True) for part in split("acs", len(frame)))
    return Records(first), Records(second)


def _load_diabetes(paths: _Paths, schema: CodeSchema = public_schemas.DIABETES) -> tuple[Records, Records]:
    """One record is one patient with the ICD-9 categories of all encounters: which, or how often each."""
    with zipfile.ZipFile(paths[0]) as archive, archive.open("dataset_diabetes/diabetic_data.csv") as file:
        encounters = pd.read_csv(
            file, usecols=["patient_nbr", "diag_1", "diag_2", "diag_3"], dtype=str, na_values="?"
        )
    long = encounters.melt("patient_nbr", value_name="code")
    long["code"] = icd9_category(long["code"])
    wide = from_long(long, schema, person="patient_nbr", code="code").frame.astype(np.uint8)
    first, second = (wide.iloc[part].reset_index(drop=True) for part in split("diabetes130", len(wide)))
    return Records(first), Records(second)


def _load_mimic(paths: _Paths) -> tuple[Records, Records]:
    """One record is one patient of the open demo with the ICD-9 categories of all stays."""
    given = pd.read_csv(paths[0], usecols=["subject_id", "icd9_code"], dtype=str)
    width = given["icd9_code"].str.startswith("E").fillna(False).map({True: 4, False: 3})
    given["code"] = [code[:size] for code, size in zip(given["icd9_code"], width, strict=True)]
    wide = from_long(given, public_schemas.DIABETES, person="subject_id", code="code").frame.astype(np.uint8)
    first, second = (wide.iloc[part].reset_index(drop=True) for part in split("mimic3-demo", len(wide)))
    return Records(first), Records(second)


def _load_olivetti(paths: _Paths) -> tuple[Records, Records]:
    """Ten faces each of forty people; the last four people are the test part."""
    from scipy.io import loadmat

    columns = loadmat(paths[0], variable_names=["faces"])["faces"]
    faces = np.ascontiguousarray(columns.T.reshape(-1, 64, 64).transpose(0, 2, 1)[..., None]).astype(np.uint8)
    return Records(Images(faces[:360], None)), Records(Images(faces[360:], None))


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_NIST = (
    "https://raw.githubusercontent.com/usnistgov/SDNist/ac77a7f0ed1431c9daed476c55324f94a6ab264c"
    "/BenchmarkData/ACSDataExcerpts"
)
_IDX_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _idx_sources(
    folder: str, bases: tuple[str, ...], facts: tuple[tuple[int, str], ...]
) -> tuple[Source, ...]:
    return tuple(
        Source(folder, file, size, sha256, tuple(f"{base}/{file}" for base in bases))
        for file, (size, sha256) in zip(_IDX_FILES, facts, strict=True)
    )


PUBLIC_SETS: dict[str, PublicSet] = {
    "mnist": PublicSet(
        public_schemas.MNIST,
        _idx_sources(
            "mnist",
            ("https://ossci-datasets.s3.amazonaws.com/mnist", "http://yann.lecun.com/exdb/mnist"),
            (
                (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
                (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
                (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
                (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
            ),
        ),
        _load_idx,
    ),
    "fashion-mnist": PublicSet(
        public_schemas.FASHION,
        _idx_sources(
            "fashion-mnist",
            ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",),
            (
                (26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
                (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
                (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
                (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
            ),
        ),
        _load_idx,
    ),
    "adult": PublicSet(
        public_schemas.ADULT,
        (
            Source(
                "adult",
                "adult.data",
                3_974_305,
                "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                (f"{_UCI}/adult/adult.data",),
            ),
            Source(
                "adult",
                "adult.test",
                2_003_153,
                "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                (f"{_UCI}/adult/adult.test",),
            ),
        ),
        _load_adult,
    ),
    "thyroid": PublicSet(
        public_schemas.THYROID,
        (
            Source(
                "thyroid-ann",
                "ann-train.data",
                264_725,
                "3da53a156bda36cb0c97e9f4b6b111c9226c54c4aa00230de5604b787c47e3a6",
                (f"{_UCI}/thyroid-disease/ann-train.data",),
            ),
            Source(
                "thyroid-ann",
                "ann-test.data",
                241_196,
                "c649ea19416e78c7996cfaaa2a9e281cb597d4b075aaa68c494fc3e4ee3aa30b",
                (f"{_UCI}/thyroid-disease/ann-test.data",),
            ),
        ),
        _load_thyroid,
    ),
    "usps": PublicSet(
        public_schemas.USPS,
        (
            Source(
                "usps",
                "usps.h5",
                2_913_522,
                "734f88c541104a956d88be2c95d03b4a463ffd74ccc2ba9c80841fb98e3fcb36",
            ),
        ),
        _load_usps,
    ),
    "acs": PublicSet(
        public_schemas.ACS,
        (
            Source(
                "sdnist-acs",
                "national2019.csv",
                1_990_721,
                "b49ba83e18472b6b76438bb511a01668bdbe2c1ace54521614a32edcc748f79a",
                (f"{_NIST}/national/national2019.csv",),
            ),
        ),
        _load_acs,
    ),
    "diabetes130": PublicSet(
        public_schemas.DIABETES,
        (
            Source(
                "diabetes130",
                "dataset_diabetes.zip",
                3_174_799,
                "2cc570fc34b09ba1169d94b68c27ce3802dce7dc4ab6082bed833a6c195507a5",
                (f"{_UCI}/00296/dataset_diabetes.zip",),
            ),
        ),
        _load_diabetes,
    ),
    "mimic3-demo": PublicSet(
        public_schemas.DIABETES,
        (
            Source(
                "mimic3-demo",
                "DIAGNOSES_ICD.csv",
                48_997,
                "74dc979906bc2172f0cf025271dcd44c7cd52506b297e4b36e63dd40dce923da",
                ("https://physionet.org/files/mimiciii-demo/1.4/DIAGNOSES_ICD.csv",),
            ),
        ),
        _load_mimic,
    ),
    "olivetti": PublicSet(
        public_schemas.OLIVETTI,
        (
            Source(
                "olivetti",
                "olivettifaces.mat",
                1_432_511,
                "b1988d02c72fe5b8ee82b5ef3bb7982eafc74f1e1ff0ae0ade35061ad0af534d",
            ),
        ),
        _load_olivetti,
    ),
}
PUBLIC_SETS["diabetes130-counts"] = PublicSet(
    public_schemas.DIABETES_COUNTS,
    PUBLIC_SETS["diabetes130"].sources,
    partial(_load_diabetes, schema=public_schemas.DIABETES_COUNTS),
)
"""Every known set that is not inside scikit-learn."""
