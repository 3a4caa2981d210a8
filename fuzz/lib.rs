//! What the targets share: the limits of a small server, a region of shared memory, and what must be true of every request
//! that a parser takes, of tensors or of rows.

use flyball_core::{InferRequest, ModelRef, RequestLimits, RowSink, Scalar, Tensor, TensorData};
use flyball_wire::regions::Regions;
use flyball_wire::{GrpcDialect, HttpDialect};
use rustix::fs::{Mode, ftruncate};
use rustix::shm;
use std::sync::{Arc, LazyLock};

pub const LIMITS: RequestLimits = RequestLimits::for_body(1 << 20);

/// A region 'r' of 64 bytes, which seeds name.
static REGIONS: LazyLock<Arc<Regions>> = LazyLock::new(|| {
    let key = format!("/flyball-fuzz-{}", std::process::id());
    let flags = shm::OFlags::CREATE | shm::OFlags::RDWR;
    let memory = shm::open(&key, flags, Mode::RUSR | Mode::WUSR).expect("shared memory");
    ftruncate(&memory, 64).expect("64 bytes");
    let regions = Arc::new(Regions::default());
    regions.register("r", &key, 0, 64).expect("a region");
    shm::unlink(&key).expect("it lives on, without a name");
    regions
});

pub fn http(header_length: Option<usize>) -> HttpDialect {
    let model = ModelRef { name: "m".into(), version: None };
    HttpDialect {
        model,
        header_length,
        regions: Some(Arc::clone(&REGIONS)),
        strict_json: false,
        triton_statuses: false,
    }
}

pub fn grpc() -> GrpcDialect {
    GrpcDialect { regions: Some(Arc::clone(&REGIONS)) }
}

/// What was taken has as many elements as its shape says, and no more bytes than are allowed.
pub fn check(request: &InferRequest) {
    let mut bytes = 0;
    for tensor in &request.inputs {
        let elements = Tensor::elements(&tensor.shape).expect("a parsed shape can be counted");
        match (&tensor.data, tensor.datatype.size()) {
            (TensorData::Fixed(data), Some(size)) => {
                assert_eq!(data.len(), elements * size);
                bytes += data.len();
            }
            (TensorData::Strings(texts), None) => {
                assert_eq!(texts.len(), elements);
                bytes += texts.iter().map(|text| text.len() + size_of::<String>()).sum::<usize>();
            }
            _ => panic!("{:?} holds the wrong kind of data", tensor.datatype),
        }
    }
    assert!(bytes <= LIMITS.tensor_bytes_max);
}

/// The rows of a request for decisions, counted.
#[derive(Default)]
pub struct Counted {
    pub rows: usize,
    text_bytes: usize,
}

impl RowSink for Counted {
    fn row(&mut self, id: Option<&str>) {
        self.rows += 1;
        self.text_bytes += id.map_or(0, str::len);
    }

    fn field(&mut self, name: &str, value: Scalar<'_>) {
        assert!(self.rows > 0, "a field without a row");
        self.text_bytes += name.len();
        match value {
            Scalar::Text(text) => self.text_bytes += text.len(),
            Scalar::Float(number) => assert!(number.is_finite()),
            _ => {}
        }
    }
}

impl Counted {
    /// A row at least, no more than are allowed, and no text that was not in the body.
    pub fn check(&self, single: bool, body_bytes: usize) {
        assert!(self.rows >= 1 && self.rows <= LIMITS.decision_rows_max);
        assert!(!single || self.rows == 1);
        assert!(self.text_bytes <= body_bytes);
    }
}
