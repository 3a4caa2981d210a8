"""Where a model's time goes: ONNX Runtime's profile by operator, the machine's floor for each, and what to try next."""

from flyball.models.profile.explanation import Explanation, OperatorLine, explain

__all__ = ["Explanation", "OperatorLine", "explain"]
