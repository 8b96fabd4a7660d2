//! `catlab report`: draws runs as one page of figures and charts.

use crate::out_folder::{Force, refuse_file, refuse_input, write_file};
use clap::Args;
use report::Run;
use report::pictures::{self, ImageFormat};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab report run1
  catlab report before after --out before-and-after.html
  catlab report run1 kxdpgun.json dnsperf.txt --svg pictures --png pictures

A run is a folder of `catlab load --out`, the output of `kxdpgun -j`, or the output of dnsperf. The page is one file
that needs no network. An existing page or picture is only replaced with --force.

Exit code 0: the page was written; 2: it was not.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Runs. Several runs are drawn into the same charts.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Output page.
    #[arg(long, default_value = "report.html", value_name = "FILE")]
    out: PathBuf,
    /// Title of the page.
    #[arg(long)]
    title: Option<String>,
    /// Also write each chart as an SVG file to this folder.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write each chart as a PNG file (1,800 x 840 pixels) to this folder.
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
    /// Replace an existing page and existing charts.
    #[arg(long)]
    force: bool,
}

/// Writes the page.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("catlab report: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    refuse_input(&arguments.out, &arguments.runs)?;
    let force = Force { force: arguments.force };
    refuse_file(&arguments.out, force)?;
    let runs = arguments.runs.iter().map(|path| Run::read(path)).collect::<Result<Vec<_>, _>>()?;
    let labels: Vec<_> = runs.iter().map(|run| run.label.as_str()).collect();
    let title = arguments.title.clone().unwrap_or_else(|| format!("DNS load: {}", labels.join(", ")));
    let mut pictures = Vec::new();
    for (folder, form) in [(&arguments.svg, ImageFormat::Svg), (&arguments.png, ImageFormat::Png)] {
        let Some(folder) = folder else { continue };
        std::fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        pictures
            .extend(pictures::all(&runs, form).into_iter().map(|picture| (folder.join(&picture.file_name), picture)));
    }
    pictures.iter().try_for_each(|(path, _)| refuse_file(path, force))?;
    let drawn = pictures.into_iter().map(|(path, picture)| Ok((path, picture.draw()?)));
    let mut files = vec![(arguments.out.clone(), report::page(&runs, &title).into_bytes())];
    files.extend(drawn.collect::<Result<Vec<_>, String>>()?);
    files.iter().try_for_each(|(path, bytes)| write_file(path, bytes))?;
    files.iter().map(|(path, _)| path).for_each(|path| println!("{}", path.display()));
    Ok(())
}
