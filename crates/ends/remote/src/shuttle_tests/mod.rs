//! Tests of the session in many orders of threads: every request is answered once, and no thread waits forever. The
//! locks of the crate shuttle never time out, so a missed wake-up is a deadlock, which shuttle reports.

mod loss;
mod remote_end;
mod waiting;
