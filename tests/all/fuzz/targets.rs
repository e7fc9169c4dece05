//! What is given bytes: every reader, models of every kind, and the start of a connection between processes.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sawmill::adaptor::model::{AdaptorModel, Kept as AdaptorKept};
use sawmill::adaptor::reader::{Alphabet, Defaults};
use sawmill::adaptor::tree::Style;
use sawmill::cli::cluster::read_hosts;
use sawmill::cluster::agreement::{self, Hello, Verdict};
use sawmill::cluster::channel::{Channel, Key};
use sawmill::cluster::checkpoint::{Checkpoints, Identity, Manifest};
use sawmill::cluster::codec::{decode, encode};
use sawmill::corpus::conll::{Reader, column};
use sawmill::corpus::documents::{Format, read_documents};
use sawmill::corpus::piece::{Block, Blocks, Input};
use sawmill::corpus::text::Encoding;
use sawmill::corpus::tokens::Tokenisation;
use sawmill::induction::grammar::{Buffers, Choice};
use sawmill::induction::model::Kept as GrammarKept;
use sawmill::job::Job;
use sawmill::job::file::Document;
use sawmill::job::model_file::{self, Stored};
use sawmill::lm::generate::{Sentences, Settings};
use sawmill::lm::model::{Kept as LanguageKept, LanguageModel};
use sawmill::lm::{arpa, hpylm};
use sawmill::parser::decode::Decoder;
use sawmill::parser::job::Tags;
use sawmill::parser::model::{Kept as ParserKept, ParserModel};
use sawmill::parser::text::Unparsed;
use sawmill::topics::description::Description;
use sawmill::topics::import::read_state;
use sawmill::topics::left_to_right::LeftToRight;
use sawmill::topics::model::TopicModel;
use sawmill::topics::ngram;
use sawmill::topics::ngram::kept::Kept as NgramKept;
use sawmill::topics::ngram::lookup::TopicNgrams;
use sawmill::topics::perplexity::{LdaScorer, ScoreDocument};

/// Something that is given bytes, and the number of the input.
pub struct Target {
    pub name: &'static str,
    pub seeds: fn() -> Vec<Vec<u8>>,
    pub run: fn(&[u8], u64),
}

pub const TARGETS: &[Target] = &[
    Target { name: "conll", seeds: conll_seeds, run: conll },
    Target { name: "documents", seeds: document_seeds, run: documents },
    Target { name: "job", seeds: job_seeds, run: job },
    Target { name: "adaptor-grammar", seeds: grammar_seeds, run: grammar },
    Target { name: "mallet-state", seeds: state_seeds, run: state },
    Target { name: "hosts", seeds: host_seeds, run: hosts },
    Target { name: "handshake", seeds: handshake_seeds, run: handshake },
    Target { name: "hello", seeds: hello_seeds, run: hello },
    Target { name: "checkpoint-part", seeds: part_seeds, run: part },
    Target { name: "checkpoint-files", seeds: checkpoint_seeds, run: checkpoint },
    Target { name: "model-lda", seeds: || models(&["lda"]), run: lda },
    Target { name: "model-ngrams", seeds: || models(&["hpytm", "hierarchical", "switching", "infinite"]), run: ngrams },
    Target { name: "model-hpylm", seeds: || models(&["hpylm", "hpylm-infinite"]), run: language },
    Target { name: "model-parser", seeds: || models(&["parser", "parser-left-corner", "semisupervised"]), run: parser },
    Target { name: "model-grammar", seeds: || models(&["dmv", "levg"]), run: induced },
    Target { name: "model-adaptor", seeds: || models(&["adaptor", "adaptor-variational"]), run: adaptor },
];

/// Calls `read` with a file of these bytes: the same file for all inputs of a thread.
fn with_file(bytes: &[u8], read: impl FnOnce(&Path)) {
    thread_local! {
        static FILE: RefCell<tempfile::NamedTempFile> = RefCell::new(tempfile::NamedTempFile::new().expect("a file"));
    }
    FILE.with_borrow(|file| {
        std::fs::write(file.path(), bytes).expect("a file that can be written");
        read(file.path());
    });
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

const TREES: &str = "# newdoc\n# sent_id = first\n1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_\n1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_\n\
    2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_\n2.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_\n\n\
    # sent_id = x\n1\ta\t_\tD\tD\tx=y\t2\tdet\t_\t_\n2\tb\t_\tN\tN\t_\t0\troot\t_\tSpaceAfter=No\n\n";

fn conll_seeds() -> Vec<Vec<u8>> {
    let packed = zstd::encode_all(TREES.as_bytes(), 1).expect("packed trees");
    [texts(&[TREES, "\u{feff}1\ta\t_\tX\tX\t_\t0\troot\n\n", "1 a _ X X _ 0 root\r\n\r\n"]), vec![packed]].concat()
}

fn conll(bytes: &[u8], number: u64) {
    let look = |block: &Block, reader: &mut Reader| {
        reader.read(block, |sentence| {
            let words = if sentence.problems.is_empty() { sentence.tokens.len() } else { 0 };
            (0..words).for_each(|word| drop(sentence.column(word, column::FORM).to_string()));
            let _ = (sentence.id(), sentence.key());
        });
    };
    let mut reader = Reader::default();
    look(&Block { first_line: 1, text: bytes.to_vec(), ..Block::default() }, &mut reader);
    let encoding = if number.is_multiple_of(2) { Encoding::Utf8 } else { Encoding::Latin1 };
    with_file(bytes, |path| {
        let input = Input::file(0, path.to_path_buf(), encoding).expect("a file");
        let mut blocks = Blocks::open(0, &input.whole_piece(0), &input);
        while let Some(block) = blocks.next_block() {
            look(&block, &mut reader);
        }
    });
}

fn document_seeds() -> Vec<Vec<u8>> {
    let text =
        "#DOC\td1\tcategory\nthe first line\nthe 2nd\n\n#DOC\td2\n\nid-1\tlabel\tsome text here\nid-2 l , more\n";
    let mut gz = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gz.write_all(text.as_bytes()).expect("memory");
    [texts(&[text, "a\r\nb\r\n", "caf\u{e9} \u{feff}x"]), vec![gz.finish().expect("memory")]].concat()
}

fn documents(bytes: &[u8], number: u64) {
    let formats = [Format::Lines, Format::Blocks, Format::Files, Format::Mallet, Format::Docs];
    let encoding = if number.is_multiple_of(3) { Encoding::Latin1 } else { Encoding::Utf8 };
    let tokenisation = Tokenisation { lowercase: true, numbers: "#".to_string() };
    with_file(bytes, |path| {
        let mut visit = |document: &sawmill::corpus::documents::RawDocument<'_>| {
            tokenisation.each_token(document.text, |token| drop(token.to_string()));
        };
        let format = formats[(number % 5) as usize];
        let _ = read_documents(path, encoding, format, &mut visit, &mut |problem| drop(problem.message));
    });
}

fn job_seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("jobs").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    let jobs = paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    // Without the environment, and so without the inputs.
    jobs.map(|path| std::fs::read_to_string(path).expect("a job").replace("${SAWMILL_DATA}", "none").into_bytes())
        .collect()
}

fn job(bytes: &[u8], _: u64) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("no-such-folder/job.toml");
    let Ok(document) = Document::parse(path, text.to_string(), &[]) else { return };
    let Ok(job) = Job::read(&document) else { return };
    let _ = (job.to_toml(), job.header().seed);
    if !text.contains(['*', '?', '[']) || !text.contains("\"/") {
        let _ = job.plan(&document);
    }
}

fn grammar_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "# a\n%s = words\nS --> C+\n1 0.5 10 C --> Word+\n1 0.5 10 Word --> Phonemes\nPhonemes --> P\nP --> {s}\n",
        "%i = 1..3\n%k = 1..3\n%j = documents\nS --> D{j}\nD{j} --> _{j}\n0.1 D{j} --> D{j} T{i} where i != k\nT{i} --> {w}\n",
        "2 S --> (A B)+ c? \"d\"+\n0 0.5 A --> a\nB --> ( b )\n",
    ])
}

fn grammar(bytes: &[u8], _: u64) {
    let words = ["a", "b", "c", "("].map(String::from).to_vec();
    let alphabet = Alphabet { documents: vec!["1".to_string(), "2".to_string()], words };
    let text = String::from_utf8_lossy(bytes);
    if let Ok(grammar) = sawmill::adaptor::reader::read("g", &text, &alphabet, &Defaults::default()) {
        assert_eq!(grammar.validate(), Ok(()), "a grammar that was read is valid");
    }
}

fn state_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "#doc source pos typeindex type topic\n#alpha : 0.5 0.1\n#beta : 0.1\n0 a file 0 0 a 0\n0 a 1 1 b 1\n1 NA 0 2 <unk> 0\n",
    ])
}

fn state(bytes: &[u8], _: u64) {
    with_file(bytes, |path| {
        if let Ok(model) = read_state(path, Tokenisation::default()) {
            assert_eq!(model.validate(), Ok(()), "a model that was imported is valid");
        }
    });
}

fn host_seeds() -> Vec<Vec<u8>> {
    texts(&["# hosts\n127.0.0.1:2101\nhost-b.example:2101 # the second\n\n[::1]:80\n"])
}

fn hosts(bytes: &[u8], _: u64) {
    with_file(bytes, |path| drop(read_hosts(path)));
}

/// What a shard of a topics job keeps, and other shapes that parts have.
type Part = (Vec<u16>, (Vec<u8>, Vec<(u32, u16, u32, u32)>), Vec<Vec<String>>, Option<Vec<f64>>);

fn part_seeds() -> Vec<Vec<u8>> {
    let part: Part = (vec![1, 2, 3], (vec![0; 9], vec![(1, 2, 3, 4)]), vec![vec!["a".to_string()]], Some(vec![0.5]));
    vec![bincode_of(&part), encode(&part).expect("packed")]
}

fn part(bytes: &[u8], number: u64) {
    let body = if number.is_multiple_of(2) { packed(bytes) } else { bytes.to_vec() };
    let _ = decode::<Part>(&body);
    let _ = decode::<hpylm::Saved>(&body);
}

/// The serialised form of a value.
fn bincode_of(value: &impl serde::Serialize) -> Vec<u8> {
    zstd::decode_all(&encode(value).expect("packed")[..]).expect("unpacked")
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("packed")
}

/// Two ends of a connection that leave nothing behind when they are closed.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let caller = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (answerer, _) = listener.accept().expect("a call");
    for end in [&caller, &answerer] {
        socket2::SockRef::from(end).set_linger(Some(Duration::ZERO)).expect("an option of sockets");
    }
    (caller, answerer)
}

fn key() -> Key {
    Key::new("a secret of the fuzz targets")
}

/// What a process sends first.
fn handshake_seeds() -> Vec<Vec<u8>> {
    let (caller, mut answerer) = connection();
    let calling = std::thread::spawn(move || {
        drop(Channel::call(Arc::new(caller), &key(), Instant::now() + Duration::from_millis(200)));
    });
    let mut bytes = vec![0; 1 << 12];
    let read = answerer.read(&mut bytes).expect("it calls");
    bytes.truncate(read);
    drop(answerer);
    calling.join().expect("it gives up");
    vec![bytes]
}

/// A caller that sends these bytes and no more.
fn handshake(bytes: &[u8], _: u64) {
    let (mut caller, answerer) = connection();
    caller.write_all(bytes).expect("there is room for them");
    caller.shutdown(Shutdown::Write).expect("it is connected");
    drop(Channel::answer(Arc::new(answerer), &key(), Instant::now() + Duration::from_secs(1)));
}

fn hello_seeds() -> Vec<Vec<u8>> {
    let facts = vec![("settings".to_string(), "a".repeat(64)), ("workers".to_string(), "2".to_string())];
    let mut bytes = vec![];
    agreement::send(&mut bytes, &Hello { process: 1, facts, nonce: None }).expect("a message");
    let mut verdict = vec![];
    agreement::send(&mut verdict, &Verdict::Refused("why".to_string())).expect("a message");
    vec![bytes, verdict]
}

fn hello(bytes: &[u8], _: u64) {
    if let Ok(hello) = agreement::receive::<Hello>(&mut &bytes[..]) {
        agreement::differences(&hello.facts, &[("settings".to_string(), "b".to_string())]);
    }
    drop(agreement::receive::<Verdict>(&mut &bytes[..]));
}

/// A checkpoint with one part, in a folder of its own.
fn a_checkpoint(folder: &Path) -> Checkpoints {
    let checkpoints = Checkpoints::new(folder.to_path_buf(), Identity { fingerprint: [7; 32], ..Identity::default() });
    let part = checkpoints.write_part(3, "shard", &vec![1u32, 2, 3]).expect("a part");
    checkpoints.commit(3, vec![part]).expect("a checkpoint");
    checkpoints
}

fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    a_checkpoint(folder.path());
    ["latest.json", "sweep-00000003/shard"]
        .map(|name| std::fs::read(folder.path().join(name)).expect("a file"))
        .to_vec()
}

fn checkpoint(bytes: &[u8], number: u64) {
    thread_local! {
        static FOLDER: (tempfile::TempDir, Checkpoints) = {
            let folder = tempfile::tempdir().expect("a folder");
            let checkpoints = a_checkpoint(folder.path());
            (folder, checkpoints)
        };
    }
    FOLDER.with(|(folder, checkpoints)| {
        let names = ["latest.json", "sweep-00000003/shard"];
        let path = folder.path().join(names[(number % 2) as usize]);
        let whole = std::fs::read(&path).expect("a file");
        // Of a manifest, the checksum is set right, but for one input in eight.
        let mut bytes = bytes.to_vec();
        if let Ok(mut manifest) = serde_json::from_slice::<Manifest>(&bytes)
            && !number.is_multiple_of(16)
        {
            manifest.xxh3 = manifest.checksum();
            bytes = serde_json::to_vec(&manifest).expect("JSON");
        }
        std::fs::write(&path, bytes).expect("a file that can be written");
        let _ = (checkpoints.find(|_| true), checkpoints.read_part::<Vec<u32>>(3, "shard"));
        let _ = sawmill::cluster::checkpoint::last(folder.path());
        std::fs::write(&path, whole).expect("a file that can be written");
    });
}

/// Length of a model file's header.
const HEADER: usize = 36;

/// The unpacked bodies of the sample models.
fn models(names: &[&str]) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models");
    let file = |name: &&str| std::fs::read(folder.join(format!("{name}.model"))).expect("a sample");
    names.iter().map(|name| zstd::decode_all(&file(name)[HEADER..]).expect("a packed body")).collect()
}

/// The model of a body, packed again with a right checksum. Of every eighth input, the packed body is mutated instead.
fn load<M: Stored>(bytes: &[u8], number: u64) -> Option<M> {
    let mut body = packed(bytes);
    if number.is_multiple_of(8) {
        body = super::mutation::input(M::KIND, 0, number, &[body]);
    }
    let file = model_file::with_header(M::KIND, M::FORMAT, [vec![0; HEADER], body].concat());
    if let Some(folder) = std::env::var_os("SAWMILL_FUZZ_KEEP") {
        std::fs::write(Path::new(&folder).join(format!("{}-{number}", M::KIND)), &file).expect("a folder for files");
    }
    model_file::parse(&file).ok()
}

const METHOD: LeftToRight = LeftToRight { particles: 2, resample: 3 };
const TEXT: &str = "w0x1 w0x0 w0x1 zzz\nw1x2 w1x3 w0x0\n";

fn lda(bytes: &[u8], number: u64) {
    let Some(model) = load::<TopicModel>(bytes, number) else { return };
    LdaScorer::new(&model, METHOD, 1).document(0, TEXT);
    let description = Description::of_lda(&model, 3);
    let _ = (description.to_text(), description.to_json());
}

fn ngrams(bytes: &[u8], number: u64) {
    let Some(kept) = load::<NgramKept>(bytes, number) else { return };
    let model = TopicNgrams::new(kept);
    ngram::reading::Scorer { model: &model, method: METHOD, seed: 1 }.document(0, TEXT);
    let description = ngram::show::describe(&model, 3);
    let _ = (description.to_text(), description.to_json());
}

fn language(bytes: &[u8], number: u64) {
    let Some(kept) = load::<LanguageKept>(bytes, number) else { return };
    let model = LanguageModel::new(kept);
    let settings = Settings { seed: 1, max_length: 20, prefix: "w0x1".to_string() };
    let mut sentences = Sentences::new(&model, &settings);
    (0..3).for_each(|number| drop(sentences.draw(number)));
    for symbol in 0..model.symbols.outcomes() {
        let (p, _) = model.probability([symbol, model.symbols.begin].into_iter(), symbol);
        assert!(p.is_finite() && p >= 0.0, "p = {p}");
    }
    if arpa::refusal(&model).is_none() {
        let _ = arpa::write(&model, &mut std::io::sink()); // a context need not be an n-gram
    }
}

fn parser(bytes: &[u8], number: u64) {
    let Some(kept) = load::<ParserKept>(bytes, number) else { return };
    let model = ParserModel::new(kept).expect("it was validated");
    if !model.kept.is_lexicalised {
        return;
    }
    let sentence = Unparsed::of_text("the n1 v2s zzz", 1);
    let given = sentence.given(&model, Tags::Predict);
    let mut decoder = Decoder::new(&model, model.kept.search, model.kept.particles.min(5));
    decoder.best(&given, 2).iter().for_each(|parse| {
        parse.tags.iter().for_each(|&tag| drop(model.kept.lexicon.tags[tag as usize].clone()));
        parse.labels.iter().for_each(|label| drop(model.kept.lexicon.labels[usize::from(label.0)].clone()));
    });
    decoder.predict(&given);
    let drawn = sawmill::parser::generate::Sentences::new(&model, 1, 10).draw(number);
    let _ = (drawn.to_conllu(&model, 1), drawn.text(&model));
}

fn induced(bytes: &[u8], number: u64) {
    let Some(kept) = load::<GrammarKept>(bytes, number) else { return };
    let grammar = kept.grammar();
    let word = |form, tag| kept.lexicon.symbol(form, tag, kept.is_lexicalised());
    let symbols = [word("the", "DET"), word("n1", "NOUN"), word("v1s", "VERB"), word("x", "X")];
    for choice in [Choice::Viterbi, Choice::MinimumRisk] {
        assert_eq!(grammar.parse(&symbols, choice, &mut Buffers::default()).len(), symbols.len());
    }
    drop(sawmill::induction::show::describe(&kept, 3));
}

fn adaptor(bytes: &[u8], number: u64) {
    let Some(kept) = load::<AdaptorKept>(bytes, number) else { return };
    let mut model = AdaptorModel::new(kept);
    for line in ["badogmi", "salo zz"] {
        for string in model.kept.reading.strings(line) {
            for style in [Style::Words, Style::Skeletal, Style::Full] {
                if !string.is_empty() {
                    let _ = model.parse(&string, style);
                }
            }
        }
    }
    drop(sawmill::adaptor::show::describe(&model, 3));
}
