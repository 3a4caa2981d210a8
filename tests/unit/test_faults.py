"""The words of a fault that lies inside a part which may be null, or a list of such parts."""

from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flyball.documents.faults import Allowed, faults_of


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: Annotated[int, Field(ge=2), Allowed("2 or more")]
    unit: str = "rows"


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    plain: Part = Part(size=2)
    maybe: Part | None = None
    some: list[Part | None] | None = None


def faults(model, document):
    with pytest.raises(ValidationError) as caught:
        model.model_validate(document)
    return {fault.path: fault.allowed for fault in faults_of(caught.value, model)}


WRONG = {"sise": 2}


@pytest.mark.parametrize(
    ("document", "at"), [({"plain": WRONG}, "plain"), ({"maybe": WRONG}, "maybe"), ({"some": [None, WRONG]}, "some[1]")]
)
def test_a_part_that_may_be_null_is_told_with_its_keys_and_with_what_is_missing(document, at):
    keys, missing = "no such key; keys are size, unit", "required: 2 or more"
    assert faults(Document, document) == {f"{at}.sise": keys, f"{at}.size": missing}
