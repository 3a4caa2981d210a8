"""A package's way through a tar: what is sent comes out again, and what a stranger sends comes nowhere."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from flyball.errors import RefusedError
from flyball.registry.packages import tar


def archive(*entries: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for entry, content in entries:
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    out.seek(0)
    return out


def file(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


def link(kind: bytes, target: str) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo("link")
    entry.type, entry.linkname = kind, target
    return entry, b""


def special(kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo("special")
    entry.type = kind
    return entry, b""


def test_what_is_sent_comes_out_the_same(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "samples").mkdir(parents=True)
    target.mkdir()
    (source / "meta.json").write_bytes(b"{}")
    (source / "samples" / "ünïcode.json").write_bytes(b"[1]")
    (source / ("l" * 120)).write_bytes(b"long")
    out = io.BytesIO()
    tar.write(source, out)
    out.seek(0)
    tar.read(out, target, 100)
    found = {path.relative_to(target).as_posix(): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert found == {"meta.json": b"{}", "samples/ünïcode.json": b"[1]", "l" * 120: b"long"}


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    first, second = io.BytesIO(), io.BytesIO()
    tar.write(tmp_path, first)
    (tmp_path / "a").chmod(0o600)
    tar.write(tmp_path, second)
    assert first.getvalue() == second.getvalue()


BAD: dict[str, tuple[Callable[[], io.BytesIO], str]] = {
    "up": (lambda: archive(file("../out")), "path_escape"),
    "up inside": (lambda: archive(file("a/../../out")), "path_escape"),
    "absolute": (lambda: archive(file("/out")), "path_escape"),
    "backslash": (lambda: archive(file("a\\b")), "path_escape"),
    "dot": (lambda: archive(file("./a")), "path_escape"),
    "twice the slash": (lambda: archive(file("a//b")), "path_escape"),
    "long": (lambda: archive(file("a/" * 600 + "b")), "path_escape"),
    "symlink": (lambda: archive(link(tarfile.SYMTYPE, "/etc/passwd")), "malformed_package"),
    "hard link": (lambda: archive(link(tarfile.LNKTYPE, "a")), "malformed_package"),
    "device": (lambda: archive(special(tarfile.CHRTYPE)), "malformed_package"),
    "fifo": (lambda: archive(special(tarfile.FIFOTYPE)), "malformed_package"),
    "folder": (lambda: archive(special(tarfile.DIRTYPE)), "malformed_package"),
    "twice": (lambda: archive(file("a"), file("a")), "duplicate_name"),
    "file and folder": (lambda: archive(file("a"), file("a/b")), "duplicate_name"),
    "folder and file": (lambda: archive(file("a/b"), file("a")), "duplicate_name"),
    "too large": (lambda: archive(file("a", b"x" * 60), file("b", b"x" * 60)), "body_too_large"),
    "empty": (archive, "malformed_package"),
    "cut off": (lambda: io.BytesIO(archive(file("a", b"x" * 90)).getvalue()[:520]), "malformed_package"),
    "compressed": (lambda: io.BytesIO(b"\x1f\x8b" + b"\0" * 600), "malformed_package"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_plain_package_is_refused_and_nothing_leaves_the_folder(case: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    made, code = BAD[case]
    with pytest.raises(RefusedError) as caught:
        tar.read(made(), target, 100)
    assert caught.value.code == code
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_more_files_than_a_package_may_have_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar, "ENTRIES_MAX", 2)
    with pytest.raises(RefusedError, match="more than 2 files"):
        tar.read(archive(file("a"), file("b"), file("c")), tmp_path, 100)


def test_a_folder_with_a_link_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/etc/passwd")
    with pytest.raises(RefusedError, match="a is not a plain file"):
        tar.write(tmp_path, io.BytesIO())
