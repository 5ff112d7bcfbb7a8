//! The page: one HTML file, its styles and modules, as they are in this folder. There is no build step; the program carries them.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its name in this folder; `page.html` is served at `/`, all others at `/page/NAME`.
    pub name: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
}

macro_rules! files {
    ($($name:literal $kind:literal;)*) => {
        &[$(File { name: $name, kind: $kind, text: include_str!($name) }),*]
    };
}

/// Every file of the page.
pub const FILES: &[File] = files! {
    "page.html" "text/html; charset=utf-8";
    "page.css" "text/css; charset=utf-8";
    "compose.css" "text/css; charset=utf-8";
    "stage.css" "text/css; charset=utf-8";
    "history.css" "text/css; charset=utf-8";
    "theme.js" "text/javascript; charset=utf-8";
    "acts.js" "text/javascript; charset=utf-8";
    "api.js" "text/javascript; charset=utf-8";
    "board.js" "text/javascript; charset=utf-8";
    "box-list.js" "text/javascript; charset=utf-8";
    "boxes.js" "text/javascript; charset=utf-8";
    "compose.js" "text/javascript; charset=utf-8";
    "curve.js" "text/javascript; charset=utf-8";
    "detail.js" "text/javascript; charset=utf-8";
    "dom.js" "text/javascript; charset=utf-8";
    "drop.js" "text/javascript; charset=utf-8";
    "facts.js" "text/javascript; charset=utf-8";
    "form.js" "text/javascript; charset=utf-8";
    "history.js" "text/javascript; charset=utf-8";
    "jobs.js" "text/javascript; charset=utf-8";
    "lanes.js" "text/javascript; charset=utf-8";
    "loras.js" "text/javascript; charset=utf-8";
    "main.js" "text/javascript; charset=utf-8";
    "maps.js" "text/javascript; charset=utf-8";
    "overlay.js" "text/javascript; charset=utf-8";
    "pane.js" "text/javascript; charset=utf-8";
    "png.js" "text/javascript; charset=utf-8";
    "prompt.js" "text/javascript; charset=utf-8";
    "runs.js" "text/javascript; charset=utf-8";
    "shown.js" "text/javascript; charset=utf-8";
    "sign-in.js" "text/javascript; charset=utf-8";
    "spell.js" "text/javascript; charset=utf-8";
    "stage.js" "text/javascript; charset=utf-8";
    "start.js" "text/javascript; charset=utf-8";
    "stream.js" "text/javascript; charset=utf-8";
    "theme-switch.js" "text/javascript; charset=utf-8";
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// What stands between `before` and `after`, wherever it does.
    fn between<'a>(text: &'a str, before: &str, after: char) -> impl Iterator<Item = &'a str> {
        let pieces: Vec<&str> = text.split(before).skip(1).collect();
        pieces
            .into_iter()
            .filter_map(move |piece| piece.split(after).next())
    }

    #[test]
    fn the_table_names_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let present: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.ends_with(".rs"))
            .collect();
        let named: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(named, present);
    }

    #[test]
    fn whatever_the_page_asks_for_is_there_and_asked_for() {
        let mut asked = BTreeSet::from(["page.html"]);
        for file in FILES {
            asked.extend(between(file.text, "\"page/", '"'));
            asked.extend(between(file.text, "from './", '\''));
        }
        let named: BTreeSet<&str> = FILES.iter().map(|file| file.name).collect();
        assert_eq!(asked, named);
    }

    #[test]
    fn a_strict_policy_lets_the_page_through() {
        for File { name, text, .. } in FILES {
            for inline in [
                "style=\"",
                "onclick=\"",
                "javascript:",
                "innerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "http://",
                "https://",
            ] {
                // The name of SVG is no address.
                let text = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(inline), "{name} has {inline}");
            }
            assert!(
                !text.contains("<style") && !text.contains("<script>"),
                "{name} has something inline"
            );
            assert!(
                text.lines().count() <= 400,
                "{name} is longer than a module should be"
            );
        }
    }
}
