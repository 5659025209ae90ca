//! The faults.

pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod hostile;
pub(crate) mod kill;
pub(crate) mod limits;
pub(crate) mod space;
pub(crate) mod staged;
pub(crate) mod wire;
