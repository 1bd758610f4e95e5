//! TLS: a client that knows the certificate talks to the server, and a client that speaks plainly
//! is told nothing.

mod support;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use server::resp::Reply::{Array, Bulk, Simple};
use server::{Options, Server, Tls};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use support::*;

/// A server's certificate, and a client's that trusts it.
fn certificate() -> (Tls, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls =
        Tls::new(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes(), None).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (tls, Arc::new(client))
}

fn connect(server: &Server, config: &Arc<ClientConfig>) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    Client::over(StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), stream))
}

/// Its thread waits for the other clients' messages as well as for what it sends.
#[test]
fn messages_come_through_tls() {
    let (tls, config) = certificate();
    for model in MODELS {
        let server = start(Options { tls: Some(tls.clone()), ..options(model) });
        let (it, other) = (&mut connect(&server, &config), &mut connect(&server, &config));
        for round in 0..100 {
            let (channel, text) = (format!("c{round}"), "x".repeat(round * 1_000));
            let array = |parts: &[&str]| Array(parts.iter().map(|part| bulk(part)).collect());
            assert!(matches!(other.ask(&format!("SUBSCRIBE {channel}")), Array(_)));
            assert_eq!(it.ask_bytes(&[b"PUBLISH", channel.as_bytes(), text.as_bytes()]), int(1));
            assert!(other.next() == Some(array(&["message", &channel, &text])));
            other.expect("PING", array(&["pong", ""]));
        }
    }
}

#[test]
fn clients_speak_tls() {
    let (tls, config) = certificate();
    for model in MODELS {
        let server = start(Options { tls: Some(tls.clone()), ..options(model) });
        let it = &mut connect(&server, &config);
        it.expect("PING", Simple("PONG".into()));
        let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        assert_eq!(it.ask_bytes(&[b"SET", b"k", &large]), ok());
        assert!(it.ask("GET k") == Bulk(large.clone()));
        // Asked for at once, and read late.
        it.send(&frame(&[b"GET", b"k"]).repeat(10));
        it.stream.flush().unwrap();
        connect(&server, &config).expect("STRLEN k", int(3_000_000));
        for _ in 0..10 {
            assert!(it.next() == Some(Bulk(large.clone())));
        }
        let stream: Vec<u8> = (0..1_000).flat_map(|_| frame(&[b"INCR", b"n"])).collect();
        it.send(&stream);
        for n in 1..=1_000 {
            assert_eq!(it.next(), Some(int(n)));
        }
        server.stop();
        assert_eq!(it.next(), None);
        server.wait();
    }
}

#[test]
fn a_client_without_tls_gets_no_answer() {
    let (tls, config) = certificate();
    for model in MODELS {
        let server = start(Options { tls: Some(tls.clone()), ..options(model) });
        let mut plain = TcpStream::connect(server.address()).unwrap();
        plain.set_read_timeout(Some(PATIENCE)).unwrap();
        plain.write_all(b"PING\r\nPING\r\nPING\r\nPING\r\nPING\r\n").unwrap();
        let mut told = Vec::new();
        let _ = plain.read_to_end(&mut told);
        assert!(!told.windows(4).any(|some| some == b"PONG"));
        connect(&server, &config).expect("PING", Simple("PONG".into()));
    }
}

/// A client's certificate, or none; and the authority that signs it, as PEM.
fn of_client(
    roots: RootCertStore,
    authority: &Issuer<'_, KeyPair>,
    expires: Option<(i32, u8, u8)>,
) -> Arc<ClientConfig> {
    let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
    if let Some((year, month, day)) = expires {
        params.not_before = rcgen::date_time_ymd(year - 1, month, day);
        params.not_after = rcgen::date_time_ymd(year, month, day);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        );
    Arc::new(config.unwrap())
}

fn authority() -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), certificate)
}

#[test]
fn clients_need_a_certificate_of_the_authority() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let ((authority, ca), (other, _)) = (self::authority(), self::authority());
    let tls = Tls::new(certificate.as_bytes(), key.as_bytes(), Some(ca.as_bytes())).unwrap();
    let without = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    for model in MODELS {
        let server = start(Options { tls: Some(tls.clone()), ..options(model) });
        let known = of_client(roots.clone(), &authority, None);
        connect(&server, &known).expect("SET k v", ok());
        let strangers = [
            Arc::new(without.clone()),
            of_client(roots.clone(), &other, None),
            of_client(roots.clone(), &authority, Some((2020, 1, 1))),
        ];
        for (number, stranger) in strangers.iter().enumerate() {
            let mut it = connect(&server, stranger);
            // The client of TLS 1.3 is done before the server has seen its certificate.
            let _ = it.stream.write_all(b"SET k stolen\r\n");
            let mut told = Vec::new();
            assert!(it.stream.read_to_end(&mut told).is_err(), "{number}");
            assert!(told.is_empty(), "{number}");
        }
        connect(&server, &known).expect("GET k", Bulk(b"v".to_vec()));
    }
    for wrong in [&b"nothing"[..], b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert!(Tls::new(certificate.as_bytes(), key.as_bytes(), Some(wrong)).is_err());
    }
}

#[test]
fn a_client_that_does_not_agree_on_tls_in_time_is_disconnected() {
    let (tls, config) = certificate();
    for model in MODELS {
        let handshake_timeout = Duration::from_millis(300);
        let server = start(Options {
            tls: Some(tls.clone()),
            handshake_timeout,
            connections_max: 2,
            ..options(model)
        });
        let half: Vec<_> = (0..2)
            .map(|_| {
                let mut half = TcpStream::connect(server.address()).unwrap();
                half.set_read_timeout(Some(PATIENCE)).unwrap();
                // The beginning of a handshake.
                half.write_all(&[0x16, 3, 1]).unwrap();
                half
            })
            .collect();
        for mut half in half {
            assert!(matches!(half.read(&mut [0; 100]), Ok(0) | Err(_)));
        }
        // Their places are free, and a client that is done may stay.
        let it = &mut loop {
            let mut it = connect(&server, &config);
            if it.stream.write_all(b"PING\r\n").is_ok()
                && it.stream.read(&mut [0; 7]).is_ok_and(|got| got == 7)
            {
                break it;
            }
        };
        std::thread::sleep(handshake_timeout * 3);
        it.expect("PING", Simple("PONG".into()));
    }
}
