//! Input from strangers and signers against the public functions; `signer` makes it.

mod folder;
mod mutations;
mod oms;
mod signer;
