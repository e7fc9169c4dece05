//! Tests on the Brown corpus: the whole way from a file to a vocabulary.
//!
//! Noji et al. (2013, Table 1) count 19,759 types with a threshold of 4, and 1,228,020 tokens. Our tokens, those of NLTK,
//! have 17,589 types and the unknown one in that setting (1,161,192 tokens, or 1,218,532 with the ends of sentences), and no
//! rule for numbers, case or hyphens closes the gap at that threshold:
//!
//! | types that occur 4 times (3 times) | as they are | hyphens split | clitics (`'s`, `n't`) split |
//! | --- | --- | --- | --- |
//! | whole numbers become `#` | 17,589 (21,900) | 17,619 (21,805) | 17,355 (21,548) |
//! | each run of digits becomes `#` | 17,635 (21,952) | 17,646 (21,835) | 17,402 (21,602) |
//! | each digit becomes `#` | 17,680 (21,996) | 17,680 (21,870) | 17,446 (21,644) |
//! | numbers stay | 17,904 (22,339) | 17,958 (22,259) | 17,674 (21,989) |
//! | whole numbers, lower case | 16,374 (20,176) | 16,334 (20,026) | 16,167 (19,851) |
//!
//! The last cell suggests (it does not prove) what the paper did: with clitics split off and the ends of sentences counted
//! there are 1,228,137 tokens, 117 more than in the paper; in lower case, with words kept from their third occurrence on, and
//! those of 30 held-out documents alone unknown, 19,692 to 19,747 types remain, by the documents held out. We keep the
//! threshold that the paper states, and the corpus's own tokens and case.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::documents::{Format, read_documents};
use super::hold_out::{By, Candidate, HoldOut};
use super::shard::shards;
use super::text::Encoding;
use super::tokens::Tokenisation;
use super::vocabulary::{Occurrences, Vocabulary};

struct Document {
    id: String,
    label: String,
    text: String,
}

fn brown(test: &str) -> Option<Vec<Document>> {
    let path = std::env::var_os("SAWMILL_DATA").map(PathBuf::from).map(|data| data.join("brown/brown-words.txt.xz"));
    let Some(path) = path.filter(|path| path.is_file()) else {
        say!("skipped: {test} needs SAWMILL_DATA, a folder with brown/brown-words.txt.xz");
        return None;
    };
    Some(read(&path))
}

fn read(path: &Path) -> Vec<Document> {
    let mut documents = vec![];
    let mut report = |problem| panic!("{problem:?}");
    read_documents(
        path,
        Encoding::Utf8,
        Format::Docs,
        &mut |d| documents.push(Document { id: d.id.into(), label: d.label.into(), text: d.text.into() }),
        &mut report,
    )
    .expect("a readable file");
    documents
}

/// The vocabulary of all of Brown as training text.
fn vocabulary(documents: &[Document], lowercase: bool, min_count: u64) -> Vocabulary {
    let tokenisation = Tokenisation { lowercase, numbers: "#".to_string() };
    let mut counts: BTreeMap<String, Occurrences> = BTreeMap::new();
    for document in documents {
        tokenisation.each_token(&document.text, |token| match counts.get_mut(token) {
            Some(occurrences) => occurrences.training += 1,
            None => drop(counts.insert(token.to_string(), Occurrences { training: 1, test: 0 })),
        });
    }
    Vocabulary::build(counts.iter().map(|(word, &n)| (word.as_str(), n)), min_count).expect("a small vocabulary")
}

#[test]
fn brown_has_500_documents_in_15_categories() {
    let Some(documents) = brown("brown_has_500_documents_in_15_categories") else { return };
    let mut categories: BTreeMap<&str, usize> = BTreeMap::new();
    documents.iter().for_each(|d| *categories.entry(&d.label).or_default() += 1);
    let sentences: usize = documents.iter().map(|d| d.text.lines().count()).sum();
    let lengths: Vec<u64> = documents.iter().map(|d| d.text.split_whitespace().count() as u64).collect();
    assert_eq!((documents.len(), categories.len(), categories["news"]), (500, 15, 44));
    assert_eq!((sentences, lengths.iter().sum::<u64>()), (57_340, 1_161_192));
    assert_eq!((documents[0].id.as_str(), documents[499].id.as_str()), ("ca01", "cr09"));

    let candidates: Vec<_> = documents.iter().map(|d| Candidate { id: &d.id, label: &d.label }).collect();
    let test = HoldOut { documents: 30, by: By::Category }.choose(1, &candidates).expect("enough documents");
    let of = |label: &str| test.iter().filter(|&&place| documents[place].label == label).count();
    assert_eq!((test.len(), of("learned"), of("news"), of("science_fiction")), (30, 5, 3, 0));

    for run in shards(&lengths, 8) {
        let tokens: u64 = lengths[run].iter().sum();
        assert!((142_000..148_300).contains(&tokens), "a shard of {tokens} tokens");
    }
}

#[test]
fn the_vocabulary_of_brown_comes_near_the_paper() {
    let Some(documents) = brown("the_vocabulary_of_brown_comes_near_the_paper") else { return };
    const PAPER: f64 = 19_759.0;
    let given = vocabulary(&documents, false, 4).len();
    let nearest = vocabulary(&documents, true, 3).len();
    say!("types of Brown: {given} as min_count = 4 has it, {nearest} in lower case from 3 on, {PAPER} in the paper");
    assert_eq!(given, 17_590); // not within 5 % of the paper, whatever a number is
    assert!((nearest as f64 / PAPER - 1.0).abs() < 0.05, "{nearest} types");
}
