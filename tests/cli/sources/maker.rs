//! Programs that make pictures, and do what they should not.

use std::fs;

use serde_json::Value;

use super::{engine, four, same};
use crate::run::{finish, refused};

/// A maker in the shell that gives the pictures in a folder, named by prompt and seed.
pub const MAKER: &str = r#"
field() { printf '%s\n' "$line" | sed "s/.*\"$1\":\"\{0,1\}\([^\",}]*\)\"\{0,1\}[,}].*/\1/"; }
echo '{"type":"hello","protocol":1,"name":"copier","version":"2","at_once":3}'
while read -r line; do
  id=$(field id); out=$(field out)
  cp "$PICTURES/$(field prompt_id)_$(field seed).png" "$out/$id.png" || exit 3
  echo "{\"type\":\"done\",\"id\":\"$id\",\"path\":\"$out/$id.png\"}"
done
"#;

#[test]
fn a_program_makes_the_engines_run() {
    let folder = tempfile::tempdir().unwrap();
    for (id, _, seed, path) in &engine().pictures {
        fs::copy(path, folder.path().join(format!("{id}_{seed}.png"))).unwrap();
    }
    let script = folder.path().join("maker.sh");
    fs::write(&script, MAKER).unwrap();
    let command = format!("API_TOKEN=SECRET sh {}", script.display());
    let run = folder.path().join("run");
    let made = |out: &std::path::Path| {
        let mut made = four(out, &["--maker", &command, "--steps", "3", "--size", "64"]);
        made.env("PICTURES", folder.path());
        made
    };
    finish(made(&run));
    same(&run, &engine().run);
    let config: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    let source = serde_json::json!({"kind": "maker", "name": "copier", "version": "2", "wishes": {"size": [64, 64], "steps": 3}});
    assert_eq!(config["source"], source);
    let provenance = fs::read_dir(run.join("provenance"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let provenance = fs::read_to_string(provenance).unwrap();
    assert!(
        provenance.contains("API_TOKEN=*** sh") && !provenance.contains("SECRET"),
        "{provenance}"
    );
    // One that ends now and then is started again, and what it had made is kept.
    let (_, _, _, first) = &engine().pictures[7];
    let hidden = folder.path().join("hidden.png");
    let last = format!("{}_1.png", engine().pictures[7].0);
    fs::rename(folder.path().join(&last), &hidden).unwrap();
    let broken = folder.path().join("broken");
    let error = refused(made(&broken));
    assert!(
        error.contains("the maker ended (exit status: 3)") && error.contains("cp: "),
        "{error}"
    );
    assert!(
        fs::read_dir(broken.join("prompt-only/images"))
            .unwrap()
            .count()
            >= 6
    );
    fs::copy(first, folder.path().join(&last)).unwrap();
    finish(made(&broken));
    same(&broken, &engine().run);
}

#[test]
fn wrong_programs_have_one_clear_message_each() {
    let folder = tempfile::tempdir().unwrap();
    for (command, wanted) in [
        (
            "no-such-program-here",
            "the maker ended (exit status: 127) and was to say hello",
        ),
        (
            "echo Loading; sleep 9",
            "wrote \"Loading\" on its standard output, which is not JSON",
        ),
        (
            "true",
            "the maker ended (exit status: 0) and was to say hello; it wrote nothing",
        ),
        (
            "echo '{\"type\":\"hello\"}'; read -r line; echo '{\"type\":\"done\",\"id\":\"x\",\"path\":\"x.png\"}'; sleep 9",
            "about no picture that it was asked for",
        ),
    ] {
        let error = refused(four(&folder.path().join("run"), &["--maker", command]));
        assert!(error.contains(wanted), "{error}");
    }
}
