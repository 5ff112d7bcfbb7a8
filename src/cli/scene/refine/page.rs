//! A page with the pictures of each scene: the first, what was missing, and the last.

use std::fmt::Write as _;
use std::path::Path;

use prepose::judge::scene::graph::name;
use prepose::judge::scene::score::Found;
use prepose_draw::plot::svg::escape;

use super::{Refined, Scene, beside};

const HEAD: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">
<title>Feedback</title>
<style>
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; }
section { border-top: 1px solid #8886; padding: 1rem 0; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1rem; }
figure { margin: 0; }
img { width: 100%; height: auto; border-radius: .3rem; }
figcaption { font-size: .875rem; }
</style></head><body>
<h1>Feedback</h1>
<p>Each scene's first picture, a picture of what was missing in it, and the last picture, which was shown both.</p>
";

/// The page; pictures are beside it.
pub fn page(folder: &Path, scenes: &[Scene], refined: &[Refined], alpha: f64) -> String {
    let mut html = HEAD.to_owned();
    for (number, (scene, one)) in scenes.iter().zip(refined).enumerate() {
        // Writing into a string cannot fail.
        let _ = writeln!(
            html,
            "<section><h2>{}</h2><div class=\"row\">",
            escape(&scene.text)
        );
        let first = format!("first/{:05}.png", number + 1);
        figure(
            &mut html,
            &first,
            &format!("First: {}", score(&one.first, alpha)),
            &scene.text,
        );
        match &one.made {
            None => html.push_str("<p>Nothing was missing.</p>"),
            Some([missing, last]) => {
                let prompt = one.missing.prompt();
                figure(
                    &mut html,
                    &beside(folder, missing),
                    &format!("Missing: {}", list(one)),
                    &prompt,
                );
                let caption = format!("Last: {}", score(&one.last, alpha));
                figure(&mut html, &beside(folder, last), &caption, &scene.text);
            }
        }
        html.push_str("</div></section>\n");
    }
    html + "</body></html>\n"
}

fn figure(html: &mut String, file: &str, caption: &str, alt: &str) {
    let [file, caption, alt] = [file, caption, alt].map(escape);
    // As above.
    let _ = write!(
        html,
        "<figure><img src=\"{file}\" alt=\"{alt}\" loading=\"lazy\"><figcaption>{caption}</figcaption></figure>"
    );
}

fn score(found: &Found, alpha: f64) -> String {
    match found.sgscore(alpha) {
        Some(score) => format!("SGScore {:.0} %", 100.0 * score),
        None => "no valid answer".into(),
    }
}

/// What is missing, in words.
fn list(one: &Refined) -> String {
    let edges = one.missing.relationships.iter();
    let edges = edges.map(|edge| {
        format!(
            "{} {} {}",
            name(&edge.source),
            edge.relation,
            name(&edge.target)
        )
    });
    let ends = |object: &String| {
        let mut edges = one.missing.relationships.iter();
        edges.any(|edge| edge.source == *object || edge.target == *object)
    };
    let alone = one.missing.objects.iter().filter(|object| !ends(object));
    let alone = alone.map(|object| name(object).to_owned());
    edges.chain(alone).collect::<Vec<_>>().join(", ")
}
