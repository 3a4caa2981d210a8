//! How many connections each peer's address has. One that wants more than its share is turned away at once, before it
//! costs anything. Asked once for a connection, never for a request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct Seats {
    /// Only addresses that have a connection, so at most `connections_max` of them.
    taken: Mutex<HashMap<IpAddr, usize>>,
    max: usize,
    turned_away: AtomicU64,
}

/// One connection's place at its address, until dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    address: IpAddr,
}

impl Seats {
    pub(crate) fn new(max: usize) -> Arc<Seats> {
        Arc::new(Seats { taken: Mutex::new(HashMap::new()), max, turned_away: AtomicU64::new(0) })
    }

    /// A seat, or nothing where the address has all of its own.
    pub(crate) fn take(self: &Arc<Seats>, address: IpAddr) -> Option<Seat> {
        let address = address.to_canonical();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_insert(0);
        if *count >= self.max {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *count += 1;
        Some(Seat { seats: Arc::clone(self), address })
    }

    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = taken.entry(self.address) {
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
        let seats = Seats::new(2);
        let here: IpAddr = "10.0.0.1".parse().unwrap();
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let first = seats.take(here);
        let second = seats.take(mapped);
        assert!(first.is_some() && second.is_some());
        assert!(seats.take(here).is_none(), "one machine's two spellings share its seats");
        assert!(seats.take("10.0.0.2".parse().unwrap()).is_some());
        assert_eq!(seats.turned_away(), 1);
        drop(first);
        assert!(seats.take(here).is_some());
        drop(second);
        assert!(seats.taken.lock().unwrap().is_empty(), "what is given back leaves nothing behind");
    }
}
