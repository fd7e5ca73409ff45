"""What goes with synthetic records: a data set card for people and hubs, and Croissant metadata for machines.

Both are made from the release's card, which is public, from the file of synthetic records, and from what only the
publisher can say. Nothing else is read. The metadata follow Croissant 1.0 (http://mlcommons.org/croissant/1.0).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from understudy import files
from understudy.errors import ReleaseError
from understudy.escaping import for_markdown, for_spreadsheet
from understudy.release.readme import promise
from understudy.schema import (
    Binary,
    Categorical,
    CodeSchema,
    Continuous,
    Datetime,
    ImageSchema,
    Integer,
    Ordinal,
    TableSchema,
    TimeUnit,
)

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.release.release import Release
    from understudy.schema import Column

__all__ = ["CARD_NAME", "CROISSANT_NAME", "Publication", "check_describable", "describe"]

CARD_NAME, CROISSANT_NAME = "README.md", "croissant.json"

_FORMATS = {
    ".csv": "text/csv",
    ".parquet": "application/x-parquet",
    ".npz": "application/octet-stream",
    "": "image/png",
}
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B")
_MANY = 12
"""More values than this are not listed in a description."""

_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
)
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{term: f"cr:{term}" for term in _TERMS.split()},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
"""The context that the specification recommends, so that terms need no prefix."""


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What only the publisher of synthetic records can say about them.

    Args:
        title: what the set is called.
        creator: the person or house that publishes it.
        license: a name of SPDX's list, such as CC-BY-4.0, or the address of a text.
        url: where it will be found.
    """

    title: str
    creator: str
    license: str
    url: str

    @property
    def license_url(self) -> str:
        """The address of the license's text."""
        return self.license if "://" in self.license else f"https://spdx.org/licenses/{self.license}"


def check_describable(release: Release, path: Path) -> None:
    """Refuse, before a record is drawn, what cannot be described.

    Raises:
        ReleaseError: the release is NOT PRIVATE, the file is only to look at, or there is a card already.
    """
    if not release.card.private:
        raise ReleaseError(
            "the release is NOT PRIVATE; no card is written that would invite to publish its records."
        )
    if path.suffix not in _FORMATS:
        raise ReleaseError(f"{path.name}: a card describes .csv, .parquet, .npz or a folder of images.")
    for name in (CARD_NAME, CROISSANT_NAME):
        if (path.parent / name).exists():
            raise ReleaseError(f"{path.parent / name} exists; write each set into a folder of its own.")


def describe(
    release: Release,
    path: Path,
    *,
    records: int,
    about: Publication,
    conditions: tuple[str, ...] = (),
    raw_text: bool = False,
    today: dt.date | None = None,
) -> None:
    """Write `README.md` and `croissant.json` beside a file (or folder) of synthetic records.

    Args:
        release: what they were drawn from.
        path: where they are.
        records: how many there are.
        about: title, creator, license and address.
        conditions: what was asked of the records, as it was written, such as "age=60..70".
        raw_text: whether headings of a .csv are as in the schema (see `write_records`).
        today: the date of publication.
    """
    check_describable(release, path)
    day = today or dt.datetime.now(dt.UTC).date()
    card = _card(release, path, records, about, conditions, day)
    croissant = _croissant(release, path, records, about, raw_text, day)
    files.write_whole(path.parent / CARD_NAME, card, error=ReleaseError, new=True)
    text = json.dumps(croissant, indent=2, ensure_ascii=False) + "\n"
    files.write_whole(path.parent / CROISSANT_NAME, text, error=ReleaseError, new=True)


# ---------------------------------------------------------------------------------------- the card, for people and hubs


_KEEP_IN_MIND = """## What to keep in mind

- Counts of records say nothing: as many can be drawn as anybody likes. Shares and relations are what was learned.
- Noise was added to what was learned. Small groups suffer most; a rare value may be absent, or be there by chance.
- Intervals that a usual analysis prints are too narrow: they know nothing of that noise."""


def _card(
    release: Release, path: Path, records: int, about: Publication, conditions: tuple[str, ...], day: dt.date
) -> str:
    drawn = "Records were drawn at random, as the generator makes them."
    if conditions:
        asked = ", ".join(for_markdown(one) for one in conditions)
        drawn = f"They were drawn **under conditions** ({asked}), so their shares are not those of the population."
    first = (
        f"{records:,} **synthetic** records in `{path.name}`, published by {for_markdown(about.creator)} on {day}. "
        f"Each is a draw of a model, not the record of a real person. {drawn}"
    )
    made = f"Made with understudy, recipe {for_markdown(release.card.plan.recipe.name)}."
    sections = [
        _front_matter(path, records, about) + f"# {for_markdown(about.title)}",
        first,
        "## What is promised",
        promise(release.card),
        "## What is in it",
        _contents(release),
        _KEEP_IN_MIND,
        f"{made} Metadata for machines: `{CROISSANT_NAME}`.",
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(path: Path, records: int, about: Publication) -> str:
    """The lines that a hub of data sets reads; every text is quoted as JSON, which is YAML."""
    size = _SIZES[min(max(len(str(records)) - 3, 0), len(_SIZES) - 1)]
    known = "://" not in about.license
    license_lines = (
        [f"license: {json.dumps(about.license.lower())}"]
        if known
        else ["license: other", 'license_name: "see link"', f"license_link: {json.dumps(about.license)}"]
    )
    where = f"{path.name}/**" if path.suffix == "" else path.name
    config = [] if path.suffix == ".npz" else _config(where)
    lines = [
        "---",
        f"pretty_name: {json.dumps(about.title, ensure_ascii=False)}",
        *license_lines,
        f"size_categories: [{json.dumps(size)}]",
        'tags: ["synthetic", "differential-privacy", "understudy"]',
        *config,
        "---",
        "\n",
    ]
    return "\n".join(lines)


def _config(where: str) -> list[str]:
    return ["configs:", "- config_name: default", f"  data_files: {json.dumps(where, ensure_ascii=False)}"]


def _contents(release: Release) -> str:
    schema = release.schema
    if isinstance(schema, ImageSchema):
        classes = f" Classes: {for_markdown(', '.join(schema.classes))}." if schema.classes else ""
        return f"Images of {schema.width} × {schema.height} pixels, {schema.channels} channel(s).{classes}"
    rows = ["| column | values |", "|---|---|"]
    rows += [f"| {for_markdown(name)} | {for_markdown(says)} |" for name, _, says in _columns(release)]
    return "\n".join(rows)


# ----------------------------------------------------------------------------------------- Croissant, for machines


def _croissant(
    release: Release, path: Path, records: int, about: Publication, raw_text: bool, day: dt.date
) -> dict[str, Any]:
    spent = release.card.plan.spent
    assert spent is not None
    words = (
        f"{records} synthetic records, drawn from a generator that was made under differential privacy with "
        f"epsilon = {spent.epsilon:.4f} and delta = {spent.delta:g} ({spent.adjacency.value})."
    )
    described: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": about.title,
        "description": words,
        "license": about.license_url,
        "url": about.url,
        "creator": {"@type": "sc:Organization", "name": about.creator},
        "datePublished": day.isoformat(),
        "version": "1.0.0",
        "isLiveDataset": False,
        "keywords": ["synthetic data", "differential privacy"],
    }
    if path.suffix == "":
        return described | _picture_files(release, path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    described["distribution"] = [
        {
            "@type": "cr:FileObject",
            "@id": quote(path.name),
            "name": path.name,
            "contentUrl": quote(path.name),
            "contentSize": f"{path.stat().st_size} B",
            "encodingFormat": _FORMATS[path.suffix],
            "sha256": digest,
        }
    ]
    if path.suffix != ".npz":
        headings = for_spreadsheet if path.suffix == ".csv" and not raw_text else str
        described["recordSet"] = [
            _record_set(
                [
                    _field(
                        name,
                        kind,
                        says,
                        {"fileObject": {"@id": quote(path.name)}, "extract": {"column": headings(name)}},
                    )
                    for name, kind, says in _columns(release)
                ]
            )
        ]
    return described


def _picture_files(release: Release, path: Path) -> dict[str, Any]:
    """A folder of images, whose subfolders are classes."""
    schema = release.schema
    labelled = isinstance(schema, ImageSchema) and schema.classes is not None
    pictures = {"@id": "pictures"}
    fields = [
        _field(
            "image",
            "sc:ImageObject",
            "the picture",
            {"fileSet": pictures, "extract": {"fileProperty": "content"}},
        )
    ]
    if labelled:
        name_of_folder = {"regex": r".*/([^/]+)/[^/]+\.png$"}
        source = {"fileSet": pictures, "extract": {"fileProperty": "fullpath"}, "transform": name_of_folder}
        fields.append(_field("label", "sc:Text", "the class", source))
    return {
        "distribution": [
            {
                "@type": "cr:FileSet",
                "@id": "pictures",
                "name": path.name,
                "encodingFormat": "image/png",
                "includes": f"{path.name}/{'*/' if labelled else ''}*.png",
            }
        ],
        "recordSet": [_record_set(fields)],
    }


def _record_set(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"@type": "cr:RecordSet", "@id": "records", "name": "records", "field": fields}


def _field(name: str, kind: str, says: str, source: dict[str, Any]) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"records/{quote(name, safe='')}",
        "name": name,
        "description": says,
        "dataType": kind,
        "source": source,
    }


# ----------------------------------------------------------------------------------------------- columns in words


def _columns(release: Release) -> list[tuple[str, str, str]]:
    """Name, Croissant type and meaning of every column of a table or of code sets."""
    schema = release.schema
    if isinstance(schema, TableSchema):
        return [(column.name, *_meaning(column)) for column in schema.columns]
    assert isinstance(schema, CodeSchema)
    often = (
        "1 if the record has this code" if schema.max_count == 1 else f"how often, up to {schema.max_count}"
    )
    label = [] if schema.label is None else [(schema.label.name, *_meaning(schema.label))]
    return [(code, "sc:Integer", often) for code in schema.codes] + label


def _meaning(column: Column) -> tuple[str, str]:
    match column:
        case Integer(lower=lower, upper=upper):
            kind, says = "sc:Integer", f"a whole number from {lower} to {upper}"
        case Continuous(lower=lower, upper=upper):
            kind, says = "sc:Float", f"a number from {lower} to {upper}"
        case Datetime(lower=lower, upper=upper, unit=unit):
            daily = unit is TimeUnit.DAY
            first, last = (str(bound)[: 10 if daily else None] for bound in (lower, upper))
            kind = "sc:Date" if daily else "sc:DateTime"
            says = f"a {unit.value} from {first} to {last}"
        case Categorical(categories=names) | Ordinal(levels=names) | Binary(values=names):
            listed = ", ".join(names[:_MANY])
            kind, says = (
                "sc:Text",
                f"one of {listed}" + (f" and {len(names) - _MANY} more" if len(names) > _MANY else ""),
            )
    return kind, says + ("; may be missing" if column.missing else "")
