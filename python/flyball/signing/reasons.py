"""The closed list of reasons to refuse a signature, and the function that makes the error.

`crates/signing` has the same list; the registry uses some of them. Tests compare both with
tests/golden/signing/reasons.json.
"""

from __future__ import annotations

from enum import StrEnum

from flyball.errors import SignatureError


class Reason(StrEnum):
    """Why a signature was refused. Values are stable: events, metrics and answers contain them."""

    UNSIGNED = "unsigned"
    MALFORMED = "malformed"
    UNSUPPORTED = "unsupported"
    BAD_SIGNATURE = "bad_signature"
    UNKNOWN_KEY = "unknown_key"
    WRONG_ROLE = "wrong_role"
    KEY_NOT_YET_VALID = "key_not_yet_valid"
    KEY_EXPIRED = "key_expired"
    KEY_REVOKED = "key_revoked"
    PACKAGE_REVOKED = "package_revoked"
    NOT_YET_VALID = "not_yet_valid"
    EXPIRED = "expired"
    WRONG_ENVIRONMENT = "wrong_environment"
    WRONG_NAME = "wrong_name"
    WRONG_SUBJECT = "wrong_subject"
    BELOW_MINIMUM = "below_minimum"
    APPROVALS_MISSING = "approvals_missing"
    CHANGED_FILE = "changed_file"
    MISSING_FILE = "missing_file"
    EXTRA_FILE = "extra_file"
    SYMLINK = "symlink"
    SPECIAL_FILE = "special_file"
    PATH_ESCAPE = "path_escape"
    DUPLICATE_NAME = "duplicate_name"
    IGNORED_PATHS = "ignored_paths"
    ROOT_MISMATCH = "root_mismatch"
    TRUST_EXPIRED = "trust_expired"
    TRUST_DOWNGRADE = "trust_downgrade"
    INDEX_DOWNGRADE = "index_downgrade"
    WRONG_DIGEST = "wrong_digest"
    TOO_LARGE = "too_large"


def refused(reason: Reason, words: str, next_step: str | None = None) -> SignatureError:
    """The error to raise: a reason for machines, words for people."""
    return SignatureError(reason.value, words, next_step=next_step)
