#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| amends_fuzz_targets::api_cursor(data));
