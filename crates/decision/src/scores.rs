//! The scores of a request's rows, and reusable memory for columns.

#[derive(Debug, Default)]
pub struct Scores {
    models: usize,
    values: Vec<f64>,
}

impl Scores {
    /// Clears it for this many rows and models.
    pub fn begin(&mut self, rows: usize, models: usize) {
        self.models = models;
        self.values.clear();
        self.values.resize(rows * models, f64::NAN);
    }

    /// NaN if the model was not run.
    pub fn get(&self, row: usize, model: usize) -> f64 {
        self.values[row * self.models + model]
    }

    pub fn set(&mut self, row: usize, model: usize, score: f64) {
        self.values[row * self.models + model] = score;
    }
}
