//! A simulation as a drawing.

use plotters::coord::Shift;
use plotters::{
    chart::ChartBuilder,
    drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _},
    element::Circle,
    prelude::SVGBackend,
    series::LineSeries,
    style::{Color as _, RGBColor, ShapeStyle},
};
use windlass_api::analysis::Phase;

use super::{
    chart::{bounds, measured, metrics},
    story::Simulation,
};

const WIDTH: u32 = 960;
const WEIGHT_HEIGHT: u32 = 280;
const METRIC_HEIGHT: u32 = 180;

const BLUE: RGBColor = RGBColor(31, 98, 172);
const GREEN: RGBColor = RGBColor(46, 125, 50);
const RED: RGBColor = RGBColor(198, 40, 40);
const GREY: RGBColor = RGBColor(120, 120, 120);

/// Why nothing could be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the chart: {0}")]
pub struct DrawError(String);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The drawing as SVG: the weight over time, and below it every metric with its verdicts.
pub fn svg(simulation: &Simulation) -> Result<String, DrawError> {
    let mut text = String::new();
    let names = metrics(simulation);
    let count = u32::try_from(names.len()).unwrap_or(0);
    {
        let height = WEIGHT_HEIGHT + METRIC_HEIGHT * count;
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        area.fill(&RGBColor(255, 255, 255)).map_err(|error| failed(&error))?;
        let (top, mut rest) = area.split_vertically(WEIGHT_HEIGHT);
        weight(simulation, &top).map_err(|error| failed(&error))?;
        for name in &names {
            let (this, below) = rest.split_vertically(METRIC_HEIGHT);
            metric(simulation, name, &this).map_err(|error| failed(&error))?;
            rest = below;
        }
        area.present().map_err(|error| failed(&error))?;
    }
    Ok(text)
}

fn failed<E: std::error::Error + Send + Sync>(error: &DrawingAreaErrorKind<E>) -> DrawError {
    DrawError(error.to_string())
}

fn end(simulation: &Simulation) -> f64 {
    simulation.moments.last().map_or(1.0, |moment| moment.at.as_secs_f64()).max(1.0)
}

fn weight<'a>(
    simulation: &Simulation,
    area: &Area<'a>,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as plotters::prelude::DrawingBackend>::ErrorType>> {
    let end = end(simulation);
    let title = format!("{}: share of the new version in percent", simulation.rollout);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..end, 0.0..100.0)?;
    chart.configure_mesh().x_desc("seconds").light_line_style(GREY.mix(0.1)).draw()?;
    let mut points = Vec::new();
    let mut last = 0.0;
    for moment in &simulation.moments {
        let (at, level) = (moment.at.as_secs_f64(), f64::from(moment.weight));
        points.extend([(at, last), (at, level)]);
        last = level;
    }
    points.push((end, last));
    chart.draw_series(LineSeries::new(
        points,
        ShapeStyle { color: BLUE.to_rgba(), filled: false, stroke_width: 2 },
    ))?;
    Ok(())
}

fn metric<'a>(
    simulation: &Simulation,
    name: &str,
    area: &Area<'a>,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as plotters::prelude::DrawingBackend>::ErrorType>> {
    let measured = measured(simulation, name);
    let numbers: Vec<f64> = measured.iter().filter_map(|(_, it)| it.number).collect();
    let (low, high) = bounds(&numbers);
    let room = if high > low { (high - low) * 0.1 } else { high.abs().max(1.0) * 0.1 };
    let mut chart = ChartBuilder::on(area)
        .caption(name, ("sans-serif", 14))
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..end(simulation), (low - room)..(high + room))?;
    chart.configure_mesh().light_line_style(GREY.mix(0.1)).draw()?;
    let point = |at: std::time::Duration, number: Option<f64>| (at.as_secs_f64(), number.unwrap_or(low));
    let line = measured.iter().filter(|(_, it)| it.number.is_some()).map(|(at, it)| point(*at, it.number));
    chart.draw_series(LineSeries::new(line, GREY.mix(0.6)))?;
    chart.draw_series(measured.iter().map(|(at, it)| {
        let colour = match it.phase {
            Phase::Successful => GREEN,
            Phase::Failed => RED,
            _ => GREY,
        };
        // What found no number is drawn at the bottom, hollow.
        let style = ShapeStyle { color: colour.to_rgba(), filled: it.number.is_some(), stroke_width: 1 };
        Circle::new(point(*at, it.number), 4, style)
    }))?;
    Ok(())
}
