//! Bytes as text: what every reader does to the bytes of a file before it looks at them.

use serde::{Deserialize, Serialize};

/// How the bytes of a file are text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "latin-1")]
    Latin1,
}

/// What some editors put before UTF-8; no part of the text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How much of a file [`not_text`] looks at.
pub const START: usize = 4096;

/// Recognises what is likely to be given by mistake, and says how to repair it.
pub fn not_text(start: &[u8]) -> Option<String> {
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Some("this looks like UTF-16: convert it, as with `iconv -f UTF-16 -t UTF-8`".to_string());
    }
    let nul = memchr::memchr(0, &start[..start.len().min(START)])?;
    Some(format!("byte {} is NUL: this is a binary file, not text", nul + 1))
}

/// ISO 8859-1 as UTF-8: every byte is the character of its number.
pub fn latin1_to_utf8(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|&b| char::from(b)).collect::<String>().into_bytes()
}

/// Turns Windows line ends into line feeds, so that nothing behind this point knows them.
pub fn unify_lines(text: &mut Vec<u8>) {
    if memchr::memmem::find(text, b"\r\n").is_none() {
        return;
    }
    let mut kept = 0;
    for at in 0..text.len() {
        if text[at] == b'\r' && text.get(at + 1) == Some(&b'\n') {
            continue;
        }
        text[kept] = text[at];
        kept += 1;
    }
    text.truncate(kept);
}

/// Where `text` stops being UTF-8, and what to do about it.
#[cold]
pub fn broken_byte(text: &[u8]) -> Option<(usize, String)> {
    let at = std::str::from_utf8(text).err()?.valid_up_to();
    let byte = text[at];
    Some((
        at,
        format!(
            "byte 0x{byte:02x} is not UTF-8; if the file is ISO 8859-1, say so: encoding = \"latin-1\" in a job, --latin-1 for a command"
        ),
    ))
}

/// For messages: at most 40 characters.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(160)]).chars().take(40).collect()
}
