//! HTTP to the other side. The only module that names reqwest.
//!
//! Owns the transport rules all clients share (contract 3.1): where a call may go, what it may carry,
//! how long it may take, how much of an answer is read. Must not know what an answer means to a
//! record.
//!
//! | module | owns |
//! | --- | --- |
//! | [`address`] | origins and endpoints |
//! | [`credentials`] | signatures and authentication headers |
//! | [`context`] | authentication that knows the request, and the exchange of the clients that use it |
//! | [`nonce`] | one such authentication: signed requests that are good once |
//! | [`transport`] | one exchange: no redirects, no proxy, no decoding, a deadline, a cap |
//! | [`response`] | the checks every answer passes |
//! | [`cms`], [`cms_reads`] | the CMS client |
//! | [`pinned`] | how the clients with a pinned digest are set up |
//! | [`source`] | the source client |
//! | [`notification`] | the notification adapter |
//! | [`receiver`] | the receiver client |

pub mod address;
mod clients;
pub mod cms;
pub mod cms_reads;
pub mod context;
pub mod credentials;
pub mod nonce;
pub mod notification;
pub mod pinned;
pub mod receiver;
pub mod response;
pub mod source;
pub mod transport;

pub use address::{AddressInvalid, Endpoint, Origin};
pub use cms::{CmsClient, CmsOptions};
pub use context::{AuthContext, ContextHeaders};
pub use credentials::{
    AuthHeaders, AuthenticationFailed, HmacSha256Signer, NoAuthHeaders, Signature, Signer,
    StaticAuthHeader,
};
pub use nonce::{NonceCredential, NonceKey, NonceSigner};
pub use notification::{AdapterOptions, NotificationAdapter};
pub use receiver::{ReceiverClient, ReceiverOptions};
pub use source::{SourceClient, SourceOptions};
pub use transport::ClientInvalid;
