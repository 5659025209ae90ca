//! The other remote ends of a session: whom this one grants content, and whom it fetches content from.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use haul_core::{Error, ErrorKind, Result, Side};
use haul_remote::{ExpectedGranter, Puller};
use haul_transport::{ConnectionKeys, Listener};
use haul_wire::{FrameError, PairId, Request, ticket};

/// The batches that another remote end may fetch here: those with a ticket of the local end.
pub(crate) struct Grant {
    pub(crate) credentials: ConnectionKeys,
    secret: [u8; 32],
    /// Where the other end listens, if it could not connect.
    pub(crate) at: Mutex<Vec<SocketAddr>>,
}

impl Grant {
    pub(crate) fn new(credentials: ConnectionKeys, secret: [u8; 32]) -> Self {
        Self { credentials, secret, at: Mutex::default() }
    }

    /// Whether the other end may make this request.
    ///
    /// # Errors
    /// [`FrameError::Rule`] if it may not.
    pub(crate) fn check(&self, request: &Request) -> std::result::Result<(), FrameError> {
        let may = match request {
            Request::Nothing | Request::Connect { .. } => true,
            Request::Pull { root, batch, ticket, .. } => ticket::is_for(ticket, &self.secret, *root, batch),
            _ => false,
        };
        if may { Ok(()) } else { Err(FrameError::Rule("a guest asks for content that it was not given")) }
    }
}

/// The part of this end in one third-party copy.
pub(crate) enum ThirdParty {
    /// Another end fetches content here. Listens for as long as it is held.
    Granter { grant: Arc<Grant>, _listener: Option<Listener> },
    /// This end listens for the granter.
    Expecting(ExpectedGranter),
    /// This end fetches content from the granter.
    Puller(Arc<Puller>),
}

/// The third-party copies of a session, by the numbers that the local end gave them.
#[derive(Default)]
pub(crate) struct ThirdParties(Mutex<HashMap<PairId, ThirdParty>>);

/// The error of a number that was never introduced.
pub(crate) fn unknown() -> Error {
    let cause = "the two were not introduced to each other";
    Error::new(ErrorKind::Unreachable, Side::Wire, "reach the other remote end", cause)
}

impl ThirdParties {
    pub(crate) fn put(&self, number: PairId, party: ThirdParty) {
        // The one before is ended outside of the lock.
        let before = self.0.lock().insert(number, party);
        if let Some(ThirdParty::Puller(before)) = before {
            before.close();
        }
    }

    /// Ends all of them: whoever fetches gets an error.
    pub(crate) fn close(&self) {
        for party in std::mem::take(&mut *self.0.lock()).into_values() {
            if let ThirdParty::Puller(puller) = party {
                puller.close();
            }
        }
    }

    pub(crate) fn puller(&self, number: PairId) -> Result<Arc<Puller>> {
        match self.0.lock().get(&number) {
            Some(ThirdParty::Puller(puller)) => Ok(puller.clone()),
            _ => Err(unknown()),
        }
    }

    pub(crate) fn grant(&self, number: PairId) -> Result<Arc<Grant>> {
        match self.0.lock().get(&number) {
            Some(ThirdParty::Granter { grant, .. }) => Ok(grant.clone()),
            _ => Err(unknown()),
        }
    }

    /// Takes the port at which the granter is expected.
    pub(crate) fn take_expected(&self, number: PairId) -> Result<ExpectedGranter> {
        match self.0.lock().remove(&number) {
            Some(ThirdParty::Expecting(expected)) => Ok(expected),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{Batch, Compress, SinkOptions, Slice};
    use haul_transport::KeyPair;

    #[test]
    fn a_grant_allows_only_batches_with_a_ticket() {
        let credentials =
            ConnectionKeys { identity: KeyPair::generate().unwrap(), peer: Vec::new(), congestion: None };
        let grant = Grant::new(credentials, [1; 32]);
        let batch = |index| {
            Arc::new(Batch { entries: Vec::new(), slices: vec![Slice::whole(0, index)], again: false })
        };
        let ticket = ticket::make(&[1; 32], 4, &batch(7)).unwrap();
        let pull = |root, index, ticket| Request::Pull {
            root,
            batch: batch(index),
            pages: None,
            compress: Compress::Never,
            ticket,
            proof_may_follow: false,
        };
        assert!(grant.check(&pull(4, 7, ticket)).is_ok());
        assert!(grant.check(&Request::Connect { address: None, port: 1 }).is_ok());
        let place = haul_core::Place { path: b"/".to_vec(), root: haul_core::PlaceRoot::Exactly };
        let links = haul_core::Links::Kept;
        let program = haul_core::Program { words: vec![b"true".to_vec()] };
        let refused = [
            pull(4, 8, ticket),
            pull(5, 7, ticket),
            pull(4, 7, [0; 32]),
            Request::Read {
                root: 4,
                batch: batch(7),
                pages: None,
                compress: Compress::Never,
                proof_may_follow: false,
            },
            Request::Root { root: 4 },
            Request::Above { root: 4, names: Vec::new() },
            Request::OpenSource { root: 9, place: place.clone(), options: links.into() },
            Request::OpenSink { root: 9, place, options: SinkOptions::default() },
            Request::Admit { pair: 1, key: Vec::new(), secret: [2; 32], from: Vec::new() },
            Request::RunConsumer { root: 9, program: program.clone() },
            Request::RunProducer { root: 9, program, window: 1 },
        ];
        for request in refused {
            assert!(grant.check(&request).is_err(), "{request:?}");
        }
    }
}
