//! The allowed system calls: an allow-list for seccomp, on x86-64 and ARM64.
//!
//! Other calls return EPERM. Found by running conversions of scikit-learn, LightGBM and XGBoost under strace;
//! a call belongs here if a computation needs it and it reaches nothing outside the process but files that
//! Landlock allows.

use libc::{c_int, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Memory of this process. Pages may become executable: libraries are loaded, and code of a model is expected
/// anyway.
const MEMORY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_msync,
    libc::SYS_membarrier,
    libc::SYS_get_mempolicy,
];
/// Threads: waiting, sleeping and ending. `clone`, below, starts them.
const THREADS: &[c_long] = &[
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];
/// Signals of this process; `tgkill`, below, sends them.
const SIGNALS: &[c_long] =
    &[libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack];
/// Open files, and those that Landlock lets it create, rename and remove. No modes, owners, times or
/// attributes.
const FILES: &[c_long] = &[
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fadvise64,
    libc::SYS_flock,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_umask,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
];
/// Names, sizes and times of files: Landlock does not hide those, so the existence of a path can be tested.
const NAMES: &[c_long] = &[
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
];
/// Facts about the process, the machine and the time; random numbers.
const FACTS: &[c_long] = &[
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
];
/// The same under names that only x86-64 still has, and its registers.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_time,
    libc::SYS_getrlimit,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];
/// Their arguments are in memory, which a filter cannot see. libc falls back to `clone` and `openat`.
const ABSENT: &[c_long] = &[libc::SYS_clone3, libc::SYS_openat2];

/// Used by Python and libc. Others change attributes of files that are open for reading, or type on
/// terminals.
const IOCTLS: &[u64] = &[
    libc::TCGETS,
    libc::TCGETS2,
    libc::TIOCGWINSZ,
    libc::FIONREAD,
    libc::FIONBIO,
    libc::FIOCLEX,
    libc::FIONCLEX,
];
/// Without those that send signals to the owner of a file: any process of the user.
const FCNTLS: &[c_int] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];
/// Names of threads and of memory.
const PRCTLS: &[c_int] = &[libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];

/// Applies to all threads of this process.
pub(crate) fn restrict() -> Result<(), seccompiler::Error> {
    // In this order: once the list is in force, no other filter can be set. It allows what the first one
    // handles.
    seccompiler::apply_filter_all_threads(&absent()?)?;
    seccompiler::apply_filter_all_threads(&allowed()?)
}

/// The filter of calls that return ENOSYS.
fn absent() -> Result<BpfProgram, seccompiler::Error> {
    let rules = ABSENT.iter().map(|&call| (call, Vec::new())).collect();
    compiled(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

/// The filter of everything allowed; for this process alone, whose id it contains.
fn allowed() -> Result<BpfProgram, seccompiler::Error> {
    let always = [MEMORY, THREADS, SIGNALS, FILES, NAMES, FACTS, OLDER, ABSENT];
    let mut rules: Rules = always.into_iter().flatten().map(|&call| (call, Vec::new())).collect();
    rules.extend(by_argument()?);
    compiled(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// Calls that are allowed by their arguments. For most the kernel uses only the lower half of an argument.
fn by_argument() -> Result<Rules, seccompiler::Error> {
    let one_of = |place: u8, values: &[u64]| -> Result<Vec<SeccompRule>, seccompiler::Error> {
        values.iter().map(|&value| rule(place, Length::Dword, Op::Eq, value)).collect()
    };
    let numbers = |values: &[c_int]| values.iter().map(|&value| value as u64).collect::<Vec<u64>>();
    let thread = libc::CLONE_THREAD as u64;
    let mut rules = Rules::from([
        // Threads, not processes.
        (libc::SYS_clone, vec![rule(0, Length::Dword, Op::MaskedEq(thread), thread)?]),
        // Signals to its own threads.
        (libc::SYS_tgkill, one_of(0, &[u64::from(std::process::id())])?),
        (libc::SYS_ioctl, one_of(1, IOCTLS)?),
        (libc::SYS_fcntl, one_of(1, &numbers(FCNTLS))?),
        (libc::SYS_prctl, one_of(0, &numbers(PRCTLS))?),
        // Limits may be read but not set: the pointer to the new ones is null.
        (libc::SYS_prlimit64, vec![rule(2, Length::Qword, Op::Eq, 0)?]),
        (libc::SYS_openat, opening(2)?),
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, opening(1)?);
    Ok(rules)
}

/// Opens a file without truncating it, or for writing: `O_TRUNC` alone empties a file, and Landlock before
/// version 3 does not count it as writing.
fn opening(place: u8) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let flags =
        |mask: c_int, value: c_int| rule(place, Length::Dword, Op::MaskedEq(mask as u64), value as u64);
    Ok(vec![
        flags(libc::O_TRUNC, 0)?,
        flags(libc::O_ACCMODE, libc::O_WRONLY)?,
        flags(libc::O_ACCMODE, libc::O_RDWR)?,
    ])
}

fn rule(place: u8, length: Length, op: Op, value: u64) -> Result<SeccompRule, seccompiler::Error> {
    Ok(SeccompRule::new(vec![SeccompCondition::new(place, length, op, value)?])?)
}

fn compiled(
    rules: Rules,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, seccompiler::Error> {
    let arch = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, otherwise, listed, arch)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};
    use rustix::io::Errno;
    use std::io::ErrorKind;
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    /// Runs a closure on a thread with only the filters, without Landlock.
    fn filtered<T: Send>(act: impl FnOnce() -> T + Send) -> T {
        let programs = [absent(), allowed()].map(|program| program.expect("the rules compile"));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                programs
                    .iter()
                    .for_each(|program| seccompiler::apply_filter(program).expect("the kernel takes it"));
                act()
            });
            thread.join().expect("it ends")
        })
    }

    #[test]
    fn opening_a_file_to_read_never_cuts_it_off_even_where_landlock_does_not_know_lengths() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "as it was").expect("written");
        let opened = |flags| open(file.path(), flags, Mode::empty()).map(|_| ());
        let found = filtered(|| {
            [OFlags::RDONLY | OFlags::TRUNC, OFlags::ACCMODE | OFlags::TRUNC, OFlags::RDONLY, OFlags::RDWR]
                .map(opened)
        });
        assert_eq!(found, [Err(Errno::PERM), Err(Errno::PERM), Ok(()), Ok(())]);
        assert_eq!(std::fs::read_to_string(file.path()).expect("read"), "as it was");
    }

    #[test]
    fn modes_sockets_and_programs_are_refused_without_landlock_too() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path();
        let found = filtered(|| {
            let mode = std::fs::set_permissions(path, PermissionsExt::from_mode(0o777));
            let socket = TcpListener::bind("127.0.0.1:0").map(|_| ());
            let program = std::process::Command::new("/bin/true").status().map(|_| ());
            [mode, socket, program].map(|tried| tried.expect_err("it is refused").kind())
        });
        assert_eq!(found, [ErrorKind::PermissionDenied; 3]);
    }

    #[test]
    fn threads_can_still_be_started_and_waited_for() {
        assert_eq!(filtered(|| std::thread::spawn(|| 7).join().expect("it ends")), 7);
    }
}
