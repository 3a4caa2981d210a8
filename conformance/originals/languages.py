"""Builds Triton's clients in other languages: once, unmodified, from copies of their sources.

A build leaves programs in its folder `bin`, and beside a program that holds tests their names. Must not know suites or
servers. Builds download what their tools ask for.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMMAND_S = 1800
_REASON_MAX = 300
# As Triton's go.mod asks for; its suite takes the newest of the second.
_GO_PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
)
_GET = {
    "c++": "apt-get install g++",
    "cargo": "https://rustup.rs",
    "go": "https://go.dev/dl",
    "grpc_cpp_plugin": "apt-get install protobuf-compiler-grpc",
    "javac": "apt-get install default-jdk-headless",
    "make": "apt-get install make",
    "mvn": "apt-get install maven",
    "node": "apt-get install nodejs",
    "npm": "apt-get install npm",
    "pkg-config": "apt-get install pkg-config",
    "protoc": "apt-get install protobuf-compiler",
}
_LIBRARIES = {
    "RapidJSON": "rapidjson-dev",
    "grpc++": "libgrpc++-dev",
    "libcurl": "libcurl4-openssl-dev",
    "opencv4": "libopencv-dev",
    "protobuf": "libprotobuf-dev",
    "zlib": "zlib1g-dev",
}
"""What the C++ client links with: the package of Debian by the name that pkg-config knows."""
_GOOGLETEST = Path("/usr/src/googletest")
_PROTOBUF = "include(${CMAKE_ROOT}/Modules/FindProtobuf.cmake)\n"


class _FailedError(Exception):
    """A command of a build failed."""


@dataclass(frozen=True, slots=True)
class _Build:
    """The folder of a build, and its commands."""

    home: Path
    python: Path

    def run(self, folder: str, *command: str | Path, **environment: str | Path) -> str:
        """Run a command in a folder of the build, and return what it printed."""
        given = {name: str(value) for name, value in environment.items()}
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.home / folder,
            env={"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1), **os.environ, **given},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_S,
            check=False,
        )
        said = done.stdout + done.stderr
        with (self.home / "build.log").open("a") as log:
            log.write(f"$ {shlex.join(map(str, command))}\n{said}\n")
        if done.returncode:
            raise _FailedError(_first_error(said) or f"{command[0]}: exit {done.returncode}")
        return done.stdout

    def offer(self, name: str, *command: str | Path) -> None:
        """A program of the suite: the command, with the arguments of the case."""
        self._launcher(name, f'{shlex.join(map(str, command))} "$@"')

    def offer_tests(self, name: str, program: Path, listing: str, one: str) -> None:
        """A program that holds tests: how it lists them, and how it runs one of them."""
        tests = tests_of(self.run(".", program, *listing.split()))
        (self.home / "bin").mkdir(exist_ok=True)
        (self.home / "bin" / f"{name}.tests").write_text("".join(f"{test}\n" for test in tests))
        self._launcher(name, f'{shlex.quote(str(program))} {one}"$1"')

    def _launcher(self, name: str, command: str) -> None:
        path = self.home / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nexec {command}\n")
        path.chmod(0o755)


def _rust(build: _Build) -> None:
    folder = "client/src/rust/triton-client"
    # A workspace of its own: cargo would look for one in the folders above, and find flyball's.
    (build.home / "Cargo.toml").write_text(f'[workspace]\nresolver = "2"\nmembers = ["{folder}"]\n')
    shutil.copyfile(build.home / folder / "Cargo.lock", build.home / "Cargo.lock")
    command = ("cargo", "test", "--locked", "--no-run", "--message-format=json")
    for line in build.run(folder, *command, CARGO_TARGET_DIR=build.home / "target").splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if not message.get("executable"):
            continue
        name, program = message["target"]["name"], Path(message["executable"])
        if message["target"]["kind"] == ["example"]:
            build.offer(name, program)
        elif message["profile"]["test"]:
            build.offer_tests(name, program, "--list --format=terse", "--exact ")


def _go(build: _Build) -> None:
    folder, tools = "client/src/grpc_generated/go", build.home / "tools"
    shutil.copytree(build.home / "common", build.home / folder / "common")
    for plugin in _GO_PLUGINS:
        build.run(folder, "go", "install", plugin, GOBIN=tools)
    build.run(folder, "bash", "gen_go_stubs.sh", PATH=f"{tools}{os.pathsep}{os.environ['PATH']}")
    build.run(folder, "go", "build", "-buildvcs=false", "-o", tools / "grpc_simple_client", "grpc_simple_client.go")
    build.offer("grpc_simple_client", tools / "grpc_simple_client")


def _java(build: _Build) -> None:
    jars = build.home / "jars"
    build.run("client/src/java", "mvn", "-q", "-B", "package", f"-Ddir={jars}")
    for name in ("SimpleInferClient", "MemoryGrowthTest"):
        build.offer(name, "java", "-jar", jars / f"{name}.jar")
    # The stubs are made in one project and compiled in the other, as in Triton's suite.
    library, examples = (f"client/src/grpc_generated/java/{name}" for name in ("library", "examples"))
    for file in (build.home / "common" / "protobuf").glob("*.proto"):
        shutil.copy(file, build.home / library / "src/main/proto")
    build.run(library, "mvn", "-q", "-B", "compile")
    made = build.home / library / "target/generated-sources/protobuf"
    stubs = build.home / examples / "src/main/java/inference"
    shutil.copytree(made / "java/inference", stubs)
    shutil.copytree(made / "grpc-java/inference", stubs, dirs_exist_ok=True)
    path = build.home / "classpath"
    goals = ("package", "dependency:build-classpath", f"-Dmdep.outputFile={path}")
    build.run(examples, "mvn", "-q", "-B", *goals)
    classes = f"{build.home / examples / 'target/classes'}{os.pathsep}{path.read_text()}"
    for name in ("SimpleJavaClient", "SimpleClient"):
        build.offer(name, "java", "-cp", classes, f"clients.{name}")


def _cpp(build: _Build) -> None:
    # Debian's Protobuf has no configuration for CMake, which the client asks for; CMake's own module finds it.
    (build.home / "protobuf-config.cmake").write_text(_PROTOBUF)
    options = {
        "TRITON_ENABLE_CC_HTTP": "ON",
        "TRITON_ENABLE_CC_GRPC": "ON",
        "TRITON_ENABLE_EXAMPLES": "ON",
        "TRITON_ENABLE_TESTS": "ON",
        "TRITON_COMMON_ENABLE_PROTOBUF_PYTHON": "OFF",
        "FETCHCONTENT_SOURCE_DIR_REPO-COMMON": build.home / "common",
        "Protobuf_DIR": build.home,
    }
    if _GOOGLETEST.is_dir():
        options["FETCHCONTENT_SOURCE_DIR_GOOGLETEST"] = _GOOGLETEST
    cmake = build.python.with_name("cmake")
    build.run(".", cmake, "-S", "client/src/c++", "-B", "made", *(f"-D{name}={value}" for name, value in options.items()))
    build.run(".", cmake, "--build", "made")
    made = build.home / "made"
    for source in sorted((build.home / "client/src/c++").glob("*/*.cc")):
        program = made / source.parent.name / source.stem
        if program.is_file() and program.stem != "cc_client_test":
            build.offer(program.name, program)
    build.offer_tests("cc_client_test", made / "tests/cc_client_test", "--gtest_list_tests", "--gtest_filter=")


def _node(build: _Build) -> None:
    folder = "client/src/grpc_generated/javascript"
    shutil.copytree(build.home / "common" / "protobuf", build.home / folder / "proto")
    build.run(folder, "npm", "install", "--no-audit", "--no-fund")
    build.offer("client", "node", build.home / folder / "client.js")


@dataclass(frozen=True, slots=True)
class Language:
    """A client in another language: its folders in Triton's client repository, what builds it, and how."""

    sources: tuple[str, ...]
    tools: tuple[str, ...]
    build: Callable[[_Build], None]
    libraries: tuple[str, ...] = ()


LANGUAGES = {
    "rust_client": Language(("src/rust/triton-client",), ("cargo", "protoc"), _rust),
    "go_client": Language(("src/grpc_generated/go",), ("go", "protoc"), _go),
    "java_client": Language(("src/java", "src/grpc_generated/java"), ("javac", "mvn"), _java),
    "cpp_client": Language(
        ("src/c++",), ("c++", "make", "pkg-config", "protoc", "grpc_cpp_plugin"), _cpp, tuple(_LIBRARIES)
    ),
    "nodejs_client": Language(("src/grpc_generated/javascript",), ("node", "npm"), _node),
}
"""By the name of its suite."""


def missing(suite: str, client: Path) -> str | None:
    """What this machine lacks to build a client, and how to get it."""
    language = LANGUAGES[suite]
    if not (client.parent / "common" / "protobuf").is_dir():
        return "Triton's .proto files are missing; clone triton-inference-server/common beside client"
    for source in language.sources:
        if not (client / source).is_dir():
            return f"TRITON_CLIENT_DIR has no folder {source}"
    for tool in language.tools:
        if shutil.which(tool) is None:
            return f"{tool} is missing; get it:  {_GET[tool]}"
    finder = shutil.which("pkg-config") or "pkg-config"
    for library in language.libraries:
        if subprocess.run([finder, "--exists", library], check=False).returncode:
            return f"{library} is missing; get it:  apt-get install {_LIBRARIES[library]}"
    return None


def build(suite: str, client: Path, parts: Path, python: Path) -> str | None:
    """Build a client, unless that was done from the same sources; the reason where it fails."""
    language = LANGUAGES[suite]
    home, common = parts / suite, client.parent / "common"
    folders = [client / source for source in language.sources]
    digest, stamp = _digest([*folders, common, Path(__file__)]), home / "sources.sha256"
    if stamp.is_file() and stamp.read_text() == digest:
        return None
    shutil.rmtree(home, ignore_errors=True)
    for source, folder in zip(language.sources, folders, strict=True):
        shutil.copytree(folder, home / "client" / source)
    shutil.copytree(common, home / "common", ignore=shutil.ignore_patterns(".git"))
    try:
        language.build(_Build(home, python))
    except (_FailedError, OSError, subprocess.TimeoutExpired) as error:
        return f"it does not build: {error}"[:_REASON_MAX]
    stamp.write_text(digest)
    return None


def tests_of(listing: str) -> list[str]:
    """The tests in a listing of Rust's harness (`name: test`) or of GoogleTest (`Suite.`, then its tests indented)."""
    found, suite = [], ""
    for line in listing.splitlines():
        name = line.partition("#")[0].rstrip()
        if name.endswith(": test"):
            found.append(name.removesuffix(": test"))
        elif name.startswith("  "):
            found.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return found


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        for file in _files(path):
            digest.update(f"{file.relative_to(path.parent)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*")):
        if file.is_file() and ".git" not in file.parts:
            yield file


def _first_error(said: str) -> str:
    """The first line that names an error; the last one is the tool's own summary."""
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    named = [line for line in lines if "error" in line.lower()]
    return (named[:1] or lines[-1:] or [""])[0]
