"""Explains a model's run time: ONNX Runtime's profile by operator, the machine's floor for each, and advice."""

from flyball.models.profile.explanation import Explanation, OperatorLine, explain

__all__ = ["Explanation", "OperatorLine", "explain"]
