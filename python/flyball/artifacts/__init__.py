"""Content-addressed artifacts: stores on disk or in S3, packages, garbage collection, and transfer bundles.

Must not know events, versions or permissions: it maps digests to verified bytes.
"""
