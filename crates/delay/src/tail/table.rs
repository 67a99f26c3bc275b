pub(super) const SHAPES: [f64; 2] = [-0.5,0.5];
pub(super) const LEVELS: [f64; 2] = [0.9, 0.1];
pub(super) const QUANTILES: [[f64; 2]; 2] = [[0.1,0.2],[0.1,0.2]];
