"""The HTTP API of a served release in the words of OpenAPI 3.1, made from its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy._version import __version__
from understudy.schema import Binary, Categorical, ImageSchema, Ordinal, TableSchema
from understudy.serving.wanted import IMAGE_FORMS, TABLE_FORMS

if TYPE_CHECKING:
    from understudy.release.release import Release

__all__ = ["described"]


def described(release: Release, most: int) -> dict[str, Any]:
    """The description as plain values.

    Args:
        release: what is served.
        most: records that may be asked for at once.
    """
    forms = IMAGE_FORMS if isinstance(release.schema, ImageSchema) else TABLE_FORMS
    parameters = [
        _parameter("rows", "How many records.", type="integer", minimum=1, maximum=most, default=1000),
        _parameter("format", "The kind of file.", type="string", enum=list(forms), default=forms[0]),
        _parameter("seed", "The same seed gives the same records.", type="integer", minimum=0),
    ]
    classes = release.schema.label_classes
    if classes is not None:
        parameters += [
            _parameter("label", "Make only records of this class.", type="string", enum=list(classes)),
            _parameter("counts", "Records per class, such as a=100,b=50, instead of rows.", type="string"),
        ]
    if isinstance(release.schema, TableSchema):
        discrete = [
            one.name for one in release.schema.columns if isinstance(one, Binary | Ordinal | Categorical)
        ]
        parameters += [
            _parameter(
                "given",
                "Only rows with this, such as age=60..70 or ward=a|b; may be repeated.",
                type="string",
            ),
            _parameter("balance", "As many rows with each value of a column.", type="string", enum=discrete),
        ]
    cost = release.card.plan.spent
    promise = (
        f"Made under differential privacy, ε = {cost.epsilon:.4g}, δ = {cost.delta:g}."
        if release.card.private and cost is not None
        else "NOT PRIVATE."
    )
    files = {"200": {"description": "The records, streamed."}, **_refusals()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "A synthetic data generator",
            "version": __version__,
            "description": f"{promise} Drawing records costs nothing more.",
        },
        "paths": {
            "/sample": {
                "get": {"summary": "Draw synthetic records", "parameters": parameters, "responses": files}
            },
            "/api/statistics": {
                "get": {
                    "summary": "Shares, rates and means with intervals that include the noise; tables only",
                    "parameters": [
                        _parameter(
                            "query", "As in outcome, outcome by ward, mean age by sex.", type="string"
                        ),
                        _parameter(
                            "count", "How many rows there were, if the release does not say.", type="integer"
                        ),
                    ],
                    "responses": {"200": {"description": "The answer"}, **_refusals()},
                }
            },
            "/api/card": _plain("The card of the release: plan, charges, certified cost"),
            "/api/schema": _plain("The public schema of the records, as TOML"),
            "/report": _plain("The public report, as a page"),
        },
    }


def _parameter(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def _plain(summary: str) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": {"description": summary}, **_refusals()}}}


def _refusals() -> dict[str, Any]:
    return {
        "400": {"description": "Something in the request is wrong; the answer says what."},
        "429": {"description": "Too many requests of this client in a minute."},
        "503": {"description": "Too many requests at once."},
    }
