//! The one integration-test binary: what a user sees, dataflows against plain sequential twins, oracles against exact
//! answers.
//!
//! - `adaptor_job`: adaptor grammars: the law, killed and resumed, segmentation, parses, bad input
//! - `oracles`: transition systems on all small trees, random trees and the real treebanks
//! - `reader`: CoNLL-X and CoNLL-U, whole and cut into pieces; rules and their addresses
//! - `law`: the cluster never shows in the result: threads, processes, a sequential twin
//! - `oracle_job`: the command line of the oracle job, its run folder and report
//! - `bad_input`: what goes wrong is said clearly, early, and with the right exit code
//! - `fuzz`: every reader on mutated input
//! - `limits`: inputs without end, and settings beyond all reason
//! - `model_samples`: model files that older versions wrote
//! - `watch`: treebanks that change under a running job
//! - `induction_job`: grammar induction: the law, killed and resumed, parses, bad input
//! - `lm_verbs`: language models put to use: perplexity, ARPA files beside KenLM, sentences drawn
//! - `mesh`: strangers, other jobs and missing processes
//! - `fault_campaign`: jobs of every kind under random faults
//! - `official_scores`: `sawmill score` beside the script of the CoNLL 2018 shared task, where it can be had
//! - `parser_job`: parsers: the law, killed and resumed, parses and scores, quality, bad input
//! - `perplexity`: trained models put to use, and those of other programs
//! - `page`: the report in a browser
//! - `run_folder`: what `sawmill run` does in each state of a folder, and whose files it touches
//! - `semisupervised_job`: parsers that learn from raw text: the law, killed and resumed, what learns and what stays, bad input
//! - `study_job`: jobs in several variants: side by side, stopped, killed and resumed, bad files
//! - `synchronisation`: operators against plain sequential twins
//! - `lm_job`: language models: the law, killed and resumed, quality, bad input
//! - `ngram_job`: topic n-gram models: the law, killed and resumed
//! - `ngram_verbs`: topic n-gram models put to use: looked up, scored, streamed and shown
//! - `topics_job`: LDA: the law, killed and resumed, faults, bad input
//!
//! Tests on real data need `SAWMILL_DATA`, and say that they were skipped where it is not set.

#[path = "all/support.rs"]
mod support;

#[path = "all/adaptor_job.rs"]
mod adaptor_job;
#[path = "all/bad_input.rs"]
mod bad_input;
#[path = "all/fault_campaign.rs"]
mod fault_campaign;
#[path = "all/fuzz.rs"]
mod fuzz;
#[path = "all/induction_job.rs"]
mod induction_job;
#[path = "all/law.rs"]
mod law;
#[path = "all/limits.rs"]
mod limits;
#[path = "all/lm_job.rs"]
mod lm_job;
#[path = "all/lm_verbs.rs"]
mod lm_verbs;
#[path = "all/mesh.rs"]
mod mesh;
#[path = "all/model_samples.rs"]
mod model_samples;
#[path = "all/ngram_job.rs"]
mod ngram_job;
#[path = "all/ngram_verbs.rs"]
mod ngram_verbs;
#[path = "all/official_scores.rs"]
mod official_scores;
#[path = "all/oracle_job.rs"]
mod oracle_job;
#[path = "all/oracles.rs"]
mod oracles;
#[path = "all/page.rs"]
mod page;
#[path = "all/parser_job.rs"]
mod parser_job;
#[path = "all/perplexity.rs"]
mod perplexity;
#[path = "all/reader.rs"]
mod reader;
#[path = "all/run_folder.rs"]
mod run_folder;
#[path = "all/semisupervised_job.rs"]
mod semisupervised_job;
#[path = "all/study_job.rs"]
mod study_job;
#[path = "all/synchronisation.rs"]
mod synchronisation;
#[path = "all/topics_job.rs"]
mod topics_job;
#[path = "all/watch.rs"]
mod watch;
