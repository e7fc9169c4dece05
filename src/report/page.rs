//! One self-contained HTML page: no script, no font, no request to anywhere; readable on a phone and in the dark.

use std::fmt::Write;

use super::svg::{self, escape};

/// A page that grows section by section.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    lead: String,
    body: String,
    contents: Vec<(String, String)>,
}

impl Page {
    /// A page with a title and a sentence under it.
    pub fn new(title: &str, lead: &str) -> Page {
        Page { title: title.to_string(), lead: lead.to_string(), body: String::new(), contents: vec![] }
    }

    /// Adds a section with HTML content.
    pub fn section(&mut self, id: &str, heading: &str, html: &str) {
        self.contents.push((id.to_string(), heading.to_string()));
        let _ = write!(self.body, "<section id=\"{id}\">\n<h2>{}</h2>\n{html}</section>\n", escape(heading));
    }

    pub fn to_html(&self) -> String {
        let links: Vec<String> =
            self.contents.iter().map(|(id, heading)| format!("<a href=\"#{id}\">{}</a>", escape(heading))).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"generator\" content=\"sawmill\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n\
             <style>{figures}{page}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n<p class=\"lead\">{lead}</p>\n\
             <nav>{links}</nav>\n</header>\n<main>\n{body}</main>\n</body>\n</html>\n",
            title = escape(&self.title),
            lead = escape(&self.lead),
            figures = svg::STYLE,
            page = STYLE,
            links = links.join(" "),
            body = self.body,
        )
    }
}

/// A paragraph.
pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// Content that opens when asked for.
pub fn details(summary: &str, html: &str) -> String {
    format!("<details><summary>{}</summary>\n{html}</details>\n", escape(summary))
}

/// Large figures with small names under them.
pub fn cards(cards: &[(String, String)]) -> String {
    let mut out = String::from("<dl class=\"cards\">\n");
    for (value, name) in cards {
        let _ = writeln!(out, "<div><dd>{}</dd><dt>{}</dt></div>", escape(value), escape(name));
    }
    out.push_str("</dl>\n");
    out
}

/// A whole number with its thousands apart.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

const STYLE: &str = "\
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
header,main{max-width:78rem;margin:0 auto;padding:0 1rem}header{padding-top:1.5rem}\
h1{font-size:1.7rem;line-height:1.2;margin:0}h2{font-size:1.2rem;margin:2.2rem 0 .6rem}p{max-width:46rem;margin:.5rem 0}\
.lead{color:var(--faint)}nav{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin:.8rem 0 0;font-size:.9rem}a{color:var(--c1)}\
.cards{display:flex;flex-wrap:wrap;gap:.6rem 2.4rem;margin:1rem 0}.cards div{display:flex;flex-direction:column}.cards dd{margin:0;font-size:1.6rem;font-weight:600;line-height:1.2}.cards dt{color:var(--faint);font-size:.85rem}\
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:.4rem .8rem}.panels.wide{grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));max-width:44rem}.topics{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:1rem}.topics article{border:1px solid var(--grid);border-radius:.5rem;padding:.6rem .8rem}.topics h3{margin:0 0 .3rem;font-size:1rem}.topics ol{list-style:none;margin:0;padding:0;font-size:.9rem;line-height:1.45}.topics li{position:relative;overflow:hidden}.topics li span{position:relative}.topics .bar{position:absolute;inset:.1rem auto .1rem 0;background:var(--c1);opacity:.22;border-radius:.15rem}.topics p{margin:.4rem 0 0}\
.panel{width:100%;height:auto;display:block}\
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.4rem;padding:0;margin:.6rem 0;list-style:none;font-size:.9rem}.legend svg{width:2rem;height:.7rem;margin-right:.4rem;vertical-align:middle}\
.figure svg{width:100%;max-width:44rem;height:auto;display:block}\
.scroll{overflow-x:auto;margin:.6rem 0}table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}th,td{padding:.25rem .7rem .25rem 0;text-align:left;border-bottom:1px solid var(--grid);white-space:nowrap;vertical-align:top}thead th{color:var(--faint);font-weight:600}.number{text-align:right}\
.claims{list-style:none;padding:0;margin:0;display:grid;gap:.8rem}.claims li{border:1px solid var(--grid);border-radius:.5rem;padding:.7rem .9rem}.claims p{margin:.25rem 0;max-width:none}.claims .rule{color:var(--faint);font-size:.88rem}\
.verdict{font-size:.8rem;font-weight:600;padding:.05rem .5rem;border-radius:1rem;border:1.5px solid;white-space:nowrap}.holds{color:var(--c2)}.holds-in-part{color:var(--c1)}.does-not-hold{color:var(--c0)}.not-tested{color:var(--faint)}\
details{margin:.6rem 0}summary{cursor:pointer;color:var(--c1)}code{font-size:.9em}.small{color:var(--faint);font-size:.88rem}";
