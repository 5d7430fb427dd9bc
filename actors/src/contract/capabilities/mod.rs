//! Capability documents (contract 2.8): what an HTTP surface offers, and the digest that pins it.
//!
//! Owns the routes of the two surfaces whose document a client fetches, the documents, and their
//! digests. Must not know how a route is called.
//!
//! A document that was fetched is compared with the one built here, never only by its digest: a
//! substitute that was hashed again is refused.

pub mod receiver;
pub mod source;

pub use receiver::{receiver_document, receiver_notification_path};
pub use source::source_document;

use super::json::{Integer, Object, Value};
use super::payload::Payload;
use super::text::{Sha256, Token};

/// One operation of a surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Its name in the document.
    pub name: &'static str,
    /// Where it is.
    pub path: &'static str,
    /// What the caller must be allowed.
    pub scope: &'static str,
    /// Schema of the caller; only the source surface names one.
    pub principal_schema: Option<&'static str>,
    /// Schema of the body; none where there is no body.
    pub request_schema: Option<&'static str>,
    /// Fields of the body.
    pub request_fields: &'static [&'static str],
    /// Schema of the answer.
    pub response_schema: &'static str,
    /// Fields of the answer.
    pub response_fields: &'static [&'static str],
    /// Status of an answer that is a success.
    pub success_status: u16,
}

impl Route {
    /// `POST` where there is a body, else `GET`.
    #[must_use]
    pub fn method(&self) -> &'static str {
        if self.request_schema.is_some() { "POST" } else { "GET" }
    }

    /// Whether an answer has exactly this route's fields, and its schema.
    #[must_use]
    pub fn is_answer(&self, answer: &Object) -> bool {
        answer.has_exactly(self.response_fields)
            && answer.text("schema") == Some(self.response_schema)
    }

    /// The body of a route that asks about one event at its site.
    #[must_use]
    pub fn question(&self, event_id: &Token, site_id: &Token) -> Payload {
        Payload::of(&Value::Object(object(vec![
            ("schema", self.request_schema.map_or(Value::Null, text)),
            ("event_id", text(event_id.as_str())),
            ("site_id", text(site_id.as_str())),
        ])))
    }

    /// Its entry in the document, at this path.
    fn entry(&self, path: &str) -> Value {
        let mut members = vec![
            ("method", text(self.method())),
            ("path", text(path)),
            ("request_fields", texts(self.request_fields)),
            ("request_schema", self.request_schema.map_or(Value::Null, text)),
            ("response_fields", texts(self.response_fields)),
            ("response_schema", text(self.response_schema)),
            ("scope", text(self.scope)),
            ("success_status", count(self.success_status.into())),
        ];
        members.extend(self.principal_schema.map(|schema| ("principal_schema", text(schema))));
        Value::Object(object(members))
    }
}

/// The digest a document declares; `None` when it is not the hash of the rest of the document.
#[must_use]
pub fn digest(document: &Value) -> Option<Sha256> {
    let document = document.as_object()?;
    let declared = Sha256::from_hex(document.text("sha256")?)?;
    let rest = Payload::of(&Value::Object(document.without("sha256")));
    (rest.sha256() == declared).then_some(declared)
}

/// A document with its digest in it.
fn with_digest(document: &Object) -> Value {
    let sha256 = Payload::of(&Value::Object(document.clone())).sha256();
    Value::Object(document.with("sha256", text(&sha256.to_string())))
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

fn texts(values: &[&str]) -> Value {
    Value::Array(values.iter().map(|value| text(value)).collect())
}

fn count(value: u32) -> Value {
    Value::Integer(Integer::Small(value.into()))
}

fn object(members: Vec<(&str, Value)>) -> Object {
    let members = members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Object::new(members).expect("our own documents repeat no key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_only_one_when_it_is_the_hash_of_the_rest() {
        let document = object(vec![("a", count(1))]);
        let sealed = with_digest(&document);
        let hash = Payload::of(&Value::Object(document.clone())).sha256();
        assert_eq!(digest(&sealed), Some(hash));
        assert_eq!(digest(&Value::Object(document)), None);
        let sealed = sealed.as_object().expect("an object");
        assert_eq!(digest(&Value::Object(sealed.with("a", count(2)))), None);
        assert_eq!(digest(&Value::Object(sealed.with("sha256", Value::Null))), None);
        assert_eq!(digest(&Value::Null), None);
    }

    #[test]
    fn an_answer_has_exactly_its_fields_and_its_schema() {
        let route = &source::HEALTH;
        let answer = object(vec![
            ("schema", text(route.response_schema)),
            ("health", Value::Null),
            ("capabilities_sha256", Value::Null),
        ]);
        assert!(route.is_answer(&answer));
        assert!(!route.is_answer(&answer.with("more", Value::Null)));
        assert!(!route.is_answer(&answer.without("health")));
        assert!(!route.is_answer(&answer.with("schema", text("other"))));
    }
}
