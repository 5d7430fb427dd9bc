//! Pages: what every HTML page of ours is made of.
//!
//! Owns the skeleton, the style and the drawings, all in one file without scripts and without anything
//! from elsewhere. Must not know what a page is about: texts, counts and tones come in. Every text is
//! escaped by the template; nothing here takes a text as markup.

pub mod charts;

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style of every page: light and dark as the reader's system is, and for printing.
pub const STYLE: &str = include_str!("style.css");

/// How something stands. It chooses a colour; the text beside it says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As hoped.
    Fine,
    /// Not done yet, and nobody has to do anything.
    Waiting,
    /// Somebody has to look.
    Trouble,
    /// Neither good nor bad.
    Quiet,
}

impl Tone {
    /// Its class in the style; for drawings with `bar-` or `line-` before it.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Waiting => "waiting",
            Self::Trouble => "trouble",
            Self::Quiet => "quiet",
        }
    }
}

/// A whole page. `head` goes into the head as it is: a policy, a refresh, a script of a page that has one.
#[must_use]
pub fn page_with_head(title: &str, head: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                (head)
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
}

/// A whole page that may load nothing from anywhere and run nothing, and says so to the browser.
#[must_use]
pub fn page(title: &str, body: &Markup) -> Markup {
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    let head = html! { meta http-equiv="Content-Security-Policy" content=(policy); };
    page_with_head(title, &head, body)
}

/// A word about how something stands.
#[must_use]
pub fn badge(tone: Tone, text: &str) -> Markup {
    html! { span class={ "badge " (tone.class()) } { (text) } }
}

/// A paragraph that stands out: what it comes to, and what to know about it.
#[must_use]
pub fn notice(tone: Tone, headline: &str, more: &Markup) -> Markup {
    html! {
        div class={ "notice " (tone.class()) } {
            p { strong { (headline) } }
            (more)
        }
    }
}

/// Names and values.
#[must_use]
pub fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts {
                dt { (name) }
                dd { (value) }
            }
        }
    }
}

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The first one, which names the row.
    Name,
    /// Text, from the left.
    Text,
    /// Numbers, to the right.
    Number,
}

/// A table that scrolls inside of its own box. A row has as many cells as there are columns.
#[must_use]
pub fn table(caption: &str, columns: &[(&str, Column)], rows: &[Vec<Markup>]) -> Markup {
    let class = |column: Column| matches!(column, Column::Number).then_some("number");
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead { tr {
                    @for (heading, column) in columns {
                        th scope="col" class=[class(*column)] { (heading) }
                    }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (cell, (_, column)) in row.iter().zip(columns) {
                                @if *column == Column::Name {
                                    th scope="row" { (cell) }
                                } @else {
                                    td class=[class(*column)] { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Lines to be typed.
#[must_use]
pub fn commands(lines: &[String]) -> Markup {
    html! { pre.scroll tabindex="0" { code { (lines.join("\n")) } } }
}

/// A drawing under its caption.
#[must_use]
pub fn figure(caption: &str, drawing: &Markup) -> Markup {
    html! { figure { figcaption { (caption) } (drawing) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const NASTY: &str = "<img src=x onerror=alert(1)>&\"'";

    #[test]
    fn texts_are_escaped_wherever_they_stand() {
        let cell = html! { (NASTY) };
        let body = html! {
            (badge(Tone::Fine, NASTY))
            (notice(Tone::Trouble, NASTY, &cell))
            (facts(&[(NASTY, cell.clone())]))
            (table(NASTY, &[(NASTY, Column::Name)], &[vec![cell.clone()]]))
            (commands(&[NASTY.to_owned()]))
            (figure(NASTY, &cell))
        };
        let text = page(NASTY, &body).into_string();
        assert_eq!(text.matches("&lt;img src=x onerror=alert(1)&gt;&amp;&quot;").count(), 13);
        assert!(!text.contains("<img"));
        assert!(!text.contains("&\"'"));
    }

    #[test]
    fn a_page_brings_everything_along_and_may_run_nothing() {
        let text = page("a title", &html! { p { "a body" } }).into_string();
        assert!(text.starts_with("<!DOCTYPE html>"));
        assert!(text.contains("default-src 'none'"));
        for word in ["<script", "<link", "src=", "@import", "url(", "://"] {
            assert!(!text.contains(word), "{word}");
        }
    }

    #[test]
    fn a_head_of_a_pages_own_takes_the_place_of_the_strict_one() {
        let head = html! { meta http-equiv="refresh" content="5"; };
        let text = page_with_head("a title", &head, &html! { p { "a body" } }).into_string();
        assert!(text.contains("refresh"));
        assert!(!text.contains("default-src"));
    }

    #[test]
    fn a_table_names_its_columns_and_rows_for_readers_who_listen() {
        let cells = vec![html! { "dispatch" }, html! { "3" }];
        let columns = [("flow", Column::Name), ("records", Column::Number)];
        let text = table("health", &columns, &[cells]).into_string();
        assert!(text.contains("<th scope=\"row\">dispatch</th><td class=\"number\">3</td>"));
        assert!(text.contains("tabindex=\"0\""));
    }

    /// The colours of one block of the style: name to `#rrggbb`.
    fn colours(block: &str) -> BTreeMap<String, [f64; 3]> {
        let lines = block.lines().filter_map(|line| line.trim().strip_prefix("--"));
        let pairs = lines.filter_map(|line| line.trim_end_matches(';').split_once(": #"));
        let channel = |hex: &str, at: usize| {
            let value = u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
            let share = f64::from(value) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        pairs.map(|(name, hex)| (name.to_owned(), [0, 2, 4].map(|at| channel(hex, at)))).collect()
    }

    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let light = |[red, green, blue]: [f64; 3]| {
            0.2126f64.mul_add(red, 0.7152f64.mul_add(green, 0.0722 * blue)) + 0.05
        };
        let (one, other) = (light(one), light(other));
        one.max(other) / one.min(other)
    }

    #[test]
    fn text_stands_out_enough_in_light_in_dark_and_in_print() {
        let blocks: Vec<&str> = STYLE.split(":root {").skip(1).collect();
        assert_eq!(blocks.len(), 3);
        for block in blocks {
            let block = block.split('}').next().expect("a block ends");
            let colours = colours(block);
            let pairs = [
                ("ink", "paper"),
                ("ink", "panel"),
                ("pale", "paper"),
                ("pale", "panel"),
                ("link", "paper"),
                ("link", "panel"),
            ];
            let tones = ["fine", "waiting", "trouble", "quiet"];
            let own = tones.map(|tone| (tone.to_owned(), format!("{tone}-paper")));
            let drawn = tones.map(|tone| (tone.to_owned(), "paper".to_owned()));
            let pairs = pairs.map(|(text, paper)| (text.to_owned(), paper.to_owned()));
            for (text, paper) in pairs.into_iter().chain(own).chain(drawn) {
                let ratio = contrast(colours[&text], colours[&paper]);
                assert!(ratio >= 4.5, "{text} on {paper} has {ratio:.2}");
            }
        }
    }
}
