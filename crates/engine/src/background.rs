//! Threads that stand behind the lanes. One that gives way runs only when nobody else wants the core, and loses it the
//! moment somebody does. Being nice is not enough for long work: a nice thread keeps the core to the end of its slice, some
//! milliseconds in which a lane beside it answers nothing. But it always gets a part of the time, so it may hold a lock that
//! a lane wants.

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

/// Gives the calling thread the smallest part of the time that still is one, where the system knows how.
pub fn be_nice() {
    const NICEST: libc::c_int = 19;
    #[cfg(target_os = "linux")]
    // SAFETY: takes plain numbers; on Linux, nought as a process is the calling thread alone. Failing leaves it as it was.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_nice_thread_keeps_the_usual_policy_and_leaves_others_as_they_are() {
        // SAFETY: both ask for the calling thread's own scheduling.
        let own = || unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        let before = own();
        let nice = std::thread::spawn(move || {
            be_nice();
            own()
        });
        assert_eq!(nice.join().unwrap(), (libc::SCHED_OTHER, 19));
        assert_eq!(own(), before);
    }

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
