//! Limits the connections of each IP address.
//!
//! A connection beyond the limit is closed at once. Checked once per connection, never per request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct AddressSlots {
    /// Only addresses with a connection, so at most `connections_max`.
    taken: Mutex<HashMap<IpAddr, usize>>,
    max: usize,
    turned_away: AtomicU64,
}

/// A connection's slot of its address, released when dropped; empty if the address is not limited.
pub(crate) struct AddressSlot(Option<(Arc<AddressSlots>, IpAddr)>);

impl AddressSlots {
    pub(crate) fn new(max: usize) -> Arc<AddressSlots> {
        Arc::new(AddressSlots { taken: Mutex::new(HashMap::new()), max, turned_away: AtomicU64::new(0) })
    }

    /// A slot; `None` if the address has used all of its slots.
    pub(crate) fn take(self: &Arc<AddressSlots>, address: IpAddr) -> Option<AddressSlot> {
        let address = address.to_canonical();
        // Not limited: all clients behind a local proxy have this address.
        if address.is_loopback() {
            return Some(AddressSlot(None));
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_insert(0);
        if *count >= self.max {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *count += 1;
        Some(AddressSlot(Some((Arc::clone(self), address))))
    }

    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let Some((slots, address)) = &self.0 else { return };
        let mut taken = slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = taken.entry(*address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_seats_and_another_has_its_own() {
        let slots = AddressSlots::new(2);
        let here: IpAddr = "10.0.0.1".parse().unwrap();
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let first = slots.take(here);
        let second = slots.take(mapped);
        assert!(first.is_some() && second.is_some());
        assert!(slots.take(here).is_none(), "one machine's two spellings share its slots");
        assert!(slots.take("10.0.0.2".parse().unwrap()).is_some());
        assert_eq!(slots.turned_away(), 1);
        drop(first);
        assert!(slots.take(here).is_some());
        drop(second);
        assert!(slots.taken.lock().unwrap().is_empty(), "what is given back leaves nothing behind");
    }

    #[test]
    fn connections_of_this_machine_are_not_counted() {
        let slots = AddressSlots::new(1);
        for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            let address: IpAddr = address.parse().unwrap();
            let held = (slots.take(address), slots.take(address));
            assert!(held.0.is_some() && held.1.is_some(), "{address}");
        }
        assert_eq!(slots.turned_away(), 0);
    }
}
