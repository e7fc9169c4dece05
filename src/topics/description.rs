//! What a topic model has learned, for people and for programs.

use std::fmt::Write;

use serde::Serialize;

use super::model::TopicModel;

/// A model, topic by topic.
#[derive(Debug, Serialize)]
pub struct Description {
    pub model: String,
    pub vocabulary: usize,
    /// Of topic n-grams: how many contexts there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<usize>,
    pub topics: Vec<Topic>,
    /// Of models with a global topic.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contexts_by_lambda: Vec<Range>,
}

#[derive(Debug, Serialize)]
pub struct Topic {
    pub topic: usize,
    /// Its part of the document prior; none of the global topic.
    pub share: Option<f64>,
    pub words: Vec<String>,
    /// Of topic n-grams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phrases: Option<Vec<String>>,
}

/// Contexts with a lambda between two bounds.
#[derive(Debug, Serialize)]
pub struct Range {
    pub from: f64,
    pub to: f64,
    pub contexts: Vec<String>,
}

impl Description {
    /// The topics of LDA, with so many words each.
    pub fn of_lda(model: &TopicModel, count: usize) -> Description {
        let strength: f64 = model.alpha.iter().sum();
        let topic = |(topic, words): (usize, Vec<(u32, u32)>)| Topic {
            topic,
            share: Some(model.alpha[topic] / strength),
            words: words.iter().map(|&(word, _)| model.vocabulary.word(word).to_string()).collect(),
            phrases: None,
        };
        Description {
            model: "LDA".to_string(),
            vocabulary: model.vocabulary.len(),
            contexts: None,
            topics: model.distinctive_words(count).into_iter().enumerate().map(topic).collect(),
            contexts_by_lambda: vec![],
        }
    }

    pub fn to_text(&self) -> String {
        let topics = self.topics.iter().filter(|topic| topic.share.is_some()).count();
        let mut text = format!("{}: {topics} topics, {} words", self.model, self.vocabulary);
        text += &self.contexts.map_or("\n".to_string(), |contexts| format!(", {contexts} contexts\n"));
        for Topic { topic, share, words, phrases } in &self.topics {
            let _ = match share {
                None => writeln!(text, "\ntopic {topic}, the global one"),
                Some(share) => writeln!(text, "\ntopic {topic}, {:.1} %", 100.0 * share),
            };
            let _ = writeln!(text, "  words: {}", row(words));
            if let Some(phrases) = phrases {
                let _ = writeln!(text, "  phrases: {}", row(phrases));
            }
        }
        if !self.contexts_by_lambda.is_empty() {
            text += "\ncontexts by lambda, the probability that what follows is a topic's and not the global model's\n";
        }
        for Range { from, to, contexts } in &self.contexts_by_lambda {
            let _ = writeln!(text, "  {from:.1}-{to:.1}: {}", row(contexts));
        }
        text
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a description is JSON") + "\n"
    }
}

/// Items side by side. A comma may be one of them.
fn row(items: &[String]) -> String {
    if items.is_empty() { "none".to_string() } else { items.join(" | ") }
}
