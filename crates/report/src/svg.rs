//! Charts as SVG.
//!
//! Text and axes take the colour of the page around them. A file of its own carries its style, which follows the dark
//! mode of the viewer. Each value has a tooltip, by its `<title>`.

use std::fmt::Write;

use crate::chart::{Chart, Form};
use crate::escape::escaped;
use crate::number::{decimal, short, tick};

pub(crate) const STYLE: &str = include_str!("chart.css");

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 54.0;
const PLOT_WIDTH: f64 = WIDTH - LEFT - RIGHT;
const PLOT_HEIGHT: f64 = HEIGHT - TOP - BOTTOM;
const FLOOR: f64 = TOP + PLOT_HEIGHT;

/// Labels of the horizontal axis that do not run into each other, at most.
const MOST_LABELS: usize = 16;
/// Characters of a label, at most.
const MOST_CHARACTERS: usize = 14;

impl Chart {
    /// Draws the chart as an SVG file that needs nothing else.
    pub fn svg(&self) -> String {
        let style = format!("<style>{STYLE}</style>");
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", self.drawing(&style))
    }

    /// Draws the chart as an element of a page that has the style already.
    pub(crate) fn inline_svg(&self) -> String {
        self.drawing("")
    }

    fn drawing(&self, style: &str) -> String {
        let name = self.name;
        let mut svg = String::new();
        put(
            &mut svg,
            format_args!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
                 aria-labelledby=\"{name}-title {name}-description\">\n<title id=\"{name}-title\">{}</title>\n\
                 <desc id=\"{name}-description\">{}</desc>\n{style}",
                escaped(&self.title),
                escaped(&self.description())
            ),
        );
        let (step, top) = self.scale();
        self.axes(&mut svg, step, top);
        if self.series.len() > 1 {
            self.legend(&mut svg);
        }
        match self.form {
            Form::Bars => self.bars(&mut svg, top),
            Form::Lines => self.lines(&mut svg, top),
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The distance of two ticks, and the value at the top of the plot.
    fn scale(&self) -> (f64, f64) {
        let most = self.most();
        let step = if self.form == Form::Bars { tick(most).max(1.0) } else { tick(most) };
        (step, ((most / step).ceil() * step).max(step))
    }

    /// The middle of a place.
    fn x(&self, place: usize) -> f64 {
        let places = self.places.len().max(1) as f64;
        match self.form {
            Form::Bars => LEFT + PLOT_WIDTH * (place as f64 + 0.5) / places,
            Form::Lines => LEFT + PLOT_WIDTH * place as f64 / (places - 1.0).max(1.0),
        }
    }

    fn axes(&self, svg: &mut String, step: f64, top: f64) {
        let ticks = (top / step).round() as usize;
        for at in 0..=ticks {
            let value = step * at as f64;
            let y = y(value, top);
            put(
                svg,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
                     <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                    WIDTH - RIGHT,
                    LEFT - 6.0,
                    y + 4.0,
                    short(value)
                ),
            );
        }
        let every = self.places.len().div_ceil(MOST_LABELS).max(1);
        for (at, place) in self.places.iter().enumerate().step_by(every) {
            put(
                svg,
                format_args!(
                    "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                    self.x(at),
                    FLOOR + 17.0,
                    escaped(&cut(place))
                ),
            );
        }
        put(
            svg,
            format_args!(
                "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
                 <text class=\"axis\" x=\"{:.1}\" y=\"14\" text-anchor=\"start\">{}</text>\n",
                LEFT + PLOT_WIDTH / 2.0,
                HEIGHT - 10.0,
                escaped(&self.horizontal),
                4.0,
                escaped(&self.vertical)
            ),
        );
    }

    fn legend(&self, svg: &mut String) {
        let mut x = WIDTH - RIGHT;
        for (at, series) in self.series.iter().enumerate().rev() {
            x -= 7.0 * series.name.chars().count() as f64 + 28.0;
            put(
                svg,
                format_args!(
                    "<rect class=\"fill-{at}\" x=\"{x:.1}\" y=\"5\" width=\"11\" height=\"11\"/>\
                     <text class=\"label\" x=\"{:.1}\" y=\"14\">{}</text>\n",
                    x + 16.0,
                    escaped(&series.name)
                ),
            );
        }
    }

    fn bars(&self, svg: &mut String, top: f64) {
        let slot = PLOT_WIDTH / self.places.len().max(1) as f64;
        let width = (slot * 0.86 / self.series.len().max(1) as f64).min(90.0);
        for (of, series) in self.series.iter().enumerate() {
            let shift = width * (of as f64 - self.series.len() as f64 / 2.0);
            for (at, value) in drawn(&series.values, self.places.len()) {
                let height = FLOOR - y(value, top);
                put(
                    svg,
                    format_args!(
                        "<rect class=\"fill-{of}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                         <title>{}</title></rect>\n",
                        self.x(at) + shift,
                        FLOOR - height,
                        (width - 1.0).max(0.5),
                        height,
                        self.tooltip(at, &series.name, value)
                    ),
                );
            }
        }
    }

    fn lines(&self, svg: &mut String, top: f64) {
        for (of, series) in self.series.iter().enumerate() {
            let points: Vec<(usize, f64)> = drawn(&series.values, self.places.len()).collect();
            let path: Vec<String> =
                points.iter().map(|&(at, value)| format!("{:.1},{:.1}", self.x(at), y(value, top))).collect();
            put(svg, format_args!("<polyline class=\"line-{of}\" points=\"{}\"/>\n", path.join(" ")));
            for (at, value) in points {
                put(
                    svg,
                    format_args!(
                        "<circle class=\"fill-{of}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}</title></circle>\n",
                        self.x(at),
                        y(value, top),
                        self.tooltip(at, &series.name, value)
                    ),
                );
            }
        }
    }

    fn tooltip(&self, place: usize, series: &str, value: f64) -> String {
        escaped(&format!("{} {}, {series}: {}", self.horizontal, self.places[place], decimal(value, 4)))
    }
}

/// A bar for a number in a table, with a line at a threshold; nothing where there is no number.
pub(crate) fn bar(number: Option<f64>, threshold: Option<f64>, holds: bool) -> String {
    const WIDTH: f64 = 140.0;
    let Some(number) = number.filter(|number| number.is_finite()) else { return String::new() };
    let threshold = threshold.filter(|threshold| threshold.is_finite());
    let most = number.max(threshold.unwrap_or(0.0)).max(1.0);
    let place = |value: f64| WIDTH * (value / most).clamp(0.0, 1.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart bar\" viewBox=\"0 0 {WIDTH} 14\" aria-hidden=\"true\">\
         <rect class=\"fill-{}\" y=\"2\" width=\"{:.1}\" height=\"10\"/>",
        u8::from(!holds),
        place(number)
    );
    if let Some(threshold) = threshold {
        let x = place(threshold);
        put(&mut svg, format_args!("<line class=\"threshold\" x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"14\"/>"));
    }
    svg + "</svg>"
}

fn y(value: f64, top: f64) -> f64 {
    FLOOR - PLOT_HEIGHT * (value / top).clamp(0.0, 1.0)
}

/// The values that have a place and are finite.
fn drawn(values: &[f64], places: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
    values.iter().copied().enumerate().take(places).filter(|(_, value)| value.is_finite())
}

fn cut(label: &str) -> String {
    if label.chars().count() <= MOST_CHARACTERS {
        return label.into();
    }
    label.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect()
}

/// Writing to a string cannot fail.
fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}
