//! Opening inputs: plain or compressed, by their magic bytes, never by their names.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Xz,
    Zstd,
    /// A kind of archive that is not read, by its name and the command that unpacks it.
    Foreign(&'static str, &'static str),
}

impl Packing {
    /// Tells the packing from the first bytes of a file (six are enough).
    pub fn of(start: &[u8]) -> Packing {
        const KNOWN: &[(&[u8], Packing)] = &[
            (b"\x1f\x8b", Packing::Gzip),
            (b"\xfd7zXZ\0", Packing::Xz),
            (b"\x28\xb5\x2f\xfd", Packing::Zstd),
            (b"PK\x03\x04", Packing::Foreign("zip archive", "unzip")),
            (b"BZh", Packing::Foreign("bzip2 file", "bunzip2")),
            (b"7z\xbc\xaf\x27\x1c", Packing::Foreign("7-Zip archive", "7z x")),
        ];
        KNOWN.iter().find(|(magic, _)| start.starts_with(magic)).map_or(Packing::Plain, |&(_, packing)| packing)
    }
}

/// The first bytes of the file at `path`, as stored: at most `count`.
pub fn first_bytes(path: &Path, count: usize) -> io::Result<Vec<u8>> {
    let mut start = vec![0; count];
    let read = read_up_to(&mut File::open(path)?, &mut start)?;
    start.truncate(read);
    Ok(start)
}

/// The text of a file of at most `most` bytes. A device or a file in the wrong place does not fill the memory.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let file = File::open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder, not a file"));
    }
    let mut bytes = vec![];
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let what = if kind.is_file() { "is the file the right one?" } else { "this is not a regular file" };
        let message = format!("there is more than {} MiB of text: {what}", most >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "this is not UTF-8 text"))
}

/// The unpacked bytes of the file at `path`; `-` is standard input.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        return unpack(Box::new(io::stdin()));
    }
    unpack(Box::new(File::open(path)?))
}

/// Unpacks `packed` by its magic bytes.
pub fn unpack(mut packed: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut start = [0; 6];
    let read = read_up_to(&mut packed, &mut start)?;
    let whole = io::Cursor::new(start[..read].to_vec()).chain(packed);
    Ok(match Packing::of(&start[..read]) {
        Packing::Plain => Box::new(whole),
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(1 << 16, whole))),
        Packing::Xz => {
            Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(BufReader::with_capacity(1 << 16, whole)))
        }
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(whole)?),
        Packing::Foreign(what, command) => {
            let message =
                format!("this looks like a {what}: unpack it first (`{command}`), or pack it as gz, xz or zst");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    })
}

/// Fills `buffer` as far as the input goes.
pub fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
