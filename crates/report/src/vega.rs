//! Charts as Vega-Lite specifications.

use serde_json::{Value, json};

use crate::chart::{Chart, Form};

const SCHEMA: &str = "https://vega.github.io/schema/vega-lite/v5.json";

impl Chart {
    /// Writes the chart, with its data, as a Vega-Lite specification in JSON.
    pub fn vega_lite(&self) -> String {
        format!("{:#}\n", self.specification())
    }

    fn specification(&self) -> Value {
        let (mark, kind, sort) = match self.form {
            Form::Bars => (json!("bar"), "ordinal", Value::Null),
            Form::Lines => (json!({ "type": "line", "point": true }), "quantitative", json!("ascending")),
        };
        let mut encoding = json!({
            "x": { "field": "place", "type": kind, "title": self.horizontal, "sort": sort },
            "y": { "field": "value", "type": "quantitative", "title": self.vertical },
            "tooltip": [
                { "field": "place", "type": kind, "title": self.horizontal },
                { "field": "series", "type": "nominal" },
                { "field": "value", "type": "quantitative" }
            ]
        });
        if self.series.len() > 1 {
            encoding["color"] =
                json!({ "field": "series", "type": "nominal", "sort": Value::Null, "title": Value::Null });
            if self.form == Form::Bars {
                encoding["xOffset"] = json!({ "field": "series", "sort": Value::Null });
            }
        }
        json!({
            "$schema": SCHEMA,
            "title": self.title,
            "description": self.description(),
            "width": 680,
            "height": 240,
            "data": { "values": self.rows() },
            "mark": mark,
            "encoding": encoding
        })
    }

    fn rows(&self) -> Vec<Value> {
        let row = |place: &String, series: &str, value: f64| {
            let place = match self.form {
                Form::Bars => json!(place),
                Form::Lines => place.parse::<f64>().map_or_else(|_| json!(place), |place| json!(place)),
            };
            // JSON has no number that is not finite
            json!({ "place": place, "series": series, "value": value.is_finite().then_some(value) })
        };
        let of = |series: &crate::chart::Series| -> Vec<Value> {
            self.places.iter().zip(&series.values).map(|(place, &value)| row(place, &series.name, value)).collect()
        };
        self.series.iter().flat_map(of).collect()
    }
}
