//! Handles integer divisions that trap: by zero, or the minimum by -1.
//!
//! x86-64 raises SIGFPE for them, which kills the process, and ONNX Runtime 1.31 does not check all of its
//! divisions (Div, Mod, STFT, Einsum): one caller's row would kill the server. During a run such a division
//! yields zero instead; the run goes on and then fails. Other processors do not trap. Must not know sessions.

use std::cell::Cell;

/// The error of such a run: a result computed with a false quotient must not be returned.
pub(crate) const TRAPPED: &str = "it divided an integer by zero, or the smallest integer by -1";

thread_local! {
    /// Whether a division trapped in this thread's run. None: there is no run.
    static SEEN: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Runs `work` and returns whether one of its divisions trapped.
pub(crate) fn survive<T>(work: impl FnOnce() -> T) -> (T, bool) {
    SEEN.set(Some(false));
    let done = work();
    (done, SEEN.take().unwrap_or(false))
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn catch_traps() {}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::catch_traps;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::SEEN;
    use libc::{REG_RAX, REG_RDX, REG_RIP, SIGFPE, c_int, c_void, siginfo_t, ucontext_t};
    use std::sync::OnceLock;

    /// The previous signal handler; another library may have installed one.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
    /// Legacy prefixes that compilers put before a division.
    const PREFIXES_MAX: usize = 4;

    /// Installs the handler for all threads.
    pub(crate) fn catch_traps() {
        // SAFETY: both structures are plain data and valid when zeroed; the handler has the signature that
        // SA_SIGINFO requires, and is async-signal-safe.
        unsafe {
            let (mut before, mut ours) =
                (std::mem::zeroed::<libc::sigaction>(), std::mem::zeroed::<libc::sigaction>());
            if libc::sigaction(SIGFPE, std::ptr::null(), &raw mut before) != 0 || BEFORE.set(before).is_err()
            {
                return;
            }
            ours.sa_sigaction = trapped as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(SIGFPE, &raw const ours, std::ptr::null_mut());
        }
    }

    unsafe extern "C" fn trapped(_signal: c_int, _info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes the thread's registers, and restores them as they are left.
        let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
        let code = registers[REG_RIP as usize] as *const u8;
        // SAFETY: the processor has just read this instruction, and no byte beyond it is read.
        let division = Division::read(|place| unsafe { *code.add(place) });
        let Some(division) = division.filter(|_| SEEN.get().is_some()) else { return as_before() };
        SEEN.set(Some(true));
        let kept = match division.operand_bytes {
            1 | 2 => !0xffff,
            _ => 0,
        };
        registers[REG_RAX as usize] &= kept;
        if division.operand_bytes > 1 {
            registers[REG_RDX as usize] &= kept;
        }
        registers[REG_RIP as usize] += division.length as i64;
    }

    /// Not a run's: restores the previous handler and retries the instruction.
    fn as_before() {
        if let Some(before) = BEFORE.get() {
            // SAFETY: restores the kernel's earlier value; the call is allowed in a handler.
            unsafe { libc::sigaction(SIGFPE, before, std::ptr::null_mut()) };
        }
    }

    /// A `div` or `idiv`: quotient to RAX and remainder to RDX; of bytes both to AX.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Division {
        pub(super) length: usize,
        pub(super) operand_bytes: u8,
    }

    impl Division {
        /// Decodes the instruction, whose bytes `at` returns.
        pub(super) fn read(at: impl Fn(usize) -> u8) -> Option<Division> {
            let (mut place, mut operand_bytes) = (0, 4);
            while let prefix @ (0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3) = at(place) {
                if prefix == 0x66 {
                    operand_bytes = 2;
                }
                place += 1;
                if place > PREFIXES_MAX {
                    return None;
                }
            }
            if let rex @ 0x40..=0x4f = at(place) {
                if rex & 8 != 0 {
                    operand_bytes = 8;
                }
                place += 1;
            }
            match at(place) {
                0xf6 => operand_bytes = 1,
                0xf7 => {}
                _ => return None,
            }
            let operand = at(place + 1);
            if !matches!(operand >> 3 & 7, 6 | 7) {
                return None;
            }
            let mut length = place + 2;
            let (mode, mut base) = (operand >> 6, operand & 7);
            if mode != 3 {
                if base == 4 {
                    base = at(length) & 7;
                    length += 1;
                }
                length += match mode {
                    0 if base == 5 => 4,
                    0 => 0,
                    1 => 1,
                    _ => 4,
                };
            }
            Some(Division { length, operand_bytes })
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::x86_64::Division;
    use super::*;
    use std::arch::asm;

    #[test]
    fn a_division_is_read_in_each_of_its_forms_and_nothing_else_is_one() {
        let cases: [(&[u8], usize, u8); 12] = [
            (&[0xf7, 0xf9], 2, 4),                         // idiv ecx
            (&[0x48, 0xf7, 0xf9], 3, 8),                   // idiv rcx
            (&[0x49, 0xf7, 0xf8], 3, 8),                   // idiv r8
            (&[0xf7, 0xf1], 2, 4),                         // div ecx
            (&[0x66, 0xf7, 0xf9], 3, 2),                   // idiv cx
            (&[0xf6, 0xf9], 2, 1),                         // idiv cl
            (&[0x48, 0xf7, 0x3e], 3, 8),                   // idiv [rsi]
            (&[0x48, 0xf7, 0x7e, 0x08], 4, 8),             // idiv [rsi+8]
            (&[0x48, 0xf7, 0xbe, 0, 1, 0, 0], 7, 8),       // idiv [rsi+256]
            (&[0x48, 0xf7, 0x3c, 0xce], 4, 8),             // idiv [rsi+rcx*8]
            (&[0x48, 0xf7, 0x3c, 0xcd, 0, 0, 0, 0], 8, 8), // idiv [rcx*8+0]
            (&[0xf7, 0x3d, 0, 0, 0, 0], 6, 4),             // idiv [rip+0]
        ];
        for (code, length, operand_bytes) in cases {
            assert_eq!(
                Division::read(|place| code[place]),
                Some(Division { length, operand_bytes }),
                "{code:x?}"
            );
        }
        // neg, an addition, and endless prefixes.
        for other in [&[0xf7, 0xd9][..], &[0x01, 0xc8], &[0x66; 8]] {
            assert_eq!(Division::read(|place| other[place]), None, "{other:x?}");
        }
    }

    #[test]
    fn a_division_that_traps_gives_zero_and_the_next_one_what_it_should() {
        catch_traps();
        for (dividend, divisor, wanted) in [(i64::MIN, -1, (0, 0)), (7, 0, (0, 0)), (7, 2, (3, 1))] {
            let ((quotient, remainder), trapped) = survive(|| divided(dividend, divisor));
            assert_eq!((quotient, remainder, trapped), (wanted.0, wanted.1, wanted == (0, 0)));
        }
        let (quotient, trapped) = survive(|| divided_bytes(0x1280, 0));
        assert_eq!((quotient, trapped), (0xabcd_0000, true), "only AX is written");
    }

    fn divided(dividend: i64, divisor: i64) -> (i64, i64) {
        let (quotient, remainder);
        // SAFETY: reads and writes registers alone; a trap is handled.
        unsafe {
            asm!("cqo", "idiv {}", in(reg) divisor, inout("rax") dividend => quotient, out("rdx") remainder);
        }
        (quotient, remainder)
    }

    fn divided_bytes(dividend: u64, divisor: u8) -> u64 {
        let mut quotient = 0xabcd_0000 | dividend;
        // SAFETY: as above.
        unsafe { asm!("div {}", in(reg_byte) divisor, inout("rax") quotient) };
        quotient
    }
}
