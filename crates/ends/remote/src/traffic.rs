//! Counts content on its way.

use haul_core::sync::Mutex;

use haul_core::{Method, Traffic};

/// Counts the content of one root.
#[derive(Default)]
pub(super) struct TrafficCounter(Mutex<Traffic>);

impl TrafficCounter {
    /// Counts content that did not have to travel.
    pub(super) fn matched(&self, bytes: u64) {
        self.0.lock().matched_bytes += bytes;
    }

    pub(super) fn count(&self, wire_bytes: usize, method: Option<Method>) {
        let mut traffic = self.0.lock();
        traffic.wire_bytes += wire_bytes as u64;
        if wire_bytes > 0 {
            traffic.method = method;
        }
    }

    pub(super) fn get(&self) -> Traffic {
        *self.0.lock()
    }
}
