"""Bytes by digest: a store on disk or in S3, packages in it, what may leave it, and one file that carries them elsewhere.

Must not know events, names of versions or who may do what: digests come in, verified bytes go out.
"""
