//! Frames that are whole, truncated, odd, too large, and in chunks of every size.

use super::*;
use proptest::prelude::*;

#[test]
fn a_frame_that_is_short_long_compressed_or_odd_is_refused_with_its_reason() {
    let cases: [(&[u8], FaultKind, &str); 5] = [
        (&[0, 0, 0], FaultKind::MalformedRequest, "starts with 5 bytes, but the body has 3"),
        (&[0, 0, 0, 0, 2, 7], FaultKind::MalformedRequest, "says 2 bytes, but 1 follow"),
        (&[0, 0, 0, 0, 0, 7], FaultKind::MalformedRequest, "says 0 bytes, but 1 follow"),
        (&[1, 0, 0, 0, 1, 7], FaultKind::MalformedRequest, "names no grpc-encoding"),
        (&[9, 0, 0, 0, 1, 7], FaultKind::MalformedRequest, "flag of a gRPC frame is 9"),
    ];
    for (body, kind, text) in cases {
        let fault = decode(&Bytes::copy_from_slice(body)).expect_err("must be refused");
        assert_eq!(fault.kind, kind);
        assert!(fault.text.contains(text), "{fault}");
    }
}

proptest! {
    #[test]
    fn each_message_comes_out_of_its_frame_as_it_went_in(message: Vec<u8>) {
        let mut frame = BytesMut::new();
        write(&mut frame, |frame| frame.put_slice(&message)).expect("fits");
        let frame = frame.freeze();
        prop_assert_eq!(decode(&frame).expect("decodes"), message);
    }

    #[test]
    fn random_bytes_never_panic(body: Vec<u8>) {
        let _ = decode(&Bytes::from(body));
    }

    #[test]
    fn the_messages_of_a_stream_are_the_same_however_it_is_cut(
        messages in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..8),
        cuts in prop::collection::vec(1..20_usize, 1..50),
    ) {
        let mut body = BytesMut::new();
        for (compressed, message) in &messages {
            body.put_u8(u8::from(*compressed));
            body.put_u32(message.len() as u32);
            body.put_slice(message);
        }
        let mut frames = Frames::new(40);
        let (mut came, mut cuts) = (Vec::new(), cuts.into_iter().cycle());
        while !body.is_empty() {
            let cut = cuts.next().expect("endless").min(body.len());
            frames.push(&body.split_to(cut));
            while let Some(framed) = frames.take().expect("sound frames") {
                came.push((framed.compressed, framed.message.to_vec()));
            }
            prop_assert!(frames.held() < HEAD_BYTES + 40);
        }
        prop_assert_eq!(came, messages);
        prop_assert!(frames.finish().is_ok());
    }

    #[test]
    fn a_stream_of_random_bytes_never_panics_and_never_gives_more_than_it_got(pieces: Vec<Vec<u8>>) {
        let mut frames = Frames::new(64);
        let (mut pushed, mut came) = (0, 0);
        'pieces: for piece in &pieces {
            frames.push(piece);
            pushed += piece.len();
            loop {
                match frames.take() {
                    Ok(Some(framed)) => came += HEAD_BYTES + framed.message.len(),
                    Ok(None) => break,
                    Err(_) => break 'pieces,
                }
            }
        }
        prop_assert!(came + frames.held() == pushed);
    }
}

#[test]
fn a_message_beyond_the_limit_is_refused_by_its_head_with_the_limit_in_the_text() {
    let mut frames = Frames::new(1000);
    frames.push(&[0, 0, 0, 3, 233]);
    let fault = frames.take().expect_err("must be refused");
    assert_eq!(fault.kind, FaultKind::BodyTooLarge);
    assert!(fault.text.contains("1001 bytes") && fault.text.contains("1000 bytes"), "{fault}");
    let mut frames = Frames::new(1000);
    frames.push(&[0, 0, 0, 3, 232]);
    assert_eq!(frames.take(), Ok(None), "as large as allowed");
}

#[test]
fn a_stream_that_ends_within_a_frame_says_so() {
    let mut frames = Frames::new(1000);
    frames.push(&[0, 0, 0, 0, 2, 7]);
    assert_eq!(frames.take(), Ok(None));
    assert!(frames.finish().expect_err("cut short").text.contains("after 6 bytes"));
}
