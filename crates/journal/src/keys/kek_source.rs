//! The source of the key-encryption key: a file, the environment, or a command's output.
//!
//! The key is 64 hexadecimal digits in each of them.

use super::KeyError;
use crate::disk::{RealDisk, write_whole};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

pub(super) type Kek = Zeroizing<[u8; 32]>;

/// A command may query a key service over the network, but must not block startup forever.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(10);
/// A key is much shorter.
const TEXT_BYTES_MAX: u64 = 4096;
/// Rejected permission bits. Group read is allowed: secrets are often mounted for a group.
const MODE_REFUSED: u32 = 0o037;
const OWN_FILE: &str = "kek";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KekSource {
    File(PathBuf),
    Env(String),
    /// A program and its arguments, without a shell.
    Command(Vec<String>),
}

impl FromStr for KekSource {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<KekSource, KeyError> {
        let wrong = || KeyError::Place(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        let words = || rest.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match kind {
            _ if rest.trim().is_empty() => Err(wrong()),
            "file" => Ok(KekSource::File(PathBuf::from(rest))),
            "env" if !rest.contains(['=', '\0']) => Ok(KekSource::Env(rest.to_owned())),
            "command" => Ok(KekSource::Command(words())),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for KekSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KekSource::File(path) => write!(f, "file:{}", path.display()),
            KekSource::Env(name) => write!(f, "env:{name}"),
            // Arguments may be secret.
            KekSource::Command(words) => write!(f, "command:{}", words.first().map_or("", String::as_str)),
        }
    }
}

impl KekSource {
    /// The default source: the journal's own file.
    pub fn own(folder: &Path) -> KekSource {
        KekSource::File(folder.join(OWN_FILE))
    }

    /// Reads the key. `make_for` is a directory that gets a new key if this is its source and none exists.
    pub(super) fn read(&self, make_for: Option<&Path>) -> Result<Kek, KeyError> {
        let text = match self {
            KekSource::File(path) => {
                if make_for.is_some_and(|folder| *self == KekSource::own(folder)) && !path.exists() {
                    make(path).map_err(|cause| KeyError::Io { path: path.clone(), cause })?;
                }
                of_file(path)
            }
            KekSource::Env(name) => match std::env::var(name) {
                Ok(text) => Ok(Zeroizing::new(text)),
                Err(_) => Err("the environment variable is not set".to_owned()),
            },
            KekSource::Command(words) => of_command(words),
        };
        text.and_then(|text| decode(&text)).map_err(|why| KeyError::NoKek { place: self.to_string(), why })
    }
}

/// Writes the key atomically and durably: losing it loses everything sealed under it.
fn make(path: &Path) -> io::Result<()> {
    let mut key = Kek::default();
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut key[..])
        .map_err(|_| io::Error::other("the system provides no random numbers"))?;
    let mut text = Zeroizing::new(String::with_capacity(65));
    key.iter().for_each(|byte| text.push_str(&format!("{byte:02x}")));
    text.push('\n');
    write_whole(&RealDisk, path, text.as_bytes())
}

fn of_file(path: &Path) -> Result<Zeroizing<String>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let facts = file.metadata().map_err(|error| error.to_string())?;
    mode_refused(&facts).map_or_else(|| bounded(file), Err)
}

/// Why a secret file is rejected: others can read or change it.
pub(crate) fn mode_refused(facts: &Metadata) -> Option<String> {
    let mode = facts.permissions().mode() & 0o777;
    (facts.is_file() && mode & MODE_REFUSED != 0)
        .then(|| format!("its mode is {mode:o}, so others can read or change it; run: chmod 600"))
}

fn bounded(source: impl Read) -> Result<Zeroizing<String>, String> {
    let mut text = Zeroizing::new(String::with_capacity(TEXT_BYTES_MAX as usize + 1));
    source.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > TEXT_BYTES_MAX { Err("it is too long".to_owned()) } else { Ok(text) }
}

fn of_command(words: &[String]) -> Result<Zeroizing<String>, String> {
    let (program, arguments) = words.split_first().ok_or("it names no program")?;
    let until = Instant::now() + COMMAND_TIME_MAX;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("the command printed nothing")?;
    let (send, receive) = sync_channel(1);
    // Ends with the command's output; output after the timeout is discarded.
    std::thread::spawn(move || send.send(bounded(output)));
    let text = receive.recv_timeout(COMMAND_TIME_MAX);
    match end(&mut child, until).map_err(|error| error.to_string())? {
        Some(status) if !status.success() => Err(format!("the command exited with {status}")),
        Some(_) => text.map_err(|_| too_long())?,
        None => Err(too_long()),
    }
}

fn too_long() -> String {
    format!("the command took longer than {} s", COMMAND_TIME_MAX.as_secs())
}

/// The exit status; none if the command had to be killed.
fn end(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn decode(text: &str) -> Result<Kek, String> {
    let digits = text.trim().as_bytes();
    let wrong = || "it must be 64 hexadecimal digits, as `openssl rand -hex 32` prints them".to_owned();
    let mut kek = Kek::default();
    if digits.len() != 2 * kek.len() {
        return Err(wrong());
    }
    for (byte, pair) in kek.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else { return Err(wrong()) };
        *byte = (high << 4 | low) as u8;
    }
    Ok(kek)
}
