//! Scheduling of background threads, which yield to the lanes.
//!
//! An idle-policy thread runs only when no other thread wants the core, and loses it at once. A niced thread
//! keeps the core to the end of its slice, some milliseconds in which a lane on that core answers nothing;
//! but it always gets some time, so it may hold a lock that a lane needs.

/// Gives the calling thread the idle policy, if supported. It cannot be undone without a privilege.
pub fn set_idle_policy() {
    #[cfg(target_os = "linux")]
    // SAFETY: the call takes a policy and its own parameter block, changes only the calling thread's
    // scheduling, and has no effect if it fails.
    unsafe {
        let parameter = libc::sched_param { sched_priority: 0 };
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter);
    }
}

/// Gives the calling thread the lowest nice priority, if supported.
pub fn set_lowest_priority() {
    const NICEST: libc::c_int = 19;
    #[cfg(target_os = "linux")]
    // SAFETY: takes plain numbers; on Linux, process 0 is the calling thread alone. Has no effect if it
    // fails.
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
        // SAFETY: both query the calling thread's own scheduling.
        let own = || unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        let before = own();
        let nice = std::thread::spawn(move || {
            set_lowest_priority();
            own()
        });
        assert_eq!(nice.join().unwrap(), (libc::SCHED_OTHER, 19));
        assert_eq!(own(), before);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_gives_way_has_the_idle_policy() {
        let policy = std::thread::spawn(|| {
            set_idle_policy();
            // SAFETY: queries the calling thread's own policy.
            unsafe { libc::sched_getscheduler(0) }
        });
        assert_eq!(policy.join().unwrap(), libc::SCHED_IDLE);
    }
}
