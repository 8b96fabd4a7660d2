//! The file formats of pictures.

/// The file format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageFormat {
    /// Vector graphics.
    Svg,
    /// A bitmap with two pixels per unit in each direction.
    Png,
}

impl ImageFormat {
    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
        }
    }
}
