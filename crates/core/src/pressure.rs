//! Pressure stall information (PSI): how long tasks on a host have to wait.

use serde::{Deserialize, Serialize};

/// Pressure stall information of the kernel over about a second, in thousandths of that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// The time in which at least one task waited for I/O.
    pub io: u16,
    /// The time in which at least one task waited for a CPU.
    pub cpu: u16,
    /// Whether the figures include haul's own waiting, because the kernel does not separate it.
    pub own: bool,
}

/// The conclusion from a [`Pressure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strain {
    /// Other tasks are not held up.
    None,
    /// No reason to change the load.
    Some,
    /// Other tasks are held up: haul yields.
    High,
}

impl Pressure {
    /// Tasks are held up if they wait for more than a tenth of the time, and not held up below a twentieth. If the
    /// figures include haul's own waiting, the CPU figure is ignored, as the threads of haul have the lowest priority
    /// and wait first, and the thresholds for I/O are 80 % and 60 %.
    #[must_use]
    pub fn strain(&self) -> Strain {
        let (waited, low, high) =
            if self.own { (self.io, 600, 800) } else { (self.io.max(self.cpu), 50, 100) };
        if waited > high {
            Strain::High
        } else if waited < low {
            Strain::None
        } else {
            Strain::Some
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_figure_decides() {
        let strain = |io, cpu, own| Pressure { io, cpu, own }.strain();
        assert_eq!(strain(0, 49, false), Strain::None);
        assert_eq!(strain(50, 0, false), Strain::Some);
        assert_eq!(strain(0, 101, false), Strain::High);
        assert_eq!(strain(101, 0, true), Strain::None);
        assert_eq!(strain(700, 0, true), Strain::Some);
        assert_eq!(strain(801, 0, true), Strain::High);
        assert_eq!(strain(0, 1000, true), Strain::None);
    }
}
