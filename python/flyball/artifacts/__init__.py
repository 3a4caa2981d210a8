"""Bytes by digest: a store on disk or in S3, packages in it, what may leave it, and one file that carries them elsewhere.

Must not know events, names of versions or who may do what: digests come in, verified bytes go out.
"""

from flyball.artifacts.blobs import Blob, Store
from flyball.artifacts.folder_store import FolderStore
from flyball.artifacts.gc import References, Sweep, collect, references_of
from flyball.artifacts.packages import Package, PackageFile, fetch_package, put_package, read_package
from flyball.artifacts.stores import open_store

__all__ = [
    "Blob",
    "FolderStore",
    "Package",
    "PackageFile",
    "References",
    "Store",
    "Sweep",
    "collect",
    "fetch_package",
    "open_store",
    "put_package",
    "read_package",
    "references_of",
]
