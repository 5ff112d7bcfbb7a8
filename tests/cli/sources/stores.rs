//! Runs in an object store, of pictures from elsewhere.

use std::fs;
use std::path::Path;
use std::process::Command;

use prepose::remote::stub::{Reply, Stub};

use super::endpoint::{KEY, endpoint, good, pictures};
use super::maker::MAKER;
use super::pictures::lay_out;
use super::{FOUR, engine, same};
use crate::run::{finish, prepose, refused};
use crate::support::gateway::Gateway;

/// The run of the four prompts into `s3://bucket/NAME`.
fn into_store(gateway: &Gateway, name: &str, more: &[&str]) -> Command {
    let mut command = prepose(&FOUR);
    command
        .args(["--seeds", "0-1", "--batch", "4", "--out"])
        .arg(format!("s3://bucket/{name}"))
        .args(more)
        .env("AWS_ENDPOINT_URL", &gateway.url)
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("MY_KEY", KEY);
    command
}

/// Makes sure that the run in the store is that of the engine.
fn same_as_engine(gateway: &Gateway, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join(name);
    for (file, bytes) in gateway.files() {
        if let Some(file) = file.strip_prefix(&format!("/bucket/{name}/")) {
            assert!(!file.contains("/received/"), "{file}");
            let path = run.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
    same(&run, &engine().run);
}

#[test]
fn pictures_from_anywhere_go_into_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(|_| None);

    // A folder.
    let there = folder.path().join("there");
    lay_out(&there, |_, number, _, seed| format!("{number}_{seed}.png"));
    let from_folder = ["--pictures", there.to_str().unwrap(), "--layout", "visor"];
    finish(into_store(&gateway, "pictures", &from_folder));
    same_as_engine(&gateway, "pictures");

    // A program.
    for (id, _, seed, path) in &engine().pictures {
        fs::copy(path, folder.path().join(format!("{id}_{seed}.png"))).unwrap();
    }
    let script = folder.path().join("maker.sh");
    fs::write(&script, MAKER).unwrap();
    let maker = format!("sh {}", script.display());
    let mut command = into_store(&gateway, "maker", &["--maker", &maker]);
    command.env("PICTURES", folder.path());
    finish(command);
    same_as_engine(&gateway, "maker");
}

#[test]
fn what_a_server_gave_is_in_the_store_when_the_run_goes_on() {
    let gateway = Gateway::start(|_| None);
    let all = pictures();
    // Of three alone, and of the others when it is asked again.
    let stub = Stub::start(move |asked| match asked.before {
        0..3 => good(&all, asked),
        3 => Reply::error(401, "invalid_api_key", "no more"),
        _ => good(&all, asked),
    })
    .unwrap();
    let args = endpoint(&stub.address, &["--parallel", "1"]);
    let error = refused(into_store(&gateway, "server", &args));
    assert!(error.contains("no more"), "{error}");
    let kept = |part: &str| {
        let names = gateway.names();
        names.iter().filter(|name| name.contains(part)).count()
    };
    // They are in a window of pictures of which one failed, and wait for the others.
    assert_eq!((kept("/received/"), kept("/images/")), (3, 0));
    finish(into_store(&gateway, "server", &args));
    same_as_engine(&gateway, "server");
    assert_eq!(stub.count(), 8 + 1);
    // It is complete: nothing is asked for again.
    finish(into_store(&gateway, "server", &args));
    assert_eq!(stub.count(), 8 + 1);
    assert!(!Path::new("s3:").exists());
}
