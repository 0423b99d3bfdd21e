//! A report as one HTML page.

use std::fmt::Write;

use crate::chart::Chart;
use crate::escape::{escaped, escaped_json};
use crate::number::{count, decimal};
use crate::report::{Explanation, Fact, Members, Part, Report};
use crate::svg;

const STYLE: &str = include_str!("page.css");

impl Report {
    /// Writes the report as a page that needs no server, no network and no script.
    pub fn html(&self) -> String {
        let mut page = Page { text: String::new() };
        page.put(format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
             <style>\n{STYLE}{}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
            escaped(&self.title),
            svg::STYLE,
        ));
        page.facts(&self.facts);
        self.clauses(&mut page);
        self.scores(&mut page);
        self.truth(&mut page);
        self.groups(&mut page);
        self.explanations(&mut page);
        self.without_values(&mut page);
        page.put(format_args!("<h2>Settings</h2>\n"));
        page.facts(&self.settings);
        if !self.rule.is_empty() {
            page.put(format_args!("<pre>{}</pre>\n", escaped(&self.rule)));
        }
        for chart in self.charts() {
            page.put(format_args!(
                "<script type=\"application/json\" id=\"{}-vega-lite\">\n{}</script>\n",
                chart.name,
                escaped_json(&chart.vega_lite())
            ));
        }
        page.put(format_args!("</body>\n</html>\n"));
        page.text
    }

    fn clauses(&self, page: &mut Page) {
        let Some(chart) = self.clause_chart() else { return };
        page.put(format_args!("<h2>{}</h2>\n", escaped(&chart.title)));
        page.note(
            "A pair counts as <em>alone</em> for each clause that holds for it, and as <em>added</em> for the first one \
             only.",
        );
        page.chart(&chart);
        let mut sum = 0;
        let rows = self.clauses.iter().enumerate().map(|(at, clause)| {
            sum += clause.added;
            let number = (at + 1).to_string();
            vec![number, count(clause.alone), count(clause.added), count(sum), clause.text.clone()]
        });
        page.table(&["#clause", "#alone", "#added", "#cumulative", "condition"], rows);
    }

    fn scores(&self, page: &mut Page) {
        let (Some(scores), Some(chart)) = (&self.scores, self.score_chart()) else { return };
        page.put(format_args!(
            "<h2>{}</h2>\n<p>Scores are <code>{}</code>, from {} to {}. {} pairs have none.</p>\n",
            escaped(&chart.title),
            escaped(&scores.of),
            decimal(scores.low, 4),
            decimal(scores.high, 4),
            count(scores.missing)
        ));
        page.chart(&chart);
    }

    fn truth(&self, page: &mut Page) {
        if !self.measures.is_empty() {
            page.put(format_args!("<h2>Against the truth</h2>\n"));
        }
        for measures in &self.measures {
            page.put(format_args!("<h3>{}</h3>\n", escaped(&measures.title)));
            page.facts(&measures.values);
        }
        let Some(chart) = self.sweep_chart() else { return };
        page.put(format_args!("<h2>{}</h2>\n", escaped(&chart.title)));
        page.note("Measures of the pairs of the rule whose score is at least the threshold.");
        page.chart(&chart);
        let rows = self.sweep.iter().map(|step| {
            let [threshold, precision, recall, f1] =
                [step.threshold, step.precision, step.recall, step.f1].map(|value| decimal(value, 4));
            vec![threshold, count(step.pairs), precision, recall, f1]
        });
        page.table(&["#threshold", "#pairs", "#precision", "#recall", "#F1"], rows);
    }

    fn groups(&self, page: &mut Page) {
        if let Some(chart) = self.group_chart() {
            page.put(format_args!("<h2>{}</h2>\n", escaped(&chart.title)));
            page.chart(&chart);
            let rows = self.groups.iter().map(|group| vec![group.members.clone(), count(group.groups)]);
            let heads = [format!("#{}", self.members_are), format!("#{}", self.groups_are)];
            page.table(&[&heads[0], &heads[1]], rows);
        }
        if self.largest.is_empty() {
            return;
        }
        page.put(format_args!("<h2>The largest {}</h2>\n", escaped(&self.groups_are)));
        if self.largest.iter().all(|group| group.columns.is_empty()) {
            let rows =
                self.largest.iter().enumerate().map(|(at, group)| vec![(at + 1).to_string(), count(group.count)]);
            page.table(&["#place", &format!("#{}", self.members_are)], rows);
            return;
        }
        for (at, group) in self.largest.iter().enumerate() {
            page.members(at + 1, group, &self.members_are);
        }
    }

    fn explanations(&self, page: &mut Page) {
        if self.explanations.is_empty() {
            return;
        }
        page.put(format_args!("<h2>Why pairs match</h2>\n"));
        page.note("One pair for each clause. A bar is the value of a measure, and the line across it its threshold.");
        for Explanation { clause, parts } in &self.explanations {
            page.put(format_args!("<h3>Clause {clause}</h3>\n"));
            page.parts(parts);
        }
    }

    fn without_values(&self, page: &mut Page) {
        if self.columns.is_empty() {
            return;
        }
        page.put(format_args!("<h2>Rows without values</h2>\n"));
        page.note("Columns that the rule reads. A value of nothing but spaces counts as blank.");
        let rows = self.columns.iter().map(|column| {
            let (rows, nulls, blanks) = (count(column.rows), count(column.nulls), count(column.blanks));
            vec![column.table.clone(), column.name.clone(), rows, nulls, blanks]
        });
        page.table(&["table", "column", "#rows", "#NULL", "#blank"], rows);
        if self.unmatchable.is_empty() {
            return;
        }
        page.note(
            "Rows that have a NULL in at least one column of each clause. Such a row matches nothing, unless a clause \
             asks for NULL or replaces it.",
        );
        page.facts(&self.unmatchable);
    }
}

struct Page {
    text: String,
}

impl Page {
    /// Writing to a string cannot fail.
    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(what);
    }

    /// A paragraph of this crate's own words.
    fn note(&mut self, html: &str) {
        self.put(format_args!("<p>{html}</p>\n"));
    }

    fn chart(&mut self, chart: &Chart) {
        self.put(format_args!("<div>\n{}</div>\n", chart.inline_svg()));
    }

    fn facts(&mut self, facts: &[Fact]) {
        if facts.is_empty() {
            return;
        }
        self.put(format_args!("<table>\n<tbody>\n"));
        for Fact { name, value } in facts {
            self.put(format_args!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escaped(name), escaped(value)));
        }
        self.put(format_args!("</tbody>\n</table>\n"));
    }

    /// A table; a head that begins with # is of a column of numbers.
    fn table(&mut self, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        self.put(format_args!("<div class=\"scroll\">\n<table>\n<thead>\n<tr>"));
        let class = |head: &str| if head.starts_with('#') { " class=\"number\"" } else { "" };
        for head in heads {
            let name = head.strip_prefix('#').unwrap_or(head);
            self.put(format_args!("<th scope=\"col\"{}>{}</th>", class(head), escaped(name)));
        }
        self.put(format_args!("</tr>\n</thead>\n<tbody>\n"));
        for row in rows {
            self.put(format_args!("<tr>"));
            for (value, head) in row.iter().zip(heads) {
                self.put(format_args!("<td{}>{}</td>", class(head), escaped(value)));
            }
            self.put(format_args!("</tr>\n"));
        }
        self.put(format_args!("</tbody>\n</table>\n</div>\n"));
    }

    fn parts(&mut self, parts: &[Part]) {
        let heads = ["condition", "", "value", "threshold", "holds", "left row", "right row"];
        let heads = &heads[..if parts.iter().any(|part| part.values.is_some()) { 7 } else { 5 }];
        self.put(format_args!("<div class=\"scroll\">\n<table>\n<thead>\n<tr>"));
        heads.iter().for_each(|head| self.put(format_args!("<th scope=\"col\">{head}</th>")));
        self.put(format_args!("</tr>\n</thead>\n<tbody>\n"));
        for part in parts {
            let number = |number: Option<f64>| number.map(|number| decimal(number, 4)).unwrap_or_default();
            let holds = part.holds.map_or("unknown", |holds| if holds { "yes" } else { "no" });
            self.put(format_args!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{holds}</td>",
                escaped(&part.text),
                svg::bar(part.score, part.threshold, part.holds == Some(true)),
                number(part.score),
                number(part.threshold),
            ));
            part.values.iter().flatten().for_each(|value| self.value(value.as_deref()));
            self.put(format_args!("</tr>\n"));
        }
        self.put(format_args!("</tbody>\n</table>\n</div>\n"));
    }

    fn value(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.put(format_args!("<td>{}</td>", escaped(value))),
            None => self.put(format_args!("<td class=\"null\">NULL</td>")),
        }
    }

    fn members(&mut self, place: usize, group: &Members, members_are: &str) {
        let shown = group.rows.len() as u64;
        let more = if shown < group.count { format!(", the first {} shown", count(shown)) } else { String::new() };
        self.put(format_args!(
            "<details{}>\n<summary>{place}: {} {}{more}</summary>\n<div class=\"scroll\">\n<table>\n<thead>\n<tr>",
            if place == 1 { " open" } else { "" },
            count(group.count),
            escaped(members_are)
        ));
        for column in &group.columns {
            self.put(format_args!("<th scope=\"col\">{}</th>", escaped(column)));
        }
        self.put(format_args!("</tr>\n</thead>\n<tbody>\n"));
        for row in &group.rows {
            self.put(format_args!("<tr>"));
            row.iter().for_each(|value| self.value(value.as_deref()));
            self.put(format_args!("</tr>\n"));
        }
        self.put(format_args!("</tbody>\n</table>\n</div>\n</details>\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Clause, Column, Group, Histogram, Measures, Step};

    const EVIL: &str = "</script><svg onload='x'>&\"\u{0}\u{1b}";

    fn fact(name: &str, value: &str) -> Fact {
        Fact { name: name.into(), value: value.into() }
    }

    fn part(text: &str, score: Option<f64>, threshold: Option<f64>, holds: Option<bool>) -> Part {
        Part { text: text.into(), score, threshold, holds, values: Some([Some(text.into()), None]) }
    }

    fn full(text: &str) -> Report {
        Report {
            title: text.into(),
            facts: vec![fact(text, text)],
            clauses: vec![Clause { text: text.into(), alone: u64::MAX, added: 1 }],
            scores: Some(Histogram { of: text.into(), low: 0.5, high: 1.0, counts: vec![3, 0, 7], missing: 2 }),
            measures: vec![Measures { title: text.into(), values: vec![fact(text, "1")] }],
            sweep: [0.0, 0.5, 1.0]
                .map(|threshold| Step { threshold, pairs: 9, precision: f64::NAN, recall: 0.5, f1: 0.1 })
                .into(),
            groups_are: text.into(),
            members_are: text.into(),
            groups: vec![Group { members: text.into(), groups: 5 }],
            largest: vec![Members {
                count: 3,
                columns: vec![text.into()],
                rows: vec![vec![Some(text.into())], vec![None]],
            }],
            explanations: vec![Explanation {
                clause: 1,
                parts: vec![
                    part(text, Some(0.9), Some(0.8), Some(true)),
                    part(text, Some(3.0), Some(2.0), Some(false)),
                    part(text, None, None, None),
                ],
            }],
            columns: vec![Column { table: text.into(), name: text.into(), rows: 9, nulls: 1, blanks: 0 }],
            unmatchable: vec![fact(text, "4")],
            settings: vec![fact(text, text)],
            rule: text.into(),
        }
    }

    #[test]
    fn every_text_is_escaped() {
        let html = full(EVIL).html();
        assert!(!html.contains("<svg onload") && !html.contains('\u{0}') && !html.contains('\u{1b}'), "{html}");
        assert_eq!(html.matches("</script>").count(), 4, "{html}");
        let safe = "&lt;/script&gt;&lt;svg onload=&#39;x&#39;&gt;&amp;&quot;\u{fffd}\u{fffd}";
        assert!(html.contains(&format!("<h1>{safe}</h1>")), "{html}");
        for chart in full(EVIL).charts() {
            assert!(!chart.svg().contains("<svg onload"), "{}", chart.svg());
            let parsed: serde_json::Value = serde_json::from_str(&chart.vega_lite()).unwrap();
            assert_eq!(parsed["$schema"], "https://vega.github.io/schema/vega-lite/v5.json");
        }
    }

    #[test]
    fn nothing_is_loaded_and_nothing_runs() {
        let html = full("text").html();
        for forbidden in ["src=", "href=", "@import", "url(", "<script>", "javascript", "onload"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn a_report_without_figures_is_a_page() {
        let report = Report { title: "Nothing".into(), ..Report::default() };
        assert!(report.charts().is_empty());
        let html = report.html();
        assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n") && !html.contains("<svg"), "{html}");
        let empty = Report { scores: Some(Histogram { counts: vec![], ..zero() }), ..Report::default() };
        assert!(empty.charts().is_empty());
    }

    fn zero() -> Histogram {
        Histogram { of: "0".into(), low: 0.0, high: 0.0, counts: vec![0], missing: 0 }
    }

    #[test]
    fn one_bar_zero_bars_and_huge_bars_stay_inside() {
        let counts = |counts: &[u64]| Report {
            scores: Some(Histogram { counts: counts.to_vec(), ..zero() }),
            ..Report::default()
        };
        for report in [counts(&[0]), counts(&[1]), counts(&[u64::MAX, 1]), counts(&vec![7; 500])] {
            let [chart] = &report.charts()[..] else { panic!("one chart") };
            let svg = chart.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("=\"-"), "{svg}");
            assert_eq!(svg.matches("class=\"fill-0\"").count(), chart.places.len());
        }
        assert!(counts(&[u64::MAX]).charts()[0].svg().contains(">20E</text>"));
    }

    #[test]
    fn measures_that_are_not_numbers_leave_a_gap() {
        let report = full("text");
        let [.., sweep, _] = &report.charts()[..] else { panic!("charts") };
        assert_eq!(sweep.svg().matches("<circle").count(), 6);
        assert!(sweep.vega_lite().contains("\"value\": null"), "{}", sweep.vega_lite());
        assert!(!sweep.svg().contains("NaN"));
    }

    #[test]
    fn a_pair_is_explained_by_bars() {
        let html = full("text").html();
        assert_eq!(html.matches("class=\"chart bar\"").count(), 2, "{html}");
        // a share of what is drawn, which ends at 1 or at the largest number of the part
        assert!(html.contains("<rect class=\"fill-0\" y=\"2\" width=\"126.0\""), "{html}");
        assert!(html.contains("<rect class=\"fill-1\" y=\"2\" width=\"140.0\""), "{html}");
        assert!(html.contains("x1=\"112.0\"") && html.contains("x1=\"93.3\""), "{html}");
        let mut without = full("text");
        without.explanations[0].parts = vec![Part { values: None, ..part("p", Some(f64::NAN), Some(-1.0), None) }];
        let html = without.html();
        assert!(!html.contains("NaN") && !html.contains("left row") && html.contains("<td>unknown</td>"), "{html}");
    }

    #[test]
    fn members_are_shown_only_where_there_are_columns() {
        let with = full("secret").html();
        assert!(with.contains("<td>secret</td>") && with.contains("3 secret, the first 2 shown"), "{with}");
        let largest = vec![Members { count: 12_345, ..Members::default() }];
        let without = Report { largest, members_are: "rows".into(), ..Report::default() }.html();
        assert!(without.contains("12,345") && !without.contains("<details"), "{without}");
    }
}
