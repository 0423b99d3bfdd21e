//! What a chart shows, before it is drawn or written as a specification.

/// Values of one kind, one for each place of the horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The values in the order of the places; one that is not finite is not drawn.
    pub values: Vec<f64>,
}

/// How the values of a chart are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Columns side by side, over places without a distance.
    Bars,
    /// Lines over places that are numbers in ascending order.
    Lines,
}

/// A chart of one or more series over the same places.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The name of its files and identifiers: lower case letters and dashes.
    pub name: &'static str,
    /// The heading.
    pub title: String,
    /// What the horizontal axis counts.
    pub horizontal: String,
    /// What the vertical axis counts.
    pub vertical: String,
    /// How it is drawn.
    pub form: Form,
    /// The places of the horizontal axis.
    pub places: Vec<String>,
    /// The values over the places.
    pub series: Vec<Series>,
}

impl Chart {
    /// Says what the chart shows, for readers who do not see it.
    pub(crate) fn description(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        format!("{} over {}: {}", self.vertical, self.horizontal, names.join(", "))
    }

    /// The largest value, 0 where there is none.
    pub(crate) fn most(&self) -> f64 {
        let values = self.series.iter().flat_map(|series| &series.values);
        values.copied().filter(|value| value.is_finite()).fold(0.0, f64::max)
    }
}
