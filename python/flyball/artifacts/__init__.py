"""Content-addressed artifacts: stores on disk or in S3, packages, garbage collection, and transfer bundles.

Must not know events, versions or permissions: it maps digests to verified bytes.
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
