//! Connections: the greeting, their number, and their loss.

use std::time::{Duration, Instant};

use haul_core::{ErrorKind, Retry};
use haul_ssh::dial::AfterRefusal;

use super::server::TestServer;
use crate::packet::SftpRequest;
use crate::pipeline::Pipeline;

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_greeting_learns_extensions_limits_and_the_home_directory() {
    let server = TestServer::default();
    let pool = server.pool(1).unwrap();
    let known = pool.server().unwrap();
    assert!(known.posix_rename && known.hardlink && known.fsync && known.lsetstat && known.statvfs);
    assert!(!known.expand_path);
    assert_eq!((known.max_read, known.max_write, known.handles), (255 * 1024, 255 * 1024, 50));
    assert_eq!(known.home, b"/home");
    pool.close();
    let error = pool.pick().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_server_without_extensions_gets_plain_limits() {
    let server = TestServer::default();
    server.world().extensions.clear();
    let known = server.pool(1).unwrap().server().unwrap();
    assert!(!known.posix_rename && !known.limits);
    assert_eq!((known.max_read, known.max_write, known.handles), (32 * 1024, 32 * 1024, 64));
}

#[test]
fn work_for_more_opens_as_many_connections_as_were_asked_for() {
    let server = TestServer::default();
    let pool = server.pool(3).unwrap();
    assert_eq!(pool.streams(), 1);
    pool.want();
    eventually("three connections", || pool.streams() == 3);
    assert_eq!(server.world().opened, 3);
}

#[test]
fn a_refused_login_keeps_the_connections_that_are_up() {
    let server = TestServer::default();
    let pool = server.pool(4).unwrap();
    server.world().refuses = Some(AfterRefusal::Login);
    pool.want();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(pool.streams(), 1);
    assert!(pool.pick().is_ok());
}

#[test]
fn a_first_refusal_is_the_error_of_the_session() {
    let server = TestServer::default();
    server.world().refuses = Some(AfterRefusal::Fatal);
    let error = server.pool(1).err().unwrap();
    assert_eq!((error.kind(), error.cause()), (ErrorKind::Unreachable, "refused"));
}

#[test]
fn a_request_on_a_lost_connection_is_made_again_on_the_next_one() {
    let server = TestServer::default();
    let pool = server.pool(1).unwrap();
    server.world().cut_after = Some(0);
    let attrs = pool.on_one(|conn| {
        let mut pipeline = Pipeline::new(conn);
        pipeline.ask(&SftpRequest::Lstat { path: b"/home" });
        pipeline.next_reply().attrs().map_err(|_| crate::reply::lost("db1", "cut"))
    });
    assert!(attrs.is_ok());
    assert_eq!(server.world().opened, 2);
}

#[test]
fn when_nobody_can_log_in_again_every_request_fails_for_good() {
    let server = TestServer::default();
    let pool = server.pool(1).unwrap();
    let mut world = server.world();
    (world.refuses, world.cut_after) = (Some(AfterRefusal::Login), Some(0));
    drop(world);
    let lost = pool.on_one(|conn| {
        let mut pipeline = Pipeline::new(conn);
        pipeline.ask(&SftpRequest::Lstat { path: b"/home" });
        pipeline.next_reply().attrs().map_err(|_| crate::reply::lost("db1", "cut"))
    });
    assert_eq!(lost.err().unwrap().retry(), Retry::Never);
}

#[test]
fn replies_come_in_the_order_of_the_requests() {
    let server = TestServer::default();
    server.world().put("/home/a", b"abc");
    let pool = server.pool(1).unwrap();
    let conn = pool.pick().unwrap();
    let mut pipeline = Pipeline::new(&conn);
    for number in 0..2000 {
        let path: &[u8] = if number % 3 == 0 { b"/home/a" } else { b"/home/none" };
        pipeline.ask(&SftpRequest::Lstat { path });
    }
    assert_eq!(pipeline.sent(), 2000);
    for number in 0..2000 {
        let found = pipeline.next_reply().attrs();
        assert_eq!(found.is_ok(), number % 3 == 0, "{number}");
    }
    assert!(pipeline.next().is_none());
    assert!(pipeline.next_reply().ok().is_err(), "a missing answer counts as lost");
    assert_eq!(conn.load(), 0);
}

#[test]
fn handles_are_waited_for_and_given_back() {
    let server = TestServer::default();
    let pool = server.pool(1).unwrap();
    let conn = pool.pick().unwrap();
    assert_eq!(conn.files_at_once(), 16);
    let first = conn.handles(50);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| drop(conn.handles(1)));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waits.is_finished());
        drop(first);
        waits.join().unwrap();
    });
}
