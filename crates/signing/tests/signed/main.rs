//! What strangers and signers could send, against the public functions; `signer` makes it.

mod folder;
mod mutations;
mod oms;
mod signer;
