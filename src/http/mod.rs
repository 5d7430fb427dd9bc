//! HTTP to the other side. The only module that names reqwest.
//!
//! Owns the transport rules all clients share (contract 3.1): where a call may go, what it may carry,
//! how long it may take, how much of an answer is read. Must not know what an answer means to a
//! record.
//!
//! | module | owns |
//! | --- | --- |
//! | [`address`] | origins |
//! | [`credentials`] | signatures and authentication headers |
//! | [`transport`] | one exchange: no redirects, no proxy, no decoding, a deadline, a cap |
//! | [`response`] | the checks every answer passes |
//! | [`cms`] | the CMS client |

pub mod address;
pub mod cms;
pub mod credentials;
pub mod response;
pub mod transport;

pub use address::{AddressInvalid, Origin};
pub use cms::{CmsClient, CmsOptions};
pub use credentials::{
    AuthHeaders, HmacSha256Signer, NoAuthHeaders, Signature, Signer, StaticAuthHeader,
};
