//! Arbitrary bytes as a ticket cache, and as the answer of a server to a Kerberos ticket.
#![no_main]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use haul_fuzz::{BASE, within};
use haul_smb::KerberosTicket;
use libfuzzer_sys::fuzz_target;
use smb2::auth::kerberos::ccache::{CCache, CcacheCredential, CcachePrincipal};
use smb2::auth::kerberos::messages::{parse_enc_ap_rep_part, parse_ticket};
use smb2::auth::spnego::parse_neg_token_resp;
use smb2::{KerberosAuthenticator, KerberosCredentials};

fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    [&[tag, u8::try_from(value.len()).unwrap()], &value[..]].concat()
}

/// A ticket whose content is of no use.
fn ticket() -> Vec<u8> {
    let number = |tag, value: u8| tlv(tag, &[&tlv(2, &[&[value]])]);
    let names = tlv(0xa1, &[&tlv(0x30, &[&tlv(0x1b, &[b"cifs"]), &tlv(0x1b, &[b"nas"])])]);
    let sealed = tlv(0xa2, &[&tlv(4, &[&[7; 40]])]);
    let fields = [
        number(0xa0, 5),
        tlv(0xa1, &[&tlv(0x1b, &[b"HERE"])]),
        tlv(0xa2, &[&tlv(0x30, &[&number(0xa0, 2), &names])]),
        tlv(0xa3, &[&tlv(0x30, &[&number(0xa0, 18), &sealed])]),
    ];
    tlv(0x61, &[&tlv(0x30, &[&fields.concat()])])
}

/// The login of a user who has sent this ticket.
fn sent() -> KerberosAuthenticator {
    let name = |components: &[&str]| CcachePrincipal {
        name_type: 1,
        realm: "HERE".to_owned(),
        components: components.iter().map(|&part| part.to_owned()).collect(),
    };
    let credential = CcacheCredential {
        client: name(&["me"]),
        server: name(&["cifs", "nas"]),
        key_etype: 18,
        key_data: vec![1; 32],
        authtime: 0,
        starttime: 0,
        endtime: u32::MAX,
        renew_till: 0,
        ticket: ticket(),
    };
    let cache = CCache { version: 0x0504, default_principal: name(&["me"]), credentials: vec![credential] };
    let credentials = KerberosCredentials {
        username: "me".to_owned(),
        password: String::new(),
        realm: "HERE".to_owned(),
        kdc_address: String::new(),
    };
    let mut login = KerberosAuthenticator::new(credentials);
    let asked =
        pin!(login.authenticate_from_ccache(&cache, "nas")).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(asked, Poll::Ready(Ok(()))), "a ticket for the server needs no KDC");
    login
}

fuzz_target!(|bytes: &[u8]| {
    let _ = within(BASE, bytes.len(), || KerberosTicket::of_cache(bytes));
    let mut login = sent();
    within(BASE, bytes.len(), || {
        let _ = parse_neg_token_resp(bytes);
        let _ = login.process_mutual_auth_token(bytes);
        let _ = parse_enc_ap_rep_part(bytes);
        let _ = parse_ticket(bytes);
    });
});
