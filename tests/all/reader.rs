//! CoNLL-X and CoNLL-U, whole and cut into pieces.

use std::io::Write;
use std::path::Path;

use sawmill::corpus::conll::{Reader, column};
use sawmill::corpus::diagnostic::Rule;
use sawmill::corpus::piece::{Block, Blocks, Encoding, Input, Piece, cut};
use sawmill::corpus::tree::Shape;

use crate::support::{conllu, folder, run, sawmill, write};

/// A sentence as the tests compare it: line, id, forms, heads, rules broken.
type Seen = (u64, String, Vec<String>, Vec<u32>, Vec<Rule>);

fn read(blocks: impl Iterator<Item = Block>) -> (Vec<Seen>, Vec<Rule>) {
    let mut reader = Reader::default();
    let (mut seen, mut rules) = (vec![], vec![]);
    for block in blocks {
        rules.extend(block.problems.iter().map(|p| p.rule));
        reader.read(&block, |s| {
            let words = 0..s.tokens.len();
            let broken: Vec<Rule> = s.problems.iter().map(|p| p.rule).collect();
            let forms =
                if broken.is_empty() { words.map(|w| s.column(w, column::FORM).to_string()).collect() } else { vec![] };
            seen.push((s.first_line, s.id().to_string(), forms, s.tokens.iter().map(|t| t.head).collect(), broken));
        });
    }
    (seen, rules)
}

fn blocks_of(path: &Path, encoding: Encoding) -> impl Iterator<Item = Block> {
    let input = Input::file(0, path.to_path_buf(), encoding).expect("a file");
    let mut blocks = Blocks::open(0, &input.whole_piece(0), &input);
    std::iter::from_fn(move || blocks.next_block())
}

fn read_text(text: &str) -> Vec<Seen> {
    let block = Block { first_line: 1, text: text.as_bytes().to_vec(), ..Block::default() };
    read(std::iter::once(block)).0
}

const SAMPLE: &str = "\
# newdoc\n# sent_id = first\n# text = vámonos al mar\n1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_\n\
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_\n2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_\n\
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_\n3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_\n4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_\n\
4.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_\n5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_\n\n\
# sent_id = second\n1\t10 000\t_\tNUM\t_\t_\t0\troot\t_\t_\n\n\n\
1\tno\t_\tX\t_\t_\t2\tdep\t_\t_\n2\tid\t_\tX\t_\t_\t0\troot\t_\t_";

#[test]
fn multiword_tokens_empty_nodes_comments_and_a_missing_last_line_end() {
    let seen = read_text(SAMPLE);
    let strings = |words: &[&str]| words.iter().map(|w| w.to_string()).collect::<Vec<_>>();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0], (1, "first".into(), strings(&["vamos", "nos", "a", "el", "mar"]), vec![0, 1, 5, 5, 1], vec![]));
    assert_eq!(seen[1], (13, "second".into(), strings(&["10 000"]), vec![0], vec![]));
    assert_eq!(seen[2], (17, String::new(), strings(&["no", "id"]), vec![2, 0], vec![]));
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_change_nothing() {
    let folder = folder();
    let windows = format!("\u{feff}{}", SAMPLE.replace('\n', "\r\n"));
    let path = write(folder.path(), "windows.conllu", windows);
    let (seen, rules) = read(blocks_of(&path, Encoding::Utf8));
    assert_eq!(seen, read_text(SAMPLE));
    assert!(rules.is_empty());
}

#[test]
fn packed_files_are_known_by_their_first_bytes() {
    let folder = folder();
    let mut gz = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gz.write_all(SAMPLE.as_bytes()).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(vec![], 1);
    xz.write_all(SAMPLE.as_bytes()).unwrap();
    let zst = zstd::encode_all(SAMPLE.as_bytes(), 1).unwrap();
    for (name, bytes) in [("a", gz.finish().unwrap()), ("b.txt", xz.finish().unwrap()), ("c.gz", zst)] {
        let path = write(folder.path(), name, bytes);
        assert_eq!(read(blocks_of(&path, Encoding::Utf8)).0, read_text(SAMPLE), "{name}");
    }
}

#[test]
fn latin_1_is_read_where_it_is_named_and_a_problem_where_not() {
    let folder = folder();
    let text: Vec<u8> = b"1\tcaf\xe9\t_\tX\t_\t_\t0\troot\t_\t_\n\n".to_vec();
    let path = write(folder.path(), "old.conll", [text.clone(), conllu("fine", &[0]).into_bytes()].concat());
    let (seen, _) = read(blocks_of(&path, Encoding::Latin1));
    assert_eq!(seen[0].2, ["café"]);
    let (seen, _) = read(blocks_of(&path, Encoding::Utf8));
    assert_eq!(seen[0].4, [Rule::BrokenEncoding]);
    assert_eq!(seen[1].4, []);
}

#[test]
fn wherever_a_file_is_cut_every_sentence_is_read_once() {
    let folder = folder();
    for (name, text) in [("lf", SAMPLE.to_string()), ("crlf", SAMPLE.replace('\n', "\r\n"))] {
        let path = write(folder.path(), name, &text);
        let input = Input::file(0, path, Encoding::Utf8).unwrap();
        let whole: Vec<_> = read_text(SAMPLE).into_iter().map(|s| (s.1, s.2, s.3)).collect();
        for cut in 0..=text.len() as u64 {
            let mut found = vec![];
            for (start, end) in [(0, cut), (cut, text.len() as u64)] {
                let mut blocks = Blocks::open(0, &Piece { input: 0, start, end, weight: 0 }, &input);
                found.extend(read(std::iter::from_fn(|| blocks.next_block())).0.into_iter().map(|s| (s.1, s.2, s.3)));
            }
            assert_eq!(found, whole, "{name} cut at {cut}");
        }
    }
}

#[test]
fn pieces_cover_every_input_and_depend_on_the_data_alone() {
    let folder = folder();
    let big = write(folder.path(), "big", conllu("x", &[0, 1, 2]).repeat(200_000));
    let small = write(folder.path(), "small", conllu("x", &[0]));
    let inputs = [big, small].map(|path| Input::file(0, path, Encoding::Utf8).unwrap());
    for shards in [1, 7, 64] {
        let pieces = cut(&inputs, shards);
        for (number, input) in (0..).zip(&inputs) {
            let of_input: Vec<_> = pieces.iter().filter(|p| p.input == number).collect();
            assert_eq!(of_input[0].start, 0);
            assert_eq!(of_input.last().unwrap().end, input.weight());
            assert!(of_input.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
        assert!(pieces.len() <= shards as usize + 2, "{} pieces of {shards}", pieces.len());
    }
}

/// One sentence per rule, with what is said of it.
const BROKEN: &[(&str, Rule, &str)] = &[
    ("1\ta\t_\tX\t_\t_\t0\troot\t_\n", Rule::ColumnCount, "9 columns instead of 10"),
    ("1 a _ X _ _ 0 root _ _\n", Rule::ColumnCount, "separated by TAB"),
    ("one\ta\t_\tX\t_\t_\t0\troot\t_\t_\n", Rule::BadId, "ID is `one`"),
    ("4-3\ta\t_\tX\t_\t_\t0\troot\t_\t_\n", Rule::BadId, "ID is `4-3`"),
    ("2\ta\t_\tX\t_\t_\t0\troot\t_\t_\n", Rule::IdOrder, "ID is 2, not 1"),
    ("1\ta\t_\tX\t_\t_\t_\troot\t_\t_\n", Rule::BadHead, "HEAD is missing"),
    ("1\ta\t_\tX\t_\t_\t-1\troot\t_\t_\n", Rule::BadHead, "HEAD is `-1`"),
    ("1\ta\t_\tX\t_\t_\t7\troot\t_\t_\n", Rule::HeadRange, "HEAD is 7, but the last word is 1"),
    ("1\ta\t_\tX\t_\t_\t1\troot\t_\t_\n", Rule::SelfHead, "its own head"),
    (
        "1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n2\tb\t_\tX\t_\t_\t3\tdep\t_\t_\n3\tc\t_\tX\t_\t_\t2\tdep\t_\t_\n",
        Rule::Cycle,
        "circle: ",
    ),
];

#[test]
fn every_rule_is_reported_with_its_address_and_the_rest_is_read() {
    for (lines, rule, _) in BROKEN {
        let seen =
            read_text(&format!("{}# sent_id = bad\n{lines}\n{}", conllu("before", &[0]), conllu("after", &[0, 1])));
        assert_eq!(seen.len(), 3, "{rule:?}");
        assert_eq!(seen[1].4, [*rule], "{lines}");
        assert!(seen[0].4.is_empty() && seen[2].4.is_empty());
    }
}

#[test]
fn check_lists_every_problem_by_line_and_sentence() {
    let folder = folder();
    let mut text = conllu("fine", &[2, 0]);
    let mut expected = vec![];
    let path = folder.path().join("broken.conllu");
    for (index, (lines, rule, message)) in BROKEN.iter().enumerate() {
        let first = text.lines().count() + 1;
        text += &format!("# sent_id = s{index}\n{lines}\n");
        // A circle has no line of its own: the sentence's first.
        let line = if *rule == Rule::Cycle { first } else { first + 1 };
        expected.push((format!("{}:{line} [s{index}]: {}: ", path.display(), rule.name()), *message));
    }
    std::fs::write(&path, &text).unwrap();
    let (code, stdout, stderr) = run(sawmill().arg("check").arg(&path));
    assert_eq!(code, 3, "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{stdout}");
    for (line, (address, message)) in lines.iter().zip(&expected) {
        assert!(
            line.starts_with(address.as_str()) && line.contains(message),
            "{line}\nshould begin with {address} and say {message}"
        );
    }
    assert!(stderr.contains("11 sentences"), "{stderr}");
    // A sentence without a root is a fault of the treebank, and a missing file does not hide the next one.
    write(folder.path(), "rootless.conllu", conllu("circle", &[2, 1]));
    let (code, stdout, _) = run(sawmill().current_dir(folder.path()).args(["check", "missing", "rootless.conllu"]));
    assert_eq!(code, 3);
    assert!(
        stdout.contains("missing: No such file") && stdout.contains("rootless.conllu:1 [circle]: no-root"),
        "{stdout}"
    );
}

#[test]
fn check_reads_standard_input_and_finds_nothing_wrong_with_good_files() {
    let folder = folder();
    let path = write(folder.path(), "good", SAMPLE);
    let file = std::fs::File::open(&path).unwrap();
    let (code, stdout, stderr) = run(sawmill().args(["check", "-"]).stdin(file));
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    assert!(stderr.contains("3 sentences, 8 words; 0 with problems"), "{stderr}");
}

#[test]
fn trees_are_sorted_by_shape() {
    let shape_of = |heads: &[u32]| {
        let block = Block { first_line: 1, text: conllu("x", heads).into_bytes(), ..Block::default() };
        let mut shape = None;
        Reader::default().read(&block, |s| shape = Some(s.shape));
        shape.unwrap()
    };
    assert_eq!(shape_of(&[2, 0, 2]), Shape::Projective);
    assert_eq!(shape_of(&[0, 0]), Shape::Projective);
    assert_eq!(shape_of(&[3, 4, 0, 3]), Shape::NonProjective);
    assert_eq!(shape_of(&[3, 0, 2, 2]), Shape::NonProjective, "the arc from the root crosses");
    assert_eq!(shape_of(&[2, 1]), Shape::Rootless);
    assert_eq!(shape_of(&[0, 3, 2]), Shape::Cyclic);
}
