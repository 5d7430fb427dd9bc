//! Locale tags and the registry of supported ones (contract 2.1).

use super::text::is_label;

/// Supported locales, in registry order.
pub const SUPPORTED: [&str; 24] = [
    "bg-BG", "hr-HR", "cs-CZ", "da-DK", "nl-NL", "en-IE", "et-EE", "fi-FI", "fr-FR", "de-AT",
    "el-GR", "hu-HU", "ga-IE", "it-IT", "lv-LV", "lt-LT", "mt-MT", "pl-PL", "pt-PT", "ro-RO",
    "sk-SK", "sl-SI", "es-ES", "sv-SE",
];

/// The normal form of an exact locale tag; `None` when the text is none.
///
/// First subtag lower case; four letters Title case; two letters or three digits upper case;
/// anything else lower case.
#[must_use]
pub fn normal_form(text: &str) -> Option<String> {
    if !is_label(text) || text.eq_ignore_ascii_case("auto") || text.eq_ignore_ascii_case("all") {
        return None;
    }
    let mut subtags = text.split('-');
    let language = subtags.next()?;
    if !(2..=8).contains(&language.len()) || !language.bytes().all(|b| b.is_ascii_alphabetic()) {
        return None;
    }
    let mut normal = language.to_ascii_lowercase();
    for subtag in subtags {
        normal.push('-');
        normal.push_str(&normal_subtag(subtag)?);
    }
    Some(normal)
}

fn normal_subtag(subtag: &str) -> Option<String> {
    let letters = subtag.bytes().all(|b| b.is_ascii_alphabetic());
    let digits = subtag.bytes().all(|b| b.is_ascii_digit());
    let either = subtag.bytes().all(|b| b.is_ascii_alphanumeric());
    match subtag.len() {
        4 if letters => {
            let (first, rest) = subtag.split_at(1);
            Some(first.to_ascii_uppercase() + &rest.to_ascii_lowercase())
        }
        2 if letters => Some(subtag.to_ascii_uppercase()),
        3 if digits => Some(subtag.to_owned()),
        5..=8 if either => Some(subtag.to_ascii_lowercase()),
        _ => None,
    }
}

/// The language of a tag in normal form: its first subtag.
#[must_use]
pub fn language(normal: &str) -> &str {
    normal.split_once('-').map_or(normal, |(language, _)| language)
}

/// How many jobs a change asks for: its own list, or every supported locale of another language.
#[must_use]
pub fn default_targets(source_language: &str) -> Vec<&'static str> {
    SUPPORTED.into_iter().filter(|locale| language(locale) != source_language).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_brought_to_normal_form() {
        for (given, normal) in [
            ("DE-at", "de-AT"),
            ("zh-hant-tw", "zh-Hant-TW"),
            ("sl-ROZAJ", "sl-rozaj"),
            ("es-419", "es-419"),
            ("ja", "ja"),
        ] {
            assert_eq!(normal_form(given).as_deref(), Some(normal));
        }
    }

    #[test]
    fn what_is_no_exact_tag_is_refused() {
        for bad in [
            "",
            "d",
            "auto",
            "ALL",
            "de_AT",
            "de-",
            "de-A",
            "de-ATX",
            "de-1a2",
            "de-AT ",
            "123",
            "abcdefghi",
            "dé",
        ] {
            assert_eq!(normal_form(bad), None, "{bad:?}");
        }
        assert!(normal_form("auto-AT").is_some());
    }
}
