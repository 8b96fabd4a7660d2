//! A picture in points. The library draws lines and areas with hard edges: what it draws is twice as large as what is
//! kept, and four points become one.

use super::chart::Failure;
use plotters::prelude::BitMapBackend;

/// Points of the PNG to each of the picture's own, for screens that have as many.
const DENSITY: u32 = 2;
/// Points that are drawn to each of the PNG, in each direction.
const OVERSAMPLING: u32 = 2;
/// Points in a metre of a PNG that is 96 to the inch without `DENSITY`.
const POINTS_PER_METRE: u32 = 3_780 * DENSITY;
/// Bytes of a point: red, green, blue.
const POINT: usize = 3;

pub(super) struct Bitmap {
    /// Of the PNG.
    width: u32,
    height: u32,
    points: Vec<u8>,
}

impl Bitmap {
    /// Points that are drawn to each of the picture's own.
    pub(super) const SCALE: u32 = DENSITY * OVERSAMPLING;

    /// For a picture of this width and height.
    pub(super) fn new((width, height): (u32, u32)) -> Self {
        let (width, height) = (width * DENSITY, height * DENSITY);
        let count = (width * OVERSAMPLING) as usize * (height * OVERSAMPLING) as usize;
        Self { width, height, points: vec![0; count * POINT] }
    }

    /// What is drawn on.
    pub(super) fn backend(&mut self) -> BitMapBackend<'_> {
        BitMapBackend::with_buffer(&mut self.points, (self.width * OVERSAMPLING, self.height * OVERSAMPLING))
    }

    /// The bytes of the PNG.
    pub(super) fn png(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_pixel_dims(Some(png::PixelDimensions {
            xppu: POINTS_PER_METRE,
            yppu: POINTS_PER_METRE,
            unit: png::Unit::Meter,
        }));
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.reduced())?;
        writer.finish()?;
        Ok(bytes)
    }

    /// Each point the mean of those that were drawn for it.
    fn reduced(&self) -> Vec<u8> {
        let over = OVERSAMPLING as usize;
        let row_bytes = self.width as usize * over * POINT;
        let mut reduced = Vec::with_capacity(self.width as usize * self.height as usize * POINT);
        for rows in self.points.chunks_exact(row_bytes * over) {
            for column in 0..self.width as usize {
                for colour in 0..POINT {
                    let drawn = (0..over * over).map(|at| {
                        let (x, y) = (column * over + at % over, at / over);
                        u32::from(rows[y * row_bytes + x * POINT + colour])
                    });
                    reduced.push((drawn.sum::<u32>() / (OVERSAMPLING * OVERSAMPLING)) as u8);
                }
            }
        }
        reduced
    }
}
