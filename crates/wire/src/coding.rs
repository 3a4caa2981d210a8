//! Content codings: gzip and deflate in both directions, with a bound on inflated size.
//!
//! Works in steps, so that the caller decides where and for how long. Knows nothing of threads.

use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use flyball_core::{Fault, FaultKind, Stage, triton_texts};
use std::io::{self, BufRead, Read, Write};

/// The supported codings, as headers list them.
pub const CODINGS: &str = "gzip, deflate";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coding {
    #[default]
    Identity,
    Gzip,
    /// In the zlib format, as HTTP and gRPC both define it.
    Deflate,
}

impl Coding {
    pub fn named(name: &str) -> Option<Coding> {
        let known = [
            ("identity", Coding::Identity),
            ("gzip", Coding::Gzip),
            ("x-gzip", Coding::Gzip),
            ("deflate", Coding::Deflate),
        ];
        known.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim())).map(|(_, coding)| coding)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
        }
    }

    /// The preferred supported coding of an `Accept-Encoding`; gzip if it has no preference.
    pub fn accepted(header: &str) -> Coding {
        let (mut gzip, mut deflate, mut identity, mut rest) = (None, None, None, None);
        for item in header.split(',') {
            let (name, weight) = item.split_once(';').unwrap_or((item, ""));
            let weight = Some(thousandths(weight));
            match Coding::named(name) {
                Some(Coding::Gzip) => gzip = weight,
                Some(Coding::Deflate) => deflate = weight,
                Some(Coding::Identity) => identity = weight,
                None if name.trim() == "*" => rest = weight,
                None => {}
            }
        }
        let weight = |own: Option<u16>| own.or(rest).unwrap_or(0);
        // A caller that does not name identity accepts it, but prefers what it names.
        let identity = identity.unwrap_or(0);
        let best = if weight(gzip) >= weight(deflate) {
            (Coding::Gzip, weight(gzip))
        } else {
            (Coding::Deflate, weight(deflate))
        };
        if best.1 > 0 && best.1 >= identity { best.0 } else { Coding::Identity }
    }
}

/// `q=0.25` in thousandths. Without one, 1; an invalid one counts as a no.
fn thousandths(weight: &str) -> u16 {
    let weight = weight.trim();
    if weight.is_empty() {
        return 1000;
    }
    let number = weight.strip_prefix("q=").or_else(|| weight.strip_prefix("Q="));
    let number = number.and_then(|number| number.trim().parse::<f32>().ok());
    number.filter(|number| (0.0..=1.0).contains(number)).map_or(0, |number| (number * 1000.0).ceil() as u16)
}

/// Inflates one body or message.
pub struct Inflater {
    coding: Coding,
    source: Source,
    out: Vec<u8>,
    bytes_max: usize,
}

enum Source {
    // On the heap: a decoder is large, and moves between threads.
    Gzip(Box<MultiGzDecoder<Fed>>),
    Zlib(Box<ZlibDecoder<Fed>>),
}

impl Source {
    fn fed(&mut self) -> &mut Fed {
        match self {
            Source::Gzip(source) => source.get_mut(),
            Source::Zlib(source) => source.get_mut(),
        }
    }
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Gzip(source) => source.read(out),
            Source::Zlib(source) => source.read(out),
        }
    }
}

/// Limits the input of a step. Empty gzip members and blocks produce no output, so a bound on output does not
/// bound the work.
struct Fed {
    bytes: Bytes,
    allowed: usize,
}

impl Read for Fed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.len().min(out.len());
        self.bytes.copy_to_slice(&mut out[..length]);
        self.allowed -= length;
        Ok(length)
    }
}

impl BufRead for Fed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let length = self.bytes.len().min(self.allowed);
        // The decoders keep their position when they get this.
        if length == 0 && !self.bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(&self.bytes[..length])
    }

    fn consume(&mut self, length: usize) {
        self.bytes.advance(length);
        self.allowed -= length;
    }
}

impl Inflater {
    /// Returns the bytes if there is no coding to undo.
    pub fn new(coding: Coding, source: Bytes, bytes_max: usize) -> Result<Inflater, Bytes> {
        let fed = Fed { bytes: source, allowed: 0 };
        let source = match coding {
            Coding::Identity => return Err(fed.bytes),
            Coding::Gzip => Source::Gzip(Box::new(MultiGzDecoder::new(fed))),
            Coding::Deflate => Source::Zlib(Box::new(ZlibDecoder::new(fed))),
        };
        Ok(Inflater { coding, source, out: Vec::new(), bytes_max })
    }

    /// Bytes inflated so far.
    pub fn inflated(&self) -> usize {
        self.out.len()
    }

    /// Inflates up to this many bytes, reading no more than that; true at the end.
    pub fn work(&mut self, bytes: usize) -> Result<bool, Fault> {
        self.source.fed().allowed = bytes;
        // One byte beyond the limit shows that there is more.
        let bytes = bytes.min(self.bytes_max + 1 - self.out.len());
        // From the second step on, reserve the whole limit: untouched pages take no memory, and a growing
        // vector exists twice while it is copied.
        let room = if self.out.is_empty() { bytes } else { self.bytes_max + 1 - self.out.len() };
        self.out.reserve_exact(room);
        let part = (&mut self.source).take(bytes as u64);
        // Output from before the step ran out of input stays in `out`.
        let ended = match { part }.read_to_end(&mut self.out) {
            Ok(came) => came < bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => return Err(self.broken(&error)),
        };
        if self.out.len() > self.bytes_max {
            let text = format!(
                "the inflated body's size {} of {} bytes (body_bytes_max)",
                triton_texts::EXCEEDS,
                self.bytes_max
            );
            return Err(Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text));
        }
        match &self.source {
            Source::Zlib(source) if ended && source.get_ref().bytes.has_remaining() => {
                Err(self.broken(&io::Error::other("bytes follow its end")))
            }
            _ => Ok(ended),
        }
    }

    /// The inflated bytes.
    pub fn finish(self) -> Bytes {
        self.out.into()
    }

    fn broken(&self, error: &io::Error) -> Fault {
        Fault::malformed(format!("the body is not valid {}: {error}", self.coding.name()))
    }
}

/// Compresses at the fastest level; none if that makes it no smaller.
pub fn deflate(coding: Coding, plain: &[u8]) -> Option<Bytes> {
    let out = Vec::with_capacity(plain.len() / 2);
    let written = match coding {
        Coding::Identity => return None,
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(out, Compression::fast());
            encoder.write_all(plain).and_then(|()| encoder.finish())
        }
        Coding::Deflate => {
            let mut encoder = ZlibEncoder::new(out, Compression::fast());
            encoder.write_all(plain).and_then(|()| encoder.finish())
        }
    };
    let written = written.expect("writing into memory cannot fail");
    (written.len() < plain.len()).then(|| written.into())
}

#[cfg(test)]
mod tests;
