//! How much others on a machine have to wait.

use serde::{Deserialize, Serialize};

/// What the kernel tells of waiting (PSI) over about a second, in thousandths of that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// At least one task waited for input or output.
    pub io: u16,
    /// At least one task waited for a processor.
    pub cpu: u16,
    /// Whether haul's own waiting is in it, because the kernel does not tell it apart.
    pub own: bool,
}

/// What to make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strain {
    /// Nobody is held up.
    None,
    /// Not worth a change either way.
    Some,
    /// Others are held up: give way.
    High,
}

impl Pressure {
    /// Others are held up if they wait for more than a tenth of the time; nobody is below a twentieth. Where haul's
    /// own waiting is in the figures, that for processors says nothing, as haul's threads have the lowest priority
    /// and wait first, and that for input and output counts from 80 % and 60 % on.
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
    fn the_worse_of_both_decides() {
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
