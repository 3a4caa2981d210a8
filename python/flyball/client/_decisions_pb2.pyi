# Generated from proto/decisions.proto by proto/generate.py; run that again rather than edit this.
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Null(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NULL: _ClassVar[Null]
NULL: Null

class Value(_message.Message):
    __slots__ = ("null_value", "bool_value", "int_value", "double_value", "text_value")
    NULL_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    TEXT_VALUE_FIELD_NUMBER: _ClassVar[int]
    null_value: Null
    bool_value: bool
    int_value: int
    double_value: float
    text_value: str
    def __init__(self, null_value: _Optional[_Union[Null, str]] = ..., bool_value: _Optional[bool] = ..., int_value: _Optional[int] = ..., double_value: _Optional[float] = ..., text_value: _Optional[str] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("decision", "input", "rows", "explain", "timings")
    class InputEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    DECISION_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    decision: str
    input: _containers.MessageMap[str, Value]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    explain: bool
    timings: bool
    def __init__(self, decision: _Optional[str] = ..., input: _Optional[_Mapping[str, Value]] = ..., rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., explain: _Optional[bool] = ..., timings: _Optional[bool] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("id", "input")
    class InputEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    id: str
    input: _containers.MessageMap[str, Value]
    def __init__(self, id: _Optional[str] = ..., input: _Optional[_Mapping[str, Value]] = ...) -> None: ...

class DecideResponse(_message.Message):
    __slots__ = ("decision", "rows", "models", "policy", "schema", "was_repeated", "timings", "document")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    WAS_REPEATED_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    decision: str
    rows: _containers.RepeatedCompositeFieldContainer[DecidedRow]
    models: _containers.RepeatedCompositeFieldContainer[ModelUsed]
    policy: str
    schema: str
    was_repeated: bool
    timings: _containers.RepeatedCompositeFieldContainer[StageTime]
    document: str
    def __init__(self, decision: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[DecidedRow, _Mapping]]] = ..., models: _Optional[_Iterable[_Union[ModelUsed, _Mapping]]] = ..., policy: _Optional[str] = ..., schema: _Optional[str] = ..., was_repeated: _Optional[bool] = ..., timings: _Optional[_Iterable[_Union[StageTime, _Mapping]]] = ..., document: _Optional[str] = ...) -> None: ...

class DecidedRow(_message.Message):
    __slots__ = ("id", "decision", "fault")
    ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    id: str
    decision: Decision
    fault: RowFault
    def __init__(self, id: _Optional[str] = ..., decision: _Optional[_Union[Decision, _Mapping]] = ..., fault: _Optional[_Union[RowFault, _Mapping]] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("id", "outcome", "band", "score", "scores", "reasons", "route", "remedy")
    class ScoresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    id: str
    outcome: str
    band: str
    score: float
    scores: _containers.ScalarMap[str, float]
    reasons: _containers.RepeatedCompositeFieldContainer[Reason]
    route: str
    remedy: RemedyUsed
    def __init__(self, id: _Optional[str] = ..., outcome: _Optional[str] = ..., band: _Optional[str] = ..., score: _Optional[float] = ..., scores: _Optional[_Mapping[str, float]] = ..., reasons: _Optional[_Iterable[_Union[Reason, _Mapping]]] = ..., route: _Optional[str] = ..., remedy: _Optional[_Union[RemedyUsed, _Mapping]] = ...) -> None: ...

class Reason(_message.Message):
    __slots__ = ("code", "text", "field", "contribution")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    code: str
    text: str
    field: str
    contribution: float
    def __init__(self, code: _Optional[str] = ..., text: _Optional[str] = ..., field: _Optional[str] = ..., contribution: _Optional[float] = ...) -> None: ...

class RemedyUsed(_message.Message):
    __slots__ = ("cause", "stage", "used")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    cause: str
    stage: str
    used: str
    def __init__(self, cause: _Optional[str] = ..., stage: _Optional[str] = ..., used: _Optional[str] = ...) -> None: ...

class ModelUsed(_message.Message):
    __slots__ = ("model", "version", "digest")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    digest: str
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class RowFault(_message.Message):
    __slots__ = ("kind", "detail", "faults")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    detail: str
    faults: _containers.RepeatedCompositeFieldContainer[FieldFault]
    def __init__(self, kind: _Optional[str] = ..., detail: _Optional[str] = ..., faults: _Optional[_Iterable[_Union[FieldFault, _Mapping]]] = ...) -> None: ...

class FieldFault(_message.Message):
    __slots__ = ("field", "allowed")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    IS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    field: str
    allowed: str
    def __init__(self, field: _Optional[str] = ..., allowed: _Optional[str] = ..., **kwargs) -> None: ...

class StageTime(_message.Message):
    __slots__ = ("stage", "us")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    US_FIELD_NUMBER: _ClassVar[int]
    stage: str
    us: float
    def __init__(self, stage: _Optional[str] = ..., us: _Optional[float] = ...) -> None: ...
