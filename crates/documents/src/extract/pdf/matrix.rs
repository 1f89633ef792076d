//! Points and affine transformations of a PDF page.

/// A position on the page, in units of 1/72 inch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
}

/// The affine transformation `[a b c d e f]` of ISO 32000-1, 8.3.3.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix(pub [f64; 6]);

impl Matrix {
    pub const IDENTITY: Matrix = Matrix([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);

    pub fn translation(x: f64, y: f64) -> Matrix {
        Matrix([1.0, 0.0, 0.0, 1.0, x, y])
    }

    /// Applies this transformation first, then the next one.
    pub fn then(self, next: Matrix) -> Matrix {
        let [a, b, c, d, e, f] = self.0;
        let [na, nb, nc, nd, ne, nf] = next.0;
        Matrix([
            a * na + b * nc,
            a * nb + b * nd,
            c * na + d * nc,
            c * nb + d * nd,
            e * na + f * nc + ne,
            e * nb + f * nd + nf,
        ])
    }

    /// Returns the point to which (0, 0) is mapped.
    pub fn origin(self) -> Point {
        Point { x: self.0[4], y: self.0[5] }
    }

    /// Returns the direction of a line of text, as a unit vector.
    pub fn direction(self) -> Point {
        let [a, b, ..] = self.0;
        let length = a.hypot(b);
        match length > 0.0 && length.is_finite() {
            true => Point { x: a / length, y: b / length },
            false => Point { x: 1.0, y: 0.0 },
        }
    }

    /// Returns the factor by which vertical distances are scaled.
    pub fn height(self) -> f64 {
        self.0[2].hypot(self.0[3])
    }
}
