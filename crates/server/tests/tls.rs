//! TLS: a client that knows the certificate talks to the server, and a client that speaks plainly
//! is told nothing.

mod support;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use server::resp::Reply::{Bulk, Simple};
use server::{Options, Server, Tls};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use support::*;

/// A server's certificate, and a client's that trusts it.
fn certificate() -> (Tls, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = Tls::new(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes()).unwrap();
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
