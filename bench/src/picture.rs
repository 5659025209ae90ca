//! Throughput over time as a picture: one SVG for each case, a line for each tool.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::record::{BenchPass, BenchRecord, CaseRecord, LinkRecord, RunOutcome, RunRecord};
use crate::units::{show_rate, show_seconds};

const WIDTH: f64 = 860.0;
/// The plot within the picture.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 300.0;
const HEIGHT: f64 = 348.0;
/// Points of a line at most; of a longer run several intervals are one point.
const POINTS: usize = 240;
/// The time axis ends here, in durations of the quickest run: else one slow tool leaves no room for the others.
const LONGEST: f64 = 4.0;
/// The first is haul's. Told apart by people who see no red or no green too (Okabe and Ito, 2008).
const COLOURS: [&str; 8] =
    ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c6d31", "#777777"];

/// A tool's run in the picture.
struct PictureLine<'a> {
    tool: &'a str,
    seconds: f64,
    colour: &'a str,
    width: f64,
    /// Seconds between two of `rates`.
    step: f64,
    /// Megabytes per second.
    rates: Vec<f64>,
}

/// Writes `CASE.svg` to `dir` for each case over a link.
pub(crate) fn write(record: &BenchRecord, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for case in &record.cases {
        if let Some(picture) = draw(case) {
            let path = dir.join(format!("{}.svg", case.case));
            fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// The run with the median time among the successful runs of a tool, and the record of its link.
fn typical(runs: &[RunRecord]) -> Option<(&RunRecord, &LinkRecord)> {
    let good = runs.iter().filter(|run| run.pass != BenchPass::Prepare && run.outcome == RunOutcome::Ok);
    let mut good: Vec<_> = good.filter_map(|run| Some((run, run.link.as_ref()?))).collect();
    good.sort_by(|a, b| a.0.seconds.total_cmp(&b.0.seconds));
    good.get(good.len() / 2).copied()
}

fn lines(case: &CaseRecord) -> Vec<PictureLine<'_>> {
    let runs: Vec<_> = case.tools.iter().filter_map(|tool| Some((tool, typical(&tool.runs)?))).collect();
    let bytes = |series: fn(&LinkRecord) -> &[u64]| -> u64 {
        runs.iter().flat_map(|(_, (_, link))| series(link)).sum()
    };
    // The way that the content took.
    let there = bytes(|link| &link.there_series) >= bytes(|link| &link.back_series);
    let quickest = runs.iter().map(|(_, (run, _))| run.seconds).fold(f64::INFINITY, f64::min);
    let lines = runs.iter().enumerate().map(|(at, (tool, (run, link)))| {
        let series = if there { &link.there_series } else { &link.back_series };
        let shown = (quickest * LONGEST / link.interval).ceil() as usize;
        let series = &series[..series.len().min(shown)];
        // Two intervals at least: who reads the counters is late at times.
        let merged = series.len().div_ceil(POINTS).max(2);
        let step = link.interval * merged as f64;
        let rate = |part: &[u64]| part.iter().sum::<u64>() as f64 / (link.interval * part.len() as f64) / 1e6;
        PictureLine {
            tool: &tool.tool,
            seconds: run.seconds,
            colour: COLOURS[at % COLOURS.len()],
            width: if tool.peer { 1.4 } else { 2.2 },
            step,
            rates: series.chunks(merged).map(rate).collect(),
        }
    });
    lines.collect()
}

/// The picture of a case; none where nothing ran over a link.
fn draw(case: &CaseRecord) -> Option<String> {
    let lines = lines(case);
    let link = case.link.as_ref()?;
    let longest = lines.iter().map(|line| line.step * line.rates.len() as f64).reduce(f64::max)?;
    let highest = lines.iter().flat_map(|line| &line.rates).copied().fold(0.0, f64::max);
    let line_rate = link.rate as f64 / 8e6;
    // A link that nobody filled by half would press the lines to the ground.
    let top = if highest * 2.0 > line_rate { highest.max(line_rate) } else { highest } * 1.05;
    let scale = Scale { longest, top };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{}: {}</text>\n",
        escape(&case.case),
        escape(&format!("{}, {}", case.about, case.way)),
    );
    draw_axes(&mut svg, &scale, line_rate);
    draw_lines(&mut svg, &scale, &lines);
    draw_legend(&mut svg, &lines, link.rate);
    Some(svg)
}

/// The scale of the axes.
struct Scale {
    /// Seconds at the right end.
    longest: f64,
    /// MB/s at the top.
    top: f64,
}

impl Scale {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * seconds / self.longest
    }

    fn y(&self, rate: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * rate / self.top
    }
}

/// Draws both axes with their labels, and the rate of the link.
fn draw_axes(svg: &mut String, scale: &Scale, line_rate: f64) {
    for rate in ticks(scale.top) {
        let (at, label) = (scale.y(rate), number(rate));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"#e4e4e4\"/><text x=\"{:.0}\" y=\"{:.1}\" \
             text-anchor=\"end\">{label}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for seconds in ticks(scale.longest) {
        let (at, label) = (scale.x(seconds), number(seconds));
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {BOTTOM}v5\" stroke=\"#999\"/><text x=\"{at:.1}\" y=\"{:.0}\" \
             text-anchor=\"middle\">{label}</text>",
            BOTTOM + 19.0
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {BOTTOM}H{RIGHT}\" stroke=\"#999\"/>\n\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">seconds from the start of the command</text>\n\
         <text transform=\"translate(14 {:.0}) rotate(-90)\" text-anchor=\"middle\">MB/s on the link</text>",
        (LEFT + RIGHT) / 2.0,
        HEIGHT - 10.0,
        (TOP + BOTTOM) / 2.0
    );
    if line_rate <= scale.top {
        let at = scale.y(line_rate);
        let _ =
            writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"#333\" stroke-dasharray=\"2 4\"/>");
    }
}

/// Draws the throughput of each tool.
fn draw_lines(svg: &mut String, scale: &Scale, lines: &[PictureLine]) {
    // The first is drawn last, on top of the others.
    for line in lines.iter().rev() {
        let points =
            line.rates.iter().enumerate().map(|(at, rate)| {
                format!("{:.1},{:.1}", scale.x((at as f64 + 0.5) * line.step), scale.y(*rate))
            });
        let points: Vec<String> = points.collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\" points=\"{}\"/>",
            line.colour,
            line.width,
            points.join(" ")
        );
    }
}

/// Draws the names of the tools and the rate of the link.
fn draw_legend(svg: &mut String, lines: &[PictureLine], rate: u64) {
    let left = RIGHT + 18.0;
    let mut row = TOP + 6.0;
    for line in lines {
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {row:.0}h20\" stroke=\"{}\" stroke-width=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{}, {} s</text>",
            line.colour,
            line.width,
            left + 27.0,
            row + 4.0,
            escape(line.tool),
            show_seconds(line.seconds)
        );
        row += 21.0;
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{left} {row:.0}h20\" stroke=\"#333\" stroke-dasharray=\"2 4\"/>\
         <text x=\"{:.0}\" y=\"{:.0}\">the link, {}</text>\n</svg>",
        left + 27.0,
        row + 4.0,
        show_rate(rate)
    );
}

/// Round numbers from 0 to `end`, three to seven.
fn ticks(end: f64) -> Vec<f64> {
    let rough = (end / 7.0).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].iter().map(|n| n * power).find(|step| *step >= rough).unwrap_or(10.0 * power);
    (0..).map(|n| f64::from(n) * step).take_while(|at| *at <= end).collect()
}

fn number(value: f64) -> String {
    let rounded = (value * 1e3).round() / 1e3;
    format!("{rounded}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::TreeSize;
    use crate::link::{LinkSpec, LinkTraffic};
    use crate::record::ToolRecord;
    use std::time::Duration;

    fn tool(name: &str, peer: bool, series: &[u64]) -> ToolRecord {
        let link = LinkRecord {
            cpu_seconds: 0.0,
            there: LinkTraffic::default(),
            back: LinkTraffic::default(),
            interval: 0.1,
            there_series: vec![10; series.len()],
            back_series: series.to_vec(),
        };
        let run = RunRecord::new(1, BenchPass::First, RunOutcome::Ok, series.len() as f64 / 10.0);
        let run = RunRecord { link: Some(link), ..run };
        ToolRecord::of_runs(name, peer, vec![run])
    }

    fn case(tools: Vec<ToolRecord>) -> CaseRecord {
        CaseRecord {
            case: "a<b".to_owned(),
            about: "about".to_owned(),
            way: "pull".to_owned(),
            link: Some(LinkSpec::new(1_000_000_000, Duration::from_millis(60))),
            queue_bytes: None,
            delay: None,
            directory: String::new(),
            data: String::new(),
            extent: TreeSize { files: 1, directories: 0, bytes: 1 },
            by_promise: false,
            tools,
            skipped: Vec::new(),
        }
    }

    #[test]
    fn the_way_of_the_content_is_drawn_and_a_slow_tool_leaves_room() {
        let case = case(vec![tool("haul", false, &[12_500_000; 10]), tool("slow", true, &[1_000_000; 3000])]);
        let lines = lines(&case);
        assert_eq!(lines[0].rates, [125.0; 5]);
        assert_eq!(lines[1].rates, [10.0; 20], "as long as four of the quickest");
        let svg = draw(&case).unwrap();
        assert!(svg.contains("a&lt;b") && svg.contains("slow, 300 s") && svg.contains("the link, 1 Gbit/s"));
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(draw(&self::case(Vec::new())).is_none());
    }

    #[test]
    fn a_long_run_has_no_more_points_than_can_be_seen() {
        let case = case(vec![tool("haul", false, &vec![1_000_000; 1001])]);
        let lines = lines(&case);
        assert!(lines[0].rates.len() <= POINTS);
        assert!(lines[0].rates.iter().all(|rate| (rate - 10.0).abs() < 1e-9), "the last, shorter, too");
    }

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(ticks(131.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0]);
        assert_eq!(ticks(9.9), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(number(0.1 + 0.2), "0.3");
    }
}
