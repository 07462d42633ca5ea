//! Any bytes: reading ends soon, within its limits, with documents or with an error that has a place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_manifest::parse::{Limits, ParseError, locate, objects, parse_bytes, text_of};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    match parse_bytes(bytes, &limits) {
        Ok(documents) => {
            let text = text_of(bytes).expect("it was read");
            for document in &documents {
                assert!(text.get(document.range.clone()).is_some(), "the range is in the text");
            }
            let count = documents.len();
            let _ = objects(documents);
            for index in 0..count.min(3) {
                let _ = locate(text, index, "/metadata/name", &limits);
            }
        }
        Err(error) => {
            assert!(matches!(error, ParseError::TooLarge { .. }) || error.position().is_some());
            assert!(!error.to_string().is_empty());
        }
    }
});
