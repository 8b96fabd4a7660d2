//! A chart as a bitmap. The drawing library does not smooth edges, so the chart is drawn at twice the size and scaled
//! down.

use plotters::prelude::BitMapBackend;
use std::error::Error;

/// Why a chart cannot be drawn.
pub(super) type Failure = Box<dyn Error>;

/// Pixels of the PNG per unit of the chart, for high-resolution screens.
const DENSITY: u32 = 2;
/// Drawn pixels per pixel of the PNG, in each direction.
const OVERSAMPLING: u32 = 2;
/// Pixels per metre in the PNG: 96 per inch times `DENSITY`.
const POINTS_PER_METRE: u32 = 3_780 * DENSITY;
/// Bytes per pixel: red, green, blue.
const POINT: usize = 3;

pub(super) struct Bitmap {
    /// Size of the PNG.
    width: u32,
    height: u32,
    points: Vec<u8>,
}

impl Bitmap {
    /// Drawn pixels per unit of the chart.
    pub(super) const SCALE: u32 = DENSITY * OVERSAMPLING;

    /// A bitmap for a chart of this width and height.
    pub(super) fn new((width, height): (u32, u32)) -> Self {
        let (width, height) = (width * DENSITY, height * DENSITY);
        let count = (width * OVERSAMPLING) as usize * (height * OVERSAMPLING) as usize;
        Self { width, height, points: vec![0; count * POINT] }
    }

    /// The drawing area.
    pub(super) fn backend(&mut self) -> BitMapBackend<'_> {
        BitMapBackend::with_buffer(&mut self.points, (self.width * OVERSAMPLING, self.height * OVERSAMPLING))
    }

    /// The contents of the PNG file.
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

    /// Scales down: each pixel is the mean of its drawn pixels.
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
