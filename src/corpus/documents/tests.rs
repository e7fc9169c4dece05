//! Each format, and each way in which a file can be wrong.

use std::io::{Cursor, Write};

use super::*;

/// Documents as (id, label, text), and problems as (line, rule).
type Seen = (Vec<[String; 3]>, Vec<(u64, Rule)>);

fn read_bytes(bytes: &[u8], encoding: Encoding, format: Format, longest: usize) -> Seen {
    let (mut documents, mut problems) = (vec![], vec![]);
    let mut visit = |d: &RawDocument<'_>| documents.push([d.id, d.label, d.text].map(str::to_string));
    let mut report = |p: Problem| problems.push((p.line, p.rule));
    let mut sink = Sink { visit: &mut visit, report: &mut report, is_empty: true };
    let input = Box::new(Cursor::new(bytes.to_vec()));
    read_stream(input, Path::new("corpus/news/a.txt"), encoding, format, longest, &mut sink);
    (documents, problems)
}

fn read(text: &str, format: Format) -> Seen {
    read_bytes(text.as_bytes(), Encoding::Utf8, format, LONGEST_DOCUMENT)
}

fn documents(expected: &[[&str; 3]]) -> Seen {
    (expected.iter().map(|d| d.map(str::to_string)).collect(), vec![])
}

const ALL: [Format; 5] = [Format::Lines, Format::Blocks, Format::Files, Format::Mallet, Format::Docs];

#[test]
fn a_document_per_line() {
    assert_eq!(read("a b\n\nc\n", Format::Lines), documents(&[["1", "", "a b"], ["3", "", "c"]]));
}

#[test]
fn blocks_between_blank_lines() {
    let expected = documents(&[["2", "", "a\nb\n"], ["6", "", "c\n"]]);
    assert_eq!(read("\na\nb\n\n \t\nc", Format::Blocks), expected);
}

#[test]
fn a_whole_file() {
    assert_eq!(read("a\n\nb", Format::Files), documents(&[["a.txt", "news", "a\n\nb\n"]]));
}

#[test]
fn fields_are_those_of_mallet() {
    let expected = documents(&[["1", "en", "a b"], ["x", "de", "c d"], ["y,z", "fr", "e"]]);
    assert_eq!(read("1\ten\ta b\nx de  c d\ny,z , fr , e\n", Format::Mallet), expected);
    let (found, problems) = read("1\ten\n\n2\n \t3\ten\tx\n4\ten\tfine\n", Format::Mallet);
    assert_eq!(found, [["4", "en", "fine"].map(str::to_string)]);
    assert_eq!(problems, [(1, Rule::ColumnCount), (3, Rule::ColumnCount), (4, Rule::ColumnCount)]);
}

#[test]
fn documents_with_headers() {
    let text = "\n#DOC\ta\tnews\tlocal\ns 1\ns 2\n#DOC\tb\n#DOC\tc\tfiction\n#DOCTOR\n";
    let expected = documents(&[["a", "news", "s 1\ns 2\n"], ["b", "", ""], ["c", "fiction", "#DOCTOR\n"]]);
    assert_eq!(read(text, Format::Docs), expected);
}

#[test]
fn text_before_the_first_header_is_one_problem() {
    let (found, problems) = read("lost\nlost\n#DOC\ta\nkept\n", Format::Docs);
    assert_eq!(found, [["a", "", "kept\n"].map(str::to_string)]);
    assert_eq!(problems, [(1, Rule::OutsideDocument)]);
    assert_eq!(read("no\nheader\n", Format::Docs), (vec![], vec![(1, Rule::OutsideDocument)]));
}

#[test]
fn a_bad_header_takes_its_text_with_it() {
    for header in ["#DOC b", "#DOC", "#DOC\t", "#DOC\t \tnews"] {
        let (found, problems) = read(&format!("#DOC\ta\nkept\n{header}\nlost\n#DOC\tc\nkept\n"), Format::Docs);
        assert_eq!(found.iter().map(|d| d[0].as_str()).collect::<Vec<_>>(), ["a", "c"], "{header}");
        assert_eq!(problems, [(3, Rule::BadHeader)], "{header}");
    }
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_change_nothing() {
    let text = "#DOC\ta\tnews\ns 1\n\ns 2\n";
    for format in ALL {
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(read(&windows, format), read(text, format), "{format:?}");
    }
}

#[test]
fn an_empty_file_is_a_problem() {
    for (format, text) in
        ALL.into_iter().flat_map(|format| ["", "\n", " \r\n\n", "\u{feff}"].map(|text| (format, text)))
    {
        assert_eq!(read(text, format), (vec![], vec![(1, Rule::EmptyFile)]), "{format:?} {text:?}");
    }
}

#[test]
fn broken_encoding_costs_one_document() {
    let cases = [
        (Format::Lines, &b"a\n\xe9\nb\n"[..], 2, 2),
        (Format::Blocks, b"a\n\nb\nx\n\xe9\nc\n\nd\n", 5, 2),
        (Format::Files, b"a\n\xe9\nb\n", 2, 0),
        (Format::Mallet, b"1 x a\n2 x \xe9\n3 x b\n", 2, 2),
        (Format::Docs, b"#DOC\ta\nx\n\xe9\ny\n#DOC\tb\nz\n", 3, 1),
        (Format::Docs, b"#DOC\t\xe9\nx\n#DOC\tb\nz\n", 1, 1),
    ];
    for (format, bytes, line, left) in cases {
        let (found, problems) = read_bytes(bytes, Encoding::Utf8, format, 99);
        assert_eq!((found.len(), problems), (left, vec![(line, Rule::BrokenEncoding)]), "{format:?}");
        let (found, problems) = read_bytes(bytes, Encoding::Latin1, format, 99);
        assert!(problems.is_empty() && found.iter().any(|d| d.concat().contains('é')), "{format:?}");
    }
}

#[test]
fn a_document_that_is_too_long_is_left_out() {
    let long = "x ".repeat(50);
    let cases = [
        (Format::Lines, format!("a\n{long}\nb\n"), 2, 2),
        (Format::Blocks, format!("a\n\n{}\nb\n", "long\n".repeat(20)), 3, 2),
        (Format::Blocks, format!("a\n\n{long}\nc\n\nb\n"), 3, 2),
        (Format::Files, "line\n".repeat(20), 1, 0),
        (Format::Mallet, format!("1 x a\n2 x {long}\n3 x b\n"), 2, 2),
        (Format::Docs, format!("#DOC\ta\nx\n#DOC\tb\n{}#DOC\tc\n", "long\n".repeat(20)), 3, 2),
    ];
    for (format, text, line, left) in cases {
        let (found, problems) = read_bytes(text.as_bytes(), Encoding::Utf8, format, 64);
        assert_eq!((found.len(), problems), (left, vec![(line, Rule::TooLong)]), "{format:?}");
    }
}

#[test]
fn what_is_not_text_is_not_read() {
    for format in ALL {
        let (found, problems) = read_bytes(b"\x7fELF\0\0", Encoding::Utf8, format, 99);
        assert_eq!((found.len(), problems), (0, vec![(1, Rule::NotText)]), "{format:?}");
    }
}

#[test]
fn packed_files_are_read_and_a_torn_one_up_to_the_tear() {
    let folder = tempfile::tempdir().expect("a folder");
    let text: String = (0..20_000).map(|i| format!("#DOC\t{i}\nword-{}\n", i * i % 7919)).collect();
    let mut gz = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gz.write_all(text.as_bytes()).expect("bytes");
    let gz = gz.finish().expect("bytes");
    let read = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        let (mut ids, mut problems) = (vec![], vec![]);
        let mut visit = |d: &RawDocument<'_>| ids.push(d.id.parse::<usize>().expect("a number"));
        read_documents(&path, Encoding::Utf8, Format::Docs, &mut visit, &mut |p| problems.push(p)).expect("opens");
        (ids, problems)
    };
    let whole: Vec<usize> = (0..20_000).collect();
    assert_eq!(read("whole.txt", &gz), (whole.clone(), vec![]));
    let (ids, problems) = read("torn.gz", &gz[..gz.len() / 2]);
    assert_eq!((problems.len(), problems[0].rule), (1, Rule::Unreadable));
    assert!(ids.len() > 1000 && ids == whole[..ids.len()], "{} documents", ids.len());
    assert!(problems[0].line >= 2 * ids.len() as u64, "{problems:?}");
}

#[test]
fn a_folder_or_a_missing_file_is_an_error() {
    let open = |path: &Path| {
        read_documents(path, Encoding::Utf8, Format::Files, &mut |_| {}, &mut |_| {}).expect_err("an error").to_string()
    };
    let folder = tempfile::tempdir().expect("a folder");
    assert!(open(folder.path()).contains("name the files in it"));
    assert!(open(&folder.path().join("none")).contains("No such file"));
}
