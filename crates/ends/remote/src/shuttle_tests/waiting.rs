//! Threads that wait for a connection, for the end of a run, or for the end of the session.

use std::sync::Arc;
use std::time::Duration;

use haul_core::sync::{Condvar, Mutex};

use super::remote_end::{SessionModel, in_many_orders, join, start};
use crate::state::Pick;

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(1 << 30);

#[test]
fn shuttle_every_writer_gets_a_connection() {
    in_many_orders(|| {
        let model = SessionModel::new(true);
        let writers = [0, 1, 2].map(|_| {
            start(&model, |model| {
                for _ in 0..2 {
                    model.submit(Pick::Write(7)).wait().unwrap();
                }
            })
        });
        let reader = start(&model, |model| model.submit(Pick::Read(9)).wait().unwrap());
        // They wait for the first connection too.
        model.connect().unwrap();
        join(writers);
        join([reader]);
        assert_eq!(model.session.connections_owing(), [0; 0]);
        model.close();
    });
}

#[test]
fn shuttle_a_waiting_writer_gets_a_connection_that_the_tuner_adds() {
    in_many_orders(|| {
        let model = SessionModel::new(true);
        let (_, slow) = model.connect_directly().unwrap();
        model.connect_directly().unwrap();
        model.session.set_active(1);
        slow.stall(true);
        let writers = [0, 1].map(|_| {
            let slow = slow.clone();
            start(&model, move |model| {
                model.submit(Pick::Write(7)).wait().unwrap();
                // Only the other connection can have been as quick.
                slow.stall(false);
            })
        });
        model.session.set_active(2);
        join(writers);
        model.close();
    });
}

#[test]
fn shuttle_the_supervisor_hears_of_the_end_of_the_run_and_of_the_session() {
    in_many_orders(|| {
        let model = SessionModel::new(true);
        let heard = Arc::new((Mutex::new(false), Condvar::new()));
        let tell = heard.clone();
        let supervisor = start(&model, move |model| {
            while model.session.next_wakeup(NEVER, NEVER).is_some() {
                *tell.0.lock() = true;
                tell.1.notify_all();
            }
        });
        // Waits between two attempts to open a connection.
        let pausing = start(&model, |model| assert!(model.session.pause(NEVER)));
        let end = start(&model, |model| model.session.ends());
        drop(heard.1.wait_while(heard.0.lock(), |heard| !*heard));
        model.close();
        join([supervisor, pausing, end]);
    });
}

#[test]
fn shuttle_content_that_has_no_way_fails_and_the_rest_is_answered() {
    in_many_orders(|| {
        let model = SessionModel::new(false);
        model.connect().unwrap();
        let content = [Pick::Write(7), Pick::Read(9)]
            .map(|pick| start(&model, move |model| assert!(model.submit(pick).wait().is_err())));
        let small = start(&model, |model| drop(model.submit(Pick::Small).wait()));
        let search = start(&model, |model| model.session.found(Err(vec!["no port is open".to_owned()])));
        join(content);
        join([small, search]);
        model.close();
    });
}
