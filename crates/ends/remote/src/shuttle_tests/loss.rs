//! Connections are lost while requests are on them.

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread::JoinHandle;

use super::remote_end::{SessionModel, in_many_orders, join, start};
use crate::connection::Connection;
use crate::state::Pick;

/// Longer than any test: the supervisor acts only if it is woken.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// Replaces the last connection `times` times. Then the session fails.
fn supervise(model: &Arc<SessionModel>, mut times: u32) -> JoinHandle<()> {
    start(model, move |model| {
        let session = &model.session;
        while let Some(wakeup) = session.next_wakeup(NEVER, NEVER) {
            if wakeup.is_cut_off && times == 0 {
                session.fail(session.last_lost().with_retry(haul_core::Retry::OtherStream));
            } else if wakeup.is_cut_off {
                times -= 1;
                session.dials();
                model.connect();
                session.dialed();
            }
        }
    })
}

#[test]
fn shuttle_every_request_is_answered_once_while_connections_are_lost() {
    in_many_orders(|| {
        let model = SessionModel::new(true);
        let supervisor = supervise(&model, 2);
        let (first, wire) = model.connect().unwrap();
        let (second, _) = model.connect_directly().unwrap();
        let callers = [
            start(&model, |model| model.call().unwrap()),
            start(&model, |model| {
                for pick in [Pick::Write(7), Pick::Small] {
                    model.submit(pick).wait_for_reply_or_loss();
                }
            }),
            start(&model, |model| model.submit(Pick::Read(9)).wait_for_reply_or_loss()),
            start(&model, |model| model.read_arriving(200_000).unwrap()),
            start(&model, move |model| model.submit(Pick::Connection(second)).wait_for_reply_or_loss()),
        ];
        let losses = [
            start(&model, move |_| wire.cut()),
            start(&model, move |model| model.session.lose(second, Connection::lost("it stalls"))),
            start(&model, move |model| model.session.lose(first, Connection::lost("it stalls"))),
        ];
        join(callers);
        join(losses);
        // The connections that are left have answered everything.
        for up in &model.session.lock().connections {
            assert!(up.pending.is_empty() && up.owes == 0 && !up.writing);
        }
        model.close();
        join([supervisor]);
    });
}

#[test]
fn shuttle_a_session_that_fails_answers_every_request() {
    in_many_orders(|| {
        let model = SessionModel::new(true);
        let supervisor = supervise(&model, 0);
        let (_, wire) = model.connect().unwrap();
        let mut threads: Vec<_> = [Pick::Write(7), Pick::Write(7), Pick::Read(9)]
            .map(|pick| start(&model, move |model| model.submit(pick).wait_for_reply_or_loss()))
            .into();
        threads.push(start(&model, |model| drop(model.call())));
        threads.push(start(&model, move |_| wire.cut()));
        join(threads);
        model.close();
        join([supervisor]);
    });
}

#[test]
fn shuttle_closing_answers_every_request() {
    in_many_orders(|| {
        let model = SessionModel::new(true);
        let wires = [model.connect().unwrap().1, model.connect_directly().unwrap().1];
        let callers = [Pick::Write(7), Pick::Write(7), Pick::Write(7), Pick::Read(9), Pick::Small]
            .map(|pick| start(&model, move |model| drop(model.submit(pick).wait())));
        let caller = start(&model, |model| drop(model.call()));
        // The remote end ends at some time: nothing else ends a connection that is being written to.
        let end = start(&model, move |_| wires.iter().for_each(|wire| wire.cut()));
        let closing = start(&model, |model| model.session.close(NEVER));
        join(callers);
        join([caller, end, closing]);
        model.close();
    });
}
