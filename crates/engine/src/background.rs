//! A thread that gives way to all others: the kernel runs it only when nobody else wants the core, and takes the core away
//! the moment somebody does. Being nice is not enough: a nice thread keeps the core to the end of its slice, some
//! milliseconds in which a lane beside it answers nothing.

/// Puts the calling thread behind all others, where the system knows how. There is no way back without a right.
pub fn give_way() {
    #[cfg(target_os = "linux")]
    // SAFETY: the call takes a policy and a parameter block of its own, changes only the calling thread's scheduling, and
    // failing leaves it as it was.
    unsafe {
        let parameter = libc::sched_param { sched_priority: 0 };
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_gives_way_has_the_idle_policy() {
        let policy = std::thread::spawn(|| {
            give_way();
            // SAFETY: asks for the calling thread's own policy.
            unsafe { libc::sched_getscheduler(0) }
        });
        assert_eq!(policy.join().unwrap(), libc::SCHED_IDLE);
    }
}
