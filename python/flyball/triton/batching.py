"""Maps Triton's max_batch_size and dynamic_batching to a deployment's terms: rows per run, batch wait, queue.

Ready requests are batched without a setting. Only a queue delay becomes a wait. Must not know files or tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.documents.snapshot.models import TIME_MS_MAX, BatchWait, Limits, Terms

if TYPE_CHECKING:
    from flyball.triton.config import Config
    from flyball.triton.report import Notes

_ROWS_MAX = 1024
_WINDOW_MS_MAX = 1000
_IN_FLIGHT_MAX = 65_536


def terms_of(config: Config, notes: Notes) -> Terms:
    """The terms that a configuration sets."""
    limits: dict[str, int] = {}
    if config.states("max_batch_size"):
        limits["batch_rows_max"] = _rows_max(config.message.max_batch_size, notes)
    batch = None
    if config.states("dynamic_batching"):
        batching = config.message.dynamic_batching
        batch = _wait(batching, limits.get("batch_rows_max", Limits().batch_rows_max), notes)
        limits |= _queue(batching.default_queue_policy, batching.HasField("default_queue_policy"), notes)
        _note_the_rest(batching, notes)
    return Terms(limits=Limits.model_validate(limits), batch=batch)


def _rows_max(stated: int, notes: Notes) -> int:
    if stated <= 0:
        notes.mapped("max_batch_size", "limits.batch_rows_max 0: no batch axis")
        return 0
    if stated == 1:
        notes.mapped("max_batch_size", "limits.batch_rows_max 1: requests are not batched")
        return 1
    if stated > _ROWS_MAX:
        notes.unmapped("max_batch_size", f"{stated} exceeds the limit: limits.batch_rows_max is {_ROWS_MAX}")
        return _ROWS_MAX
    notes.mapped("max_batch_size", f"limits.batch_rows_max {stated}")
    return stated


def _wait(batching: Any, rows_max: int, notes: Notes) -> BatchWait | None:
    """Triton waits until a preferred size is reached, else the largest batch, for at most the delay."""
    sizes = sorted({size for size in batching.preferred_batch_size if size > 0})
    delay_us = batching.max_queue_delay_microseconds
    window_ms = min(_rounded(delay_us), _WINDOW_MS_MAX)
    if not delay_us:
        text = "ready requests run together at once, and no request waits for others"
        notes.mapped("dynamic_batching.preferred_batch_size" if sizes else "dynamic_batching", text)
        return None
    delay = "dynamic_batching.max_queue_delay_microseconds"
    if rows_max <= 1 or (sizes and sizes[0] == 1):
        notes.mapped(delay, "no wait: a single row is a full batch")
        return None
    if window_ms == 0:
        notes.unmapped(delay, f"{delay_us} µs is less than 0.5 ms: no wait, ready requests run at once")
        return None
    size = min(sizes[0] if sizes else rows_max, rows_max)
    window = f"batch.window_ms {window_ms}"
    if window_ms * 1000 == delay_us:
        notes.mapped(delay, window)
    else:
        notes.unmapped(delay, f"{delay_us} µs is not a whole number of ms from 1 to {_WINDOW_MS_MAX}: {window}")
    if len(sizes) > 1:
        others = ", ".join(map(str, sizes[1:]))
        text = f"batch.size {size}, at which a wait ends; larger batches ({others}) form from ready requests"
    else:
        text = f"batch.size {size}" if sizes else f"batch.size {size}, the largest batch, since no size is preferred"
    notes.mapped("dynamic_batching.preferred_batch_size", text)
    return BatchWait(size=size, window_ms=window_ms)


def _queue(policy: Any, stated: bool, notes: Notes) -> dict[str, int]:
    limits = {}
    path = "dynamic_batching.default_queue_policy"
    timeout_us = policy.default_timeout_microseconds
    if timeout_us and policy.timeout_action == policy.DELAY:
        notes.unmapped(f"{path}.timeout_action", "DELAY: late requests are neither requeued nor refused")
    elif timeout_us:
        limits["queue_wait_ms_max"] = min(max(_rounded(timeout_us), 1), TIME_MS_MAX)
        text = f"limits.queue_wait_ms_max {limits['queue_wait_ms_max']}"
        if limits["queue_wait_ms_max"] * 1000 == timeout_us:
            notes.mapped(f"{path}.default_timeout_microseconds", f"{text}; late requests are refused on arrival")
        else:
            text = f"{timeout_us} µs is not a whole number of ms from 1 to {TIME_MS_MAX}: {text}"
            notes.unmapped(f"{path}.default_timeout_microseconds", text)
    if policy.max_queue_size:
        limits["in_flight_max"] = min(policy.max_queue_size, _IN_FLIGHT_MAX)
        text = f"limits.in_flight_max {limits['in_flight_max']}, which also counts running requests"
        notes.mapped(f"{path}.max_queue_size", text)
    if stated and not policy.allow_timeout_override:
        notes.unmapped(f"{path}.allow_timeout_override", "false: a request's own timeout still counts, as its deadline")
    elif stated:
        notes.mapped(f"{path}.allow_timeout_override", "a request's own timeout is its deadline")
    return limits


def _note_the_rest(batching: Any, notes: Notes) -> None:
    if batching.preserve_ordering:
        notes.unmapped(
            "dynamic_batching.preserve_ordering", "answers are in order on one HTTP/1.1 connection, not across connections"
        )
    if batching.priority_levels > len(("high", "normal", "low")):
        text = f"{batching.priority_levels} levels: only three classes exist, and levels from 3 on are the lowest"
        notes.unmapped("dynamic_batching.priority_levels", text)
    elif batching.priority_levels:
        notes.mapped("dynamic_batching.priority_levels", "a request's parameter priority: 1 high, 2 normal, 3 low")
    if batching.default_priority_level:
        text = "requests without a priority are in the normal class, level 2"
        if batching.default_priority_level == 2:
            notes.mapped("dynamic_batching.default_priority_level", text)
        else:
            notes.unmapped("dynamic_batching.default_priority_level", text)
    if batching.priority_queue_policy:
        notes.unmapped("dynamic_batching.priority_queue_policy", "all classes of a model share the same queue limits")


def _rounded(us: int) -> int:
    """Rounded to whole milliseconds."""
    return (us + 500) // 1000
