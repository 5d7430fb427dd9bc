//! Tokens, and the sessions of browsers that showed one.
//!
//! Owns their form, how they are compared, and how long a session lasts. Sessions are in memory only: a
//! restart ends them.

use crate::clock::Entropy;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::VecDeque;
use subtle::ConstantTimeEq as _;

use super::DoorInvalid;

/// Fewest characters of a token.
const TOKEN_CHARACTERS_MIN: usize = 16;
/// Most characters of a token.
const TOKEN_CHARACTERS_MAX: usize = 4096;
/// How long a session lasts, in seconds.
const SESSION_SECONDS: f64 = 12.0 * 3600.0;
/// Sessions at once; a further one ends the oldest.
const SESSIONS_MAX: usize = 64;
/// The cookie a session is kept in.
const COOKIE: &str = "leasehold_session";

/// What a caller has to know. `Debug` does not show it.
#[derive(Debug, Clone)]
pub struct Token(SecretString);

impl Token {
    /// Checks the content of a file; one line end after the token is not part of it.
    ///
    /// # Errors
    /// [`DoorInvalid::TokenInvalid`].
    pub fn new(content: &str) -> Result<Self, DoorInvalid> {
        let content = content.strip_suffix('\n').unwrap_or(content);
        let token = content.strip_suffix('\r').unwrap_or(content);
        let long_enough = (TOKEN_CHARACTERS_MIN..=TOKEN_CHARACTERS_MAX).contains(&token.len());
        if long_enough && token.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(token.into()))
        } else {
            Err(DoorInvalid::TokenInvalid)
        }
    }

    /// The header that shows it.
    pub(crate) fn header(&self) -> (String, SecretString) {
        let value = format!("Bearer {}", self.0.expose_secret());
        ("Authorization".to_owned(), value.into())
    }

    /// Whether this is it; the time it takes says nothing but the length.
    pub(crate) fn is(&self, shown: &str) -> bool {
        self.0.expose_secret().as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

/// Sessions under way, the oldest first.
#[derive(Default)]
pub(crate) struct Sessions(VecDeque<Session>);

struct Session {
    id: String,
    ends_at: f64,
}

impl Sessions {
    /// Begins one and answers the cookie that is it.
    pub(crate) fn begin(&mut self, entropy: &dyn Entropy, now: f64) -> String {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes);
        let id = URL_SAFE_NO_PAD.encode(bytes);
        let cookie = format!("{COOKIE}={id}; Path=/; HttpOnly; SameSite=Strict");
        self.0.retain(|session| session.ends_at > now);
        if self.0.len() == SESSIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Session { id, ends_at: now + SESSION_SECONDS });
        cookie
    }

    /// Whether a `Cookie` header holds a session that lasts.
    pub(crate) fn know(&self, cookies: &str, now: f64) -> bool {
        let shown = cookies.split(';').filter_map(|cookie| cookie.trim().split_once('='));
        shown.filter(|(name, _)| *name == COOKIE).any(|(_, shown)| {
            let is = |session: &Session| -> bool {
                session.id.as_bytes().ct_eq(shown.as_bytes()).into()
            };
            self.0.iter().any(|session| session.ends_at > now && is(session))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    struct Counting(AtomicU8);

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0.fetch_add(1, Ordering::Relaxed));
        }
    }

    #[test]
    fn a_token_is_long_and_visible_and_loses_its_line_end() {
        let good = "0123456789abcdef";
        for content in [good.to_owned(), format!("{good}\n"), format!("{good}\r\n")] {
            let token = Token::new(&content).expect("it is one");
            assert!(token.is(good) && !token.is("0123456789abcdeF") && !token.is(""));
            assert!(!format!("{token:?}").contains(good));
        }
        let long = "x".repeat(TOKEN_CHARACTERS_MAX + 1);
        for bad in ["", "0123456789abcde", "0123456789 abcdef", "0123456789abcdef\n\n", &long] {
            assert_eq!(Token::new(bad).err(), Some(DoorInvalid::TokenInvalid), "{bad}");
        }
    }

    #[test]
    fn a_session_is_known_until_it_ends_and_only_by_its_own_cookie() {
        let (mut sessions, entropy) = (Sessions::default(), Counting(AtomicU8::new(0)));
        let cookie = sessions.begin(&entropy, 100.0);
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"));
        let pair = cookie.split(';').next().expect("a pair");
        assert!(sessions.know(&format!("other=1; {pair}"), 101.0));
        assert!(!sessions.know(pair, 100.0 + SESSION_SECONDS), "it is over");
        for other in ["", "leasehold_session=", "leasehold_session", &pair.replacen('=', "x=", 1)] {
            assert!(!sessions.know(other, 101.0), "{other}");
        }
    }

    #[test]
    fn one_session_too_many_ends_the_oldest() {
        let (mut sessions, entropy) = (Sessions::default(), Counting(AtomicU8::new(0)));
        let first = sessions.begin(&entropy, 0.0);
        for _ in 1..SESSIONS_MAX {
            sessions.begin(&entropy, 1.0);
        }
        assert!(sessions.know(&first, 2.0));
        let last = sessions.begin(&entropy, 2.0);
        assert!(!sessions.know(&first, 2.0) && sessions.know(&last, 2.0));
    }
}
