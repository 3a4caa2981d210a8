//! The scores of a request's rows, and the memory that columns are computed in. Both are kept and used again.

#[derive(Debug, Default)]
pub struct Scores {
    models: usize,
    values: Vec<f64>,
}

impl Scores {
    /// Empties it for so many rows of a decision with so many models.
    pub fn begin(&mut self, rows: usize, models: usize) {
        self.models = models;
        self.values.clear();
        self.values.resize(rows * models, f64::NAN);
    }

    /// NaN where the model was not run.
    pub fn get(&self, row: usize, model: usize) -> f64 {
        self.values[row * self.models + model]
    }

    pub fn set(&mut self, row: usize, model: usize, score: f64) {
        self.values[row * self.models + model] = score;
    }
}
