//! Tokens of a document: what stands between white space, with numbers and case made one where the job asks for it.
//!
//! Corpora come tokenised; nothing is split here, so `1960.` with its full stop is one token, and no number.

use serde::{Deserialize, Serialize};

/// How tokens are made one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokenisation {
    pub lowercase: bool,
    /// What stands for every number (see [`is_number`]); empty: numbers stay as they are.
    pub numbers: String,
}

impl Tokenisation {
    /// Says what is wrong with the settings.
    pub fn check(&self) -> Result<(), String> {
        match self.numbers.contains(char::is_whitespace) {
            true => Err(format!("numbers = {:?} has white space in it: it has to be one token", self.numbers)),
            false => Ok(()),
        }
    }

    /// Shows each token of `text` (a document, or a line of one) to `visit`.
    pub fn each_token(&self, text: &str, mut visit: impl FnMut(&str)) {
        let mut scratch = String::new();
        text.split_whitespace().for_each(|token| visit(self.normalise(token, &mut scratch)));
    }

    /// A token as the job wants it; `scratch` is there to be reused.
    #[inline]
    pub fn normalise<'a>(&'a self, token: &'a str, scratch: &'a mut String) -> &'a str {
        if !self.numbers.is_empty() && is_number(token) {
            return &self.numbers;
        }
        if !self.lowercase || !has_uppercase(token) {
            return token;
        }
        scratch.clear();
        match token.is_ascii() {
            true => {
                scratch.push_str(token);
                scratch.make_ascii_lowercase();
            }
            false => scratch.push_str(&token.to_lowercase()), // of the whole word: a last sigma has its own form
        }
        scratch
    }
}

fn has_uppercase(token: &str) -> bool {
    // Not `is_uppercase`: letters in title case, such as U+01C5, have a lower-case form too.
    token.chars().any(|c| if c.is_ascii() { c.is_ascii_uppercase() } else { !c.to_lowercase().eq([c]) })
}

/// Whether a token is a number: digits, in groups with a single `.` `,` `:` `/` or `-` between them (and perhaps one of
/// `.` and `:` in front); before them perhaps a sign and a currency, in either order; behind them perhaps `%`, `¢` or
/// the ending of an English ordinal.
///
/// So `1961-62`, `3/4`, `10:30`, `-$1,000.50`, `$.03`, `42%` and `20th` are numbers; `B-52`, `10-year`, `1920's`, `30-`
/// and `1e9` are words. Digits are those of any script; a token without a digit is never a number.
pub fn is_number(token: &str) -> bool {
    let body = strip_front(token);
    let body = body.strip_prefix(['.', ':']).unwrap_or(body);
    let mut after_digit = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if is_digit(c) => after_digit = true,
            '.' | ',' | ':' | '/' | '-' if after_digit => after_digit = false,
            _ => return after_digit && is_ending(&body[at..]),
        }
    }
    after_digit
}

/// Takes off a sign and a currency, at most one of each.
fn strip_front(token: &str) -> &str {
    const SIGNS: [char; 4] = ['+', '-', '\u{2212}', '±'];
    const CURRENCIES: [char; 4] = ['$', '£', '€', '¥'];
    let without_sign = token.strip_prefix(SIGNS);
    let rest = without_sign.unwrap_or(token);
    match rest.strip_prefix(CURRENCIES) {
        Some(rest) if without_sign.is_none() => rest.strip_prefix(SIGNS).unwrap_or(rest),
        Some(rest) => rest,
        None => rest,
    }
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric())
}

fn is_ending(rest: &str) -> bool {
    ["%", "¢", "st", "nd", "rd", "th"].iter().any(|ending| rest.eq_ignore_ascii_case(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str, lowercase: bool, numbers: &str) -> Vec<String> {
        let tokenisation = Tokenisation { lowercase, numbers: numbers.to_string() };
        let mut tokens = vec![];
        tokenisation.each_token(text, |token| tokens.push(token.to_string()));
        tokens
    }

    #[test]
    fn numbers_are_numbers() {
        for token in
            "0 007 1961 1961-62 1,000.50 3/4 10:30 +5 -5 −5 $5 -$5 $-5 £1,000 42% 5¢ 1st 2ND 23rd 20th .5 $.03 :35.3 ٣٤ ½"
                .split(' ')
        {
            assert!(is_number(token), "{token}");
        }
        for token in
            "a - . $ % th +- $% -- ... B-52 10-year 1920's 1960. 30- 1--2 1..2 1e9 --5 ++5 $$5 -$-5 ..5 5%% 5thx #5 五 1 000"
                .split(' ')
                .filter(|token| !["1", "000"].contains(token))
                .chain(["", "1 000"])
        {
            assert!(!is_number(token), "{token}");
        }
    }

    #[test]
    fn options_are_independent() {
        let text = " The\tÉTÉ of\u{a0}1961 \r\n$5 ΟΔΟΣ ǅ";
        assert_eq!(tokens(text, false, ""), ["The", "ÉTÉ", "of", "1961", "$5", "ΟΔΟΣ", "ǅ"]);
        assert_eq!(tokens(text, true, ""), ["the", "été", "of", "1961", "$5", "οδος", "ǆ"]);
        assert_eq!(tokens(text, false, "#"), ["The", "ÉTÉ", "of", "#", "#", "ΟΔΟΣ", "ǅ"]);
        assert_eq!(tokens(text, true, "NUM"), ["the", "été", "of", "NUM", "NUM", "οδος", "ǆ"]);
        assert_eq!(tokens(" \n", true, "#"), [""; 0]);
    }

    #[test]
    fn what_stands_for_numbers_is_one_token() {
        assert!(Tokenisation { lowercase: false, numbers: "# #".to_string() }.check().is_err());
        assert!(Tokenisation::default().check().is_ok());
    }
}
