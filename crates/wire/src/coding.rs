//! The codings of a body or a message: gzip and deflate, both ways, never more out of one than was allowed.
//!
//! It works in steps, so that whoever runs it decides where and for how long. It knows nothing of threads.

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use flyball_core::{Fault, FaultKind, Stage};
use std::io::{self, Read, Write};

/// The codings that are read here, as headers list them.
pub const CODINGS: &str = "gzip, deflate";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coding {
    #[default]
    Identity,
    Gzip,
    /// In the zlib format, as HTTP and gRPC both mean it.
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

    /// What an `Accept-Encoding` likes best of what is written here; where it does not care, gzip.
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
        // A caller that says nothing of identity takes it, but likes what it names better.
        let identity = identity.unwrap_or(0);
        let best = if weight(gzip) >= weight(deflate) {
            (Coding::Gzip, weight(gzip))
        } else {
            (Coding::Deflate, weight(deflate))
        };
        if best.1 > 0 && best.1 >= identity { best.0 } else { Coding::Identity }
    }
}

/// `q=0.25` in thousandths. Without one, 1; one that cannot be read counts as a no.
fn thousandths(weight: &str) -> u16 {
    let weight = weight.trim();
    if weight.is_empty() {
        return 1000;
    }
    let number = weight.strip_prefix("q=").or_else(|| weight.strip_prefix("Q="));
    let number = number.and_then(|number| number.trim().parse::<f32>().ok());
    number.filter(|number| (0.0..=1.0).contains(number)).map_or(0, |number| (number * 1000.0).ceil() as u16)
}

/// One body or message on its way out of its coding.
pub struct Inflater {
    coding: Coding,
    source: Source,
    out: Vec<u8>,
    bytes_max: usize,
}

enum Source {
    Plain(Reader<Bytes>),
    // On the heap: a decoder is large, and travels between threads.
    Gzip(Box<MultiGzDecoder<Reader<Bytes>>>),
    Zlib(Box<ZlibDecoder<Reader<Bytes>>>),
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Plain(source) => source.read(out),
            Source::Gzip(source) => source.read(out),
            Source::Zlib(source) => source.read(out),
        }
    }
}

impl Inflater {
    pub fn new(coding: Coding, source: Bytes, bytes_max: usize) -> Inflater {
        let source = source.reader();
        let source = match coding {
            Coding::Identity => Source::Plain(source),
            Coding::Gzip => Source::Gzip(Box::new(MultiGzDecoder::new(source))),
            Coding::Deflate => Source::Zlib(Box::new(ZlibDecoder::new(source))),
        };
        Inflater { coding, source, out: Vec::new(), bytes_max }
    }

    /// Bytes that have come out so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes up to so many bytes more out; true at the end.
    pub fn work(&mut self, bytes: usize) -> Result<bool, Fault> {
        // One byte beyond the limit tells that there is more.
        let bytes = bytes.min(self.bytes_max + 1 - self.out.len());
        // From the second step on, room for all that is allowed: pages that nothing is written to take no memory, and a
        // vector that grows is there twice while it is copied.
        let room = if self.out.is_empty() { bytes } else { self.bytes_max + 1 - self.out.len() };
        self.out.reserve_exact(room);
        let part = (&mut self.source).take(bytes as u64);
        let came = { part }.read_to_end(&mut self.out).map_err(|error| self.broken(&error))?;
        if self.out.len() > self.bytes_max {
            let text = format!(
                "the body takes more than {} bytes once it is inflated, the server's limit (body_bytes_max)",
                self.bytes_max
            );
            return Err(Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text));
        }
        if came == bytes {
            return Ok(false);
        }
        match &self.source {
            Source::Zlib(source) if source.get_ref().get_ref().has_remaining() => {
                Err(self.broken(&io::Error::other("bytes follow its end")))
            }
            _ => Ok(true),
        }
    }

    /// What came out.
    pub fn finish(self) -> Bytes {
        self.out.into()
    }

    fn broken(&self, error: &io::Error) -> Fault {
        Fault::malformed(format!("the body is not whole and sound {}: {error}", self.coding.name()))
    }
}

/// Puts bytes into a coding at its fastest level; none where that makes them no smaller.
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
