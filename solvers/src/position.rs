//! Positions of the parts of a model: columns, rows, variables, intervals.

/// Gives a newtype over `u32` its way from and to an index.
macro_rules! position {
    ($id:ident) => {
        impl $id {
            /// The one at a position.
            ///
            /// # Panics
            /// When the position exceeds what solvers index: 2^31 - 1.
            pub fn from_index(index: usize) -> Self {
                assert!(i32::try_from(index).is_ok(), "solvers count in 31 bits");
                Self(u32::try_from(index).expect("checked above"))
            }
            /// The position.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
pub(crate) use position;
