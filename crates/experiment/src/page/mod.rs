//! The page of an experiment.
//!
//! ```text
//!   cells/*/cell.json --> results: combinations --+--> claims, verdicts --> claims.json
//!                                                 +--> pictures (SVG, PNG)
//!                                                 +--> html, readme --> index.html, README.md
//!                                                 +--> csv --> cells.csv
//! ```

// The results.
pub(crate) mod machine;
pub(crate) mod results;
// The files of the page.
mod csv;
mod html;
mod pictures;
mod readme;
mod timeline;
mod verdicts;

#[cfg(test)]
mod tests;

pub use verdicts::Verdicts;

use crate::claim::judge;
use crate::definition::Experiment;
use crate::run::COMMAND;
use pictures::DrawnPicture;
use report::pictures::ImageFormat;
use results::Results;
use std::path::{Path, PathBuf};

/// The file with the figures of all cells.
const CELLS: &str = "cells.csv";

/// The contents of all files of a page.
struct Page<'e> {
    experiment: &'e Experiment,
    results: Results,
    verdicts: Verdicts,
    pictures: Vec<DrawnPicture>,
    /// The machines that ran the loads.
    machines: Vec<String>,
}

/// Reads the results of the cells in `folder/cells`, judges the claims, and writes `index.html`, `README.md`, the
/// pictures, `claims.json` and `cells.csv` into the folder.
///
/// # Errors
/// If a result cannot be read, a claim or picture names something unknown, or a file cannot be written.
pub fn write(folder: &Path, experiment: &Experiment) -> Result<Verdicts, String> {
    let results = Results::read(folder, experiment)?;
    let claims = experiment.claims.iter().map(|claim| judge(claim, experiment, &results.cells));
    let verdicts = Verdicts { claims: claims.collect::<Result<_, _>>()? };
    let pictures = pictures::draw(folder, experiment, &results)?;
    let machines = machine::machines(folder, &results.cells);
    for picture in &pictures {
        for (format, extension) in [(ImageFormat::Svg, "svg"), (ImageFormat::Png, "png")] {
            save(folder, &format!("{}.{extension}", picture.file_stem), &picture.chart.draw(format)?)?;
        }
    }
    // A definition that was changed has fewer pictures.
    for number in pictures.len() + 1.. {
        let files = ["svg", "png"].map(|extension| folder.join(format!("picture-{number}.{extension}")));
        if files.iter().all(|file| std::fs::remove_file(file).is_err()) {
            break;
        }
    }
    let page = Page { experiment, results, verdicts, pictures, machines };
    save(folder, CELLS, page.results.csv(experiment).as_bytes())?;
    save(folder, "claims.json", page.verdicts.json(&experiment.title)?.as_bytes())?;
    save(folder, "README.md", page.readme().as_bytes())?;
    save(folder, "index.html", page.html()?.as_bytes())?;
    Ok(page.verdicts)
}

/// Copies the page of a run into a folder of documentation: `NAME.md`, its pictures as `NAME-1.svg` and so on, and the
/// figures of all cells as `NAME.csv`.
///
/// # Errors
/// The run has no page, or a file cannot be written.
pub fn publish(folder: &Path, name: &str, to: &Path) -> Result<PathBuf, String> {
    let read = |file: &str| {
        let path = folder.join(file);
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    std::fs::create_dir_all(to).map_err(|error| format!("cannot create {}: {error}", to.display()))?;
    let mut text = read("README.md")?;
    for number in 1.. {
        let (picture, published) = (format!("picture-{number}"), format!("{name}-{number}.svg"));
        if !folder.join(format!("{picture}.svg")).exists() {
            break;
        }
        save(to, &published, read(&format!("{picture}.svg"))?.as_bytes())?;
        text = text.replace(&format!("]({picture}.svg)\n\n[PNG]({picture}.png)\n"), &format!("]({published})\n"));
    }
    save(to, &format!("{name}.csv"), read(CELLS)?.as_bytes())?;
    text = text.replace(&format!("]({CELLS})"), &format!("]({name}.csv)"));
    let command = read(COMMAND)?;
    let run = format!("\n```sh\n{}\n```\n\n## Claims\n", command.trim());
    save(to, &format!("{name}.md"), text.replacen("\n## Claims\n", &run, 1).as_bytes())?;
    Ok(to.join(format!("{name}.md")))
}

fn save(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::write(&path, bytes)
        .map_err(|error| format!("cannot write {}: {error}; check the permissions and the free space", path.display()))
}
