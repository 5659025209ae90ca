//! The compression methods to choose from, from cheapest to hardest, and the known ratio and speed of each.

use haul_core::Method;

/// The cost and gain of a method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rung {
    /// The method; `None` sends content uncompressed.
    pub(crate) method: Option<Method>,
    /// Speed, as a multiple of that of zstd 1.
    pub(crate) speed: f64,
    /// Logarithm of the ratio, as a multiple of that of zstd 1.
    pub(crate) gain: f64,
}

const fn rung(method: Option<Method>, speed: f64, gain: f64) -> Rung {
    Rung { method, speed, gain }
}

/// The ladder. The figures were measured on source text and on pages of SQLite and InnoDB (one core of an AMD EPYC,
/// zstd 1.5.7, `lz4_flex` 0.14). Relative to each other they vary little with the content, and measurements correct
/// them. LZ4 is not among them: zstd -3 is as fast (1.25) and compresses better ([`SAMPLE_GAIN`]).
pub(crate) const LADDER: [Rung; 8] = [
    rung(None, f64::INFINITY, 0.0),
    rung(Some(Method::Zstd(-3)), 1.25, 0.81),
    rung(Some(Method::Zstd(-1)), 1.12, 0.88),
    rung(Some(Method::Zstd(1)), 1.0, 1.0),
    rung(Some(Method::Zstd(3)), 0.65, 1.17),
    rung(Some(Method::Zstd(5)), 0.32, 1.21),
    rung(Some(Method::Zstd(7)), 0.19, 1.25),
    rung(Some(Method::Zstd(9)), 0.13, 1.28),
];

/// The gain of LZ4, by which samples are compressed.
pub(crate) const SAMPLE_GAIN: f64 = 0.76;

/// The first rung of a run: it costs little if it is wrong, and gains most if it is right.
pub(crate) const START: usize = 3;

/// The properties of the content, in terms of zstd 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentProperties {
    /// Plain bytes compressed per second of CPU time.
    pub(crate) speed: f64,
    /// Logarithm of the ratio.
    pub(crate) gain: f64,
}

/// The assumption before any measurement: pages of a database.
pub(crate) const UNKNOWN: ContentProperties = ContentProperties { speed: 450e6, gain: 0.7 };

impl Rung {
    /// The compression ratio.
    pub(crate) fn ratio(&self, content: &ContentProperties) -> f64 {
        (self.gain * content.gain).exp()
    }

    /// Seconds of CPU time per plain byte.
    pub(crate) fn cost(&self, content: &ContentProperties) -> f64 {
        1.0 / (self.speed * content.speed)
    }
}
